"""A look at a translation: the words, where the decoder looked for each, and drawings of it."""

from regard.translate.look.look import REMINDER, Look, Word, from_translation, look

__all__ = ["REMINDER", "Look", "Word", "from_translation", "look"]
