"""A server for this machine alone, from the standard library, that draws any part of any head's map when asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from regard.doctor.inspect.maps import Source, draw
from regard.doctor.inspect.page import described
from regard.errors import RegardError

__all__ = ["server"]

HOST = "127.0.0.1"
MOST = 512  # cells a side that one request may ask for


def server(page: str, sources: Mapping[int, Source], port: int = 0) -> ThreadingHTTPServer:
    """A server of ``page`` and of the maps of ``sources``, by the page's numbers; ``port`` 0 takes any free one.

    It answers to this machine's own browser only: it listens on 127.0.0.1, and refuses a request whose Host is another
    name, as a page elsewhere would have it that points its own name here.

    Raises:
        RegardError: the port cannot be listened on.
    """
    lock = Lock()  # one map at a time: each uses all cores

    def drawn(words: dict[str, str]) -> str:
        head = _number(words, "head", 0, max(sources, default=0))
        if head not in sources:
            raise RegardError(f"head: found {head}, which has no map")
        source = sources[head]
        L, S = source.size
        top, left = _number(words, "top", 0, L - 1), _number(words, "left", 0, S - 1)
        bottom, right = _number(words, "bottom", top + 1, L), _number(words, "right", left + 1, S)
        cells = _number(words, "cells", 1, MOST)
        with lock:
            return json.dumps(described(draw(source, (top, bottom), (left, right), cells)))

    try:
        return ThreadingHTTPServer((HOST, port), _handler(page, drawn))
    except OSError as error:
        raise RegardError(
            f"--port: cannot listen on {HOST}:{port}: {error.strerror}; take another, or 0 for any"
        ) from error


def _handler(page: str, drawn: Callable[[dict[str, str]], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if (self.headers.get("Host") or "").rpartition(":")[0] not in (HOST, "localhost"):
                self._answer(403, "text/plain", "this server answers to 127.0.0.1 only")
            elif asked.path == "/":
                self._answer(200, "text/html", page)
            elif asked.path == "/map":
                try:
                    found = drawn({key: values[-1] for key, values in parse_qs(asked.query).items()})
                except RegardError as error:
                    self._answer(400, "text/plain", str(error))
                else:
                    self._answer(200, "application/json", found)
            else:
                self._answer(404, "text/plain", "there is / and /map")

        def _answer(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # the browser has gone on to another part
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """A line for every map would hide the address."""

    return Handler


def _number(words: dict[str, str], name: str, least: int, most: int) -> int:
    given = words.get(name, "")
    if not given.isascii() or not given.isdigit() or not least <= int(given) <= most:
        raise RegardError(f"{name}: found {given!r}, wanted a whole number from {least} to {most}")
    return int(given)
