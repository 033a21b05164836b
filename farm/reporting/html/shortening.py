"""Shorten what is too long for a page, and say in its place how much is missing and where all of it is."""

from __future__ import annotations

import json
from typing import Any

from farm.reporting.report_file import read_json

MAX_TRANSCRIPT_BYTES = 96 * 2**20  # what is larger is not even read
_MAX_BYTES = 2 * 2**20
# How long a text, and how many items of a list are shown: as much as fits.
_STEPS = ((16_384, 2_000), (2_048, 400), (256, 100))


def shortened(data: bytes, where: str) -> bytes:
    """Give JSON that is no longer than a page can bear; `where` is the file that has all of it."""
    try:
        value = read_json(data)
        for characters, items in _STEPS:
            short = json.dumps(_Shortener(characters, items, where)(value), separators=(",", ":"))
            if len(short) <= _MAX_BYTES:
                return short.encode("ascii")
    except (ValueError, RecursionError):
        return b'{"left_out":"it can not be read"}'
    return json.dumps({"left_out": f"it has {len(data):,} bytes"}).encode()


class _Shortener:
    """Keeps the beginning and the end of what is long."""

    def __init__(self, characters: int, items: int, where: str) -> None:
        self._characters = characters
        self._items = items
        self._where = where

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self(item) for item in self._list(value)]
        if isinstance(value, dict):
            return {self._text(key): self(item) for key, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        missing = len(text) - self._characters
        if missing <= 0:
            return text
        head = self._characters * 3 // 4
        told = f"{missing:,} characters are left out here; all of it is in {self._where}"
        return f"{text[:head]}\n[… {told} …]\n{text[head + missing :]}"

    def _list(self, items: list[Any]) -> list[Any]:
        missing = len(items) - self._items
        if missing <= 0:
            return items
        half = self._items // 2
        told = f"{missing:,} more are left out here; all of it is in {self._where}"
        mark: Any = f"[… {told} …]"
        if isinstance(items[half], dict):  # a message, or an event: keep the shape of a list of them
            mark = {"role": "farm", "type": "message", "content": mark, "text": mark}
        return [*items[:half], mark, *items[half + missing :]]
