"""Encoder-decoder translators that look at the source as they write: models, training, decoding.

``regard.translate.translator.Translator`` translates, ``regard.translate.training.run.train`` trains, and
``regard.translate.shipped.load`` gives the models that come with the package. Nothing is imported here, so that asking
for one of them does not pay for the others.
"""
