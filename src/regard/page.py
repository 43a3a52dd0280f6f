"""A page that is one file: its style, its data and its script are in it, and it may ask nobody for more."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

__all__ = ["asset", "document", "encoded"]


def document(title: str, body: str, *, style: str, script: str, reach: str = "'none'") -> str:
    """The page with ``body``, HTML, under the style and script that all pages share and those of its own.

    ``reach`` is whom the script may ask, a source of Content-Security-Policy; nobody unless the page is served.

    >>> page = document("1 < 2", "<p>so it is</p>", style="p{margin:0}", script="regard.dark")
    >>> "<title>1 &lt; 2</title>" in page, "connect-src 'none'" in page, page.count("<script")
    (True, True, 1)
    """
    policy = f"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src {reach}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<style>{asset('regard', 'page.css')}{style}</style></head>\n"
        f"<body>{body}\n<script>{asset('regard', 'page.js')}{script}</script></body></html>\n"
    )


def encoded(data: Any) -> str:
    """``data`` as JSON that ends no script element and opens no comment.

    >>> print(encoded(["</script>", "<!--"]))
    ["\\u003c/script>","\\u003c!--"]
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def asset(room: str, name: str) -> str:
    """A file that lies beside the code of ``room``."""
    return (files(room) / name).read_text(encoding="utf-8")
