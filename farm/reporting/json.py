"""Turn a SuiteReport into report.json and back. The same report always gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from pydantic_core import PydanticSerializationError

from farm.errors import FarmError
from farm.model.base import Model
from farm.model.report import REPORT_SCHEMA, CaseReport, SuiteReport

_SCHEMA = f'{{\n  "schema": "{REPORT_SCHEMA}",\n'.encode()
_NO_CASES = b'"cases": []\n}\n'
_CASES = b'  "cases": ['


def dump_report(report: SuiteReport) -> bytes:
    """Write a report as JSON."""
    return _SCHEMA + _dump(report).removeprefix(b"{\n") + b"\n"


def write_cases(cases: Iterable[CaseReport], body: IO[bytes]) -> Iterator[CaseReport]:
    """Write cases one by one while they pass: a run may have more than fits in memory."""
    for number, case in enumerate(cases):
        body.write(b",\n" if number else b"\n")
        body.write(b"    " + _dump(case).replace(b"\n", b"\n    "))
        yield case


def write_report(report: SuiteReport, body: IO[bytes], target: IO[bytes]) -> None:
    """Write a report whose cases `write_cases` has written: the same bytes as `dump_report` of it all."""
    assert not report.cases
    head = dump_report(report).removesuffix(_NO_CASES)
    if not body.tell():
        target.write(head + _NO_CASES)
        return
    target.write(head + b'"cases": [')
    body.seek(0)
    while chunk := body.read(2**20):
        target.write(chunk)
    target.write(b"\n  ]\n}\n")


def _dump(model: Model) -> bytes:
    try:
        return model.model_dump_json(indent=2).encode()
    except PydanticSerializationError:
        # Lone surrogates from an agent's output have no UTF-8 form.
        data = model.model_dump(mode="json")
        return json.dumps(data, ensure_ascii=False, indent=2).encode("utf-8", "replace")


def is_report_file(path: Path) -> bool:
    """Say whether a file is a report of this farm."""
    try:
        if is_laid_out(path):
            return True
        raw = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    except OSError as error:
        raise FarmError(f"{path}: can't be read: {error.strerror}") from None
    return isinstance(raw, dict) and raw.get("schema") == REPORT_SCHEMA


def is_laid_out(path: Path) -> bool:
    """Say whether a report is laid out as we do it: then it can be read in parts, for it may be large."""
    with path.open("rb") as file:
        return file.read(len(_SCHEMA)) == _SCHEMA


def read_head(path: Path, where: str | None = None) -> SuiteReport:
    """Read of a report file all but its cases: of those there may be many."""
    try:
        with path.open("rb") as file:
            return parse_head(file, where or str(path))
    except OSError as error:
        raise FarmError(f"{path}: can't be read: {error.strerror}") from None


def parse_head(lines: Iterable[bytes], where: str) -> SuiteReport:
    """Read of a report's lines all but its cases, and no line more."""
    head = b""
    for line in lines:
        if line.startswith(_CASES):  # the only line that begins so: what is further in is further in
            return parse_report(head + _NO_CASES, where)
        head += line
    raise FarmError(f"{where}: not a report of this farm")


def parse_report(data: bytes, where: str = "report.json") -> SuiteReport:
    """Read a report that dump_report wrote."""
    try:
        raw = json.loads(data)
        if not isinstance(raw, dict) or raw.pop("schema", None) != REPORT_SCHEMA:
            raise FarmError(f'{where}: not a report of this farm: its "schema" is not {REPORT_SCHEMA}')
        return SuiteReport.model_validate(raw)
    except (ValueError, RecursionError):
        raise FarmError(f"{where}: can't be read: is it of another version of the farm?") from None
