"""Other people's models: taken from where they lie, and run by this package's engines.

`load` finds a model by a name typed at a command line; `huggingface.use` makes a Hugging Face model read by regard.
Nothing here imports transformers until a Hugging Face model is asked for.
"""
