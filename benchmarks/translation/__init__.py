"""Translators compared: the models, from one fixed vector to attention, on the same text, and how long sentences fare.

``corpora`` says what text there is and how it is parted, ``entrants`` which models are trained and how, ``scores`` what
a translation is worth with how much doubt, ``comparison`` trains, translates and reports. ``regard bench translate
--corpus NAME --model NAMES`` runs them.
"""
