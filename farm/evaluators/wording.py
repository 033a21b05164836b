"""Put what a session wrote and did into short words that are safe on a terminal and in a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from farm.model.messages import ToolCall
from farm.model.patterns import text_of
from farm.model.tool_names import canonical_tool_name

T = TypeVar("T")


def printable(text: str) -> str:
    """Escape what is not printable: control characters, lone surrogates, changes of direction."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


def shortened(text: str, limit: int = 200) -> str:
    """Leave out the middle of a long text."""
    if len(text) <= limit:
        return printable(text)
    half = (limit - 1) // 2
    return f"{printable(text[:half])}…{printable(text[-half:])}"


def quoted(text: str, limit: int = 80) -> str:
    """Give the beginning of a text in quotes."""
    end = "" if len(text) <= limit else "…"
    escaped = text[:limit].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}{end}"'


def times(count: int) -> str:
    """Count calls in words: 1 time, 3 times."""
    return f"{count} time" if count == 1 else f"{count} times"


def listed(items: Sequence[T], words: Callable[[T], str], limit: int = 5) -> str:
    """Name the first few of many."""
    shown = ", ".join(map(words, items[:limit]))
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def value_text(value: object) -> str:
    """Give a parameter's value: a text in quotes, anything else as compact JSON."""
    return quoted(value, 60) if isinstance(value, str) else shortened(text_of(value), 60)


def param_text(param: tuple[str, object]) -> str:
    """Give a parameter of a call: `file_path=".env"`."""
    return f"{shortened(param[0], 40)}={value_text(param[1])}"


def tool_text(tool: str) -> str:
    """Give a tool's own name."""
    return shortened(canonical_tool_name(tool), 60)


def call_text(call: ToolCall) -> str:
    """Give a tool call in a few words: `Read(file_path=".env")`."""
    name = tool_text(call.tool)
    if isinstance(call.input, Mapping):
        return f"{name}({listed(list(call.input.items()), param_text, 3)})"
    return f"{name}({'' if call.input is None else value_text(call.input)})"
