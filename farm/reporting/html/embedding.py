"""Put a report's data into a page, so that no text of an agent can leave the element it is in.

A list of rows, small and at hand, for the table; and for each case what is shown when it is opened, in
compressed parts of which the page unpacks only the one it needs::

    part: lines of JSON, per case: the case as in report.json, then a transcript (or null) for each trial
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from farm.reporting.html.shortening import MAX_TRANSCRIPT_BYTES, shortened
from farm.reporting.report_file import ReportFile, read_json

# A page of this size still opens at once; in a larger run what did not pass is shown whole first.
MAX_PAGE_BYTES = 48 * 2**20
_MAX_PAGE_BYTES_WITHOUT_TRANSCRIPTS = 64 * 2**20
_PART_BYTES = 256 * 2**10
_LINE_BYTES = 64 * 2**10  # what is no longer needs no shortening
_REASON_CHARACTERS = 240
_NO_CONSTANTS = (b"NaN", b"Infinity")
_FIRST = ("failed", "errored", "cancelled", "passed", "skipped")


def embed(report: ReportFile, target: IO[bytes]) -> None:
    """Write all that the page shows of a report."""
    rows = [_Row.of(at, data) for at, data in report.raw_cases()]
    parts = _Parts(target)
    with report.path.open("rb") as file:
        # By what people look at first: if there is too much, the rest is what passed.
        for row in sorted(rows, key=lambda row: row.rank):
            file.seek(row.at)
            row.place = parts.add(_lines(row, file.read(row.size), report, parts))
    parts.close()
    _write_json(target, "rows", [row.shown() for row in rows])
    head = report.head.model_dump(mode="json", exclude={"cases"})
    _write_json(target, "run", head)


@dataclass
class _Row:
    """What the table shows of a case, and where the rest of it is."""

    at: int
    size: int
    rank: int
    cells: list[Any]
    transcripts: list[Any]  # the name of each trial's, or None
    place: tuple[int, int] | None = None  # the part, and the line in it

    @classmethod
    def of(cls, at: int, data: bytes) -> _Row:
        case: Any = read_json(data)
        trials = case["trials"]
        cells = [
            case["id"],
            "" if case["name"] == case["id"] else case["name"],
            case["file"],
            case["tags"],
            case["agent"],
            case["model"],
            case["outcome"],
            case["flaky"],
            case["score"],
            [trial["outcome"] for trial in trials],
            _total(trials, "duration_ms"),
            case["cost_usd"],
            _total([case], "input_tokens", "output_tokens"),
            _reason(case)[:_REASON_CHARACTERS],
        ]
        return cls(
            at, len(data), _FIRST.index(case["outcome"]), cells, [trial["transcript"] for trial in trials]
        )

    def shown(self) -> list[Any]:
        return [*self.cells, *(self.place or (-1, 0))]


def _total(trials: list[Any], *names: str) -> float | None:
    known = [trial[name] for trial in trials for name in names if trial[name] is not None]
    return sum(known) if known else None


def _reason(case: Any) -> str:
    """Give the first thing to know about a case that did not pass."""
    if case["outcome"] == "passed":
        return ""
    for trial in case["trials"]:
        if trial["error"]:
            return f"{trial['error']['kind']}: {trial['error']['message']}"
        for verdict in trial["verdicts"]:
            if verdict["outcome"] not in ("passed", "skipped") and verdict["required"]:
                why = verdict["misses"][0] if verdict["misses"] else verdict["reasoning"]
                return f"{verdict['name']}: {why}" if why else str(verdict["name"])
    return case["skip_reason"] or ""


def _lines(row: _Row, case: bytes, report: ReportFile, parts: _Parts) -> Iterator[bytes]:
    """Give a case, then its transcripts, as lines; nothing if the page is full."""
    if parts.written > _MAX_PAGE_BYTES_WITHOUT_TRANSCRIPTS:
        return
    yield _line(case, "report.json")
    for name in row.transcripts:
        if not isinstance(name, str):
            yield b"null"
        elif parts.written > MAX_PAGE_BYTES:
            yield b'{"left_out":"the page is full"}'
        else:
            yield _transcript_line(report, name)


def _transcript_line(report: ReportFile, name: str) -> bytes:
    found = report.transcript(name, MAX_TRANSCRIPT_BYTES)
    if found is None:
        return b'{"left_out":"the file is not there"}'
    if isinstance(found, int):
        return json.dumps({"left_out": f"it has {found:,} bytes"}).encode()
    return _line(found, name)


def _line(data: bytes, where: str) -> bytes:
    """Give JSON as a line, shortened if it is long; `where` is the file that has all of it."""
    if len(data) > _LINE_BYTES or any(word in data for word in _NO_CONSTANTS):
        data = shortened(data, where)
    return data.replace(b"\n", b"")


class _Parts:
    """The compressed parts of a page."""

    def __init__(self, target: IO[bytes]) -> None:
        self.written = 0
        self._target = target
        self._lines: list[bytes] = []
        self._bytes = 0
        self._number = 0

    def add(self, lines: Iterator[bytes]) -> tuple[int, int] | None:
        """Add the lines of a case to the current part; give its number, and that of the first line."""
        place = (self._number, len(self._lines))
        for line in lines:
            self._lines.append(line)
            self._bytes += len(line)
        if len(self._lines) == place[1]:
            return None
        if self._bytes >= _PART_BYTES:
            self.close()
        return place

    def close(self) -> None:
        """Write the current part."""
        if self._lines:
            data = base64.b64encode(zlib.compress(b"\n".join(self._lines)))
            self._target.write(b'<script type="text/plain" id="part-%d">%b</script>\n' % (self._number, data))
            self.written += len(data)
            self._number += 1
            self._lines, self._bytes = [], 0


def _write_json(target: IO[bytes], name: str, value: object) -> None:
    # All ASCII, half characters included; and no element begins, ends or is hidden within.
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    target.write(f'<script type="application/json" id="{name}">{text}</script>\n'.encode("ascii"))
