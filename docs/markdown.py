"""Put texts together to a page of Markdown: tables, names as code, lines that are not too long."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

WIDTH = 120


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Make a table; nothing if it has no rows."""
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join((f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines)) if lines else ""


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


def marked(text: str) -> str:
    """Mark names as code, and keep what is no markup from being taken for it."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _plain(part) for part in parts)


def _plain(text: str) -> str:
    marked = re.sub(r"(?<![\w-])(?:\w+_\w+|--[a-z][a-z-]*\w)", r"`\g<0>`", text)
    return re.sub(r"[*<>]", r"\\\g<0>", marked)


def page(parts: Iterable[str]) -> str:
    """Join the parts that there are."""
    text = "\n\n".join(part for part in parts if part)
    return "\n".join(_wrapped(text.splitlines())) + "\n"


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith(("|", "#", "<")) or len(line) <= WIDTH:
            yield line
        else:
            yield from textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)
