"""Turn JSON and JSONL text into the same plain data as YAML, with line numbers, as safely."""

from __future__ import annotations

import json
from typing import Any

from farm.documents.yaml import MAX_DEPTH, Document, KeyPath
from farm.errors import InputError, Problem


class Line(Document):
    """One line of a JSONL file: everything in it stands on that line."""

    def __init__(self, file: str, data: Any, line: int) -> None:
        super().__init__(file, data, None)
        self.line = line

    def position(self, path: KeyPath, *, of_key: bool = False) -> tuple[int, int]:  # noqa: ARG002
        """Give the line; JSON's own parser keeps no columns."""
        return self.line, 1


def parse_json_lines(text: str, file: str) -> list[Line]:
    """Parse every line that is not blank; report all broken ones at once."""
    lines: list[Line] = []
    problems: list[Problem] = []
    # Not splitlines(): U+2028 and its like may stand unescaped inside a JSON string.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                lines.append(Line(file, parse_json(line, file, number), number))
            except InputError as error:
                problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return lines


def parse_json(text: str, file: str, line: int = 1) -> Any:
    """Parse strict JSON: no duplicate keys, no NaN, no numbers beyond 64 bits, no bottomless nesting."""
    try:
        data = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_int=_whole_number,
            parse_float=_decimal_number,
        )
        check_depth(data, MAX_DEPTH)
        if "\\u" in text:
            _check_surrogates(data)
    except json.JSONDecodeError as error:
        where = Problem(file, line + error.lineno - 1, error.colno, f"not valid JSON: {error.msg}")
        raise InputError([where]) from None
    except RecursionError:
        raise InputError([Problem(file, line, 1, f"is nested deeper than {MAX_DEPTH} levels")]) from None
    except ValueError as error:
        raise InputError([Problem(file, line, 1, str(error))]) from None
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"duplicate key {json.dumps(key)}")
            seen.add(key)
    return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _whole_number(text: str) -> int:
    value = int(text) if len(text) <= 20 else 2**64
    if not -(2**63) <= value < 2**63:
        raise ValueError("is too large a number; write it as text, in quotes")
    return value


def _decimal_number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("is too large a number; write it as text, in quotes")
    return value


def _check_surrogates(data: Any) -> None:
    """Refuse half a character: JSON can escape it, and nothing can print or store it."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, such as \\ud800") from None


def check_depth(data: Any, limit: int) -> None:
    """Raise a RecursionError if lists and mappings are nested deeper than a limit."""
    level = [data]
    for _ in range(limit):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise RecursionError
