"""Take secrets out of what a program wrote, before anybody keeps or shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping

# What is shorter is no secret, and would be found in the middle of words.
MIN_SECRET_LENGTH = 8


class Redaction:
    """Puts a mark in the place of each secret, as it is and as JSON writes it."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Take the names and values of environment variables."""
        found: dict[bytes, bytes] = {}
        for name, value in secrets.items():
            if len(value) >= MIN_SECRET_LENGTH:
                mark = f"[{name}]".encode()
                for text in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
                    found[text.encode(errors="surrogateescape")] = mark
        # The longer first: one secret may be a part of another.
        self._marks = sorted(found.items(), key=lambda item: -len(item[0]))

    def __call__(self, content: bytes) -> bytes:
        """Give the content without the secrets."""
        for secret, mark in self._marks:
            content = content.replace(secret, mark)
        return content
