"""The translators that come with the package: English to French and English to Chinese."""

from __future__ import annotations

from pathlib import Path

from regard.errors import unknown_name
from regard.translate.translator import Translator

__all__ = ["LANGUAGES", "directory", "load"]

LANGUAGES = {"fr": "en-fr", "zh": "en-zh"}


def directory(to: str = "fr") -> Path:
    """Where the model that translates English to language ``to`` lies; its ``CARD.md`` says what it was made from.

    Raises:
        RegardError: no model of that language is shipped (lists those that are).

    >>> directory("fr").name
    'en-fr'
    """
    if to not in LANGUAGES:
        raise unknown_name("to", to, LANGUAGES)
    return Path(__file__).parent / "shipped" / LANGUAGES[to]


def load(to: str = "fr") -> Translator:
    """The shipped translator from English to language ``to``.

    >>> load(to="de")
    Traceback (most recent call last):
    regard.errors.RegardError: to: unknown name 'de'. Known: fr, zh
    """
    return Translator.load(directory(to))
