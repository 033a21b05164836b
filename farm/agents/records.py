"""Turn the bytes of a JSON or JSONL file that a machine wrote into records that know their line.

The file may be hostile or cut off: whatever is in it, the answer is records or an InputError. Unlike test
files, which people write, such files may repeat keys and may hold halves of surrogate pairs (JavaScript
cuts strings in the middle of an emoji).
"""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farm.documents.json_lines import check_depth
from farm.errors import InputError, Problem

MAX_FILE_BYTES = 256 * 2**20
MAX_DEPTH = 200  # pydantic writes no more than 255 levels


@dataclass(frozen=True)
class Record:
    """One JSON object of a file."""

    data: Mapping[str, Any]
    file: str
    line: int = 1

    def problem(self, message: str) -> InputError:
        """Say what is wrong with this record."""
        return InputError([Problem(self.file, self.line, 1, message)])


@dataclass(frozen=True)
class Records:
    """The objects of one file, in order."""

    items: tuple[Record, ...]
    cut_off_at: int | None = None  # the last line, if its writer was killed in the middle of it


def read_records(path: Path, file: str | None = None) -> Records:
    """Read a JSON object, a JSON list of objects, or an object a line; `file` is the name to report."""
    file = str(path) if file is None else file
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError([Problem(file, 1, 1, "is not a file")])
        if status.st_size > MAX_FILE_BYTES:
            raise InputError([Problem(file, 1, 1, f"is larger than {MAX_FILE_BYTES} bytes")])
        content = path.read_bytes()
    except OSError as error:
        raise InputError([Problem(file, 1, 1, f"can't be read: {error.strerror}")]) from None
    except ValueError as error:  # a NUL in its name
        raise InputError([Problem(file, 1, 1, f"can't be read: {error}")]) from None
    return parse_records(content, file)


def parse_records(content: bytes, file: str) -> Records:
    """Turn a file's content into its records."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise InputError([Problem(file, 1, 1, "is empty")])
    if len(lines) == 1 or not _is_json(lines[0][1]):
        # One object over many lines, or broken in its first: the whole is parsed, so that the position in
        # an error is the right one.
        return _records_of_document(content, file)
    return _records_of_lines(lines, file, ends_in_newline=content.endswith(b"\n"))


def _records_of_document(content: bytes, file: str) -> Records:
    value = _parse(content, file, 1)
    values = value if isinstance(value, list) else [value]
    return Records(tuple(_record(item, file, 1) for item in values))


def _records_of_lines(lines: list[tuple[int, bytes]], file: str, *, ends_in_newline: bool) -> Records:
    records: list[Record] = []
    problems: list[Problem] = []
    last_number = lines[-1][0]
    cut_off_at = None
    for number, line in lines:
        try:
            records.append(_record(_parse(line, file, number), file, number))
        except InputError as error:
            if number == last_number and not ends_in_newline:
                cut_off_at = number
            else:
                problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return Records(tuple(records), cut_off_at)


def _record(value: Any, file: str, line: int) -> Record:
    if not isinstance(value, dict):
        raise InputError([Problem(file, line, 1, "is not a JSON object")])
    return Record(value, file, line)


def _is_json(line: bytes) -> bool:
    try:
        _parse(line, "", 1)
    except InputError:
        return False
    return True


def _parse(content: bytes, file: str, line: int) -> Any:
    try:
        value = json.loads(content.decode(), parse_constant=_no_constant, parse_float=_finite)
        if content.count(b"[") + content.count(b"{") > MAX_DEPTH:
            check_depth(value, MAX_DEPTH)
        # Only an escape can bring in half a surrogate pair: UTF-8 has no form for it.
        return _without_lone_surrogates(value) if b"\\ud" in content.lower() else value
    except UnicodeDecodeError as error:
        problem = Problem(file, line, error.start + 1, "is not UTF-8")
    except json.JSONDecodeError as error:
        problem = Problem(file, line + error.lineno - 1, error.colno, f"not valid JSON: {error.msg}")
    except RecursionError:
        problem = Problem(file, line, 1, f"is nested deeper than {MAX_DEPTH} levels")
    except ValueError as error:
        problem = Problem(file, line, 1, f"not valid JSON: {error}")
    raise InputError([problem])


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_lone_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large a number")
    return value
