"""A report as it lies in a directory, its transcripts beside it, read a case at a time: not all may fit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from farm.errors import FarmError
from farm.model.report import CaseReport, SuiteReport
from farm.reporting.json import is_laid_out, parse_report, read_head

_CASES = b'  "cases": ['
# As `write_cases` lays them out: JSON breaks lines only between its parts, and only a case is this far in.
_BEGIN, _END = b"    {\n", b"\n    }"
_CHUNK_BYTES = 2**20
_TRANSCRIPT = re.compile(r"transcripts/\w[\w.-]*\.json", re.ASCII)


class ReportFile:
    """A report.json, and what can be had of it without reading it whole."""

    def __init__(self, path: Path, where: str | None = None) -> None:
        self.path = path
        self._where = where or str(path)  # for messages: of a copy, what it is a copy of

    @cached_property
    def head(self) -> SuiteReport:
        """All but the cases."""
        if self._is_laid_out:
            return read_head(self.path, self._where)
        return self.whole.model_copy(update={"cases": ()})

    @cached_property
    def _is_laid_out(self) -> bool:
        return is_laid_out(self.path)

    @cached_property
    def whole(self) -> SuiteReport:
        """All of it."""
        return parse_report(self.path.read_bytes(), self._where)

    def cases(self) -> Iterator[CaseReport]:
        """Give the cases, one at a time, in the report's order."""
        if not self._is_laid_out:
            yield from self.whole.cases
            return
        for _, data in self.raw_cases():
            try:
                yield CaseReport.model_validate_json(data)
            except ValueError:
                message = f"{self._where}: can't be read: is it of another version of the farm?"
                raise FarmError(message) from None

    def raw_cases(self) -> Iterator[tuple[int, bytes]]:
        """Give each case as JSON, and where in the file it begins."""
        with self.path.open("rb") as file:
            at = 0
            for line in file:
                at += len(line)
                if line.startswith(_CASES):
                    break
            # `at` is where the buffer begins, and no case ends in it before `searched`.
            buffer, searched = b"", 0
            while chunk := file.read(_CHUNK_BYTES):
                buffer += chunk
                begin = 0
                while (end := buffer.find(_END, max(begin, searched))) >= 0:
                    begin = buffer.index(_BEGIN, begin)
                    end += len(_END)
                    yield at + begin, buffer[begin:end]
                    begin = end
                at, buffer = at + begin, buffer[begin:]
                searched = max(0, len(buffer) - len(_END))
        if _BEGIN in buffer:
            raise FarmError(f"{self._where}: not a report of this farm, or cut off")

    def transcript(self, name: str, max_bytes: int) -> bytes | int | None:
        """Give a transcript as it was written; its size if that is too large; None if there is none."""
        # The name stands in a file that anybody may have written.
        if not _TRANSCRIPT.fullmatch(name):
            return None
        try:
            with open(f"{self.path.parent}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 (for every trial)
                size = os.fstat(file.fileno()).st_size
                return file.readall() if size <= max_bytes else size
        except OSError:
            return None


def read_json(data: bytes) -> object:
    """Read JSON as browsers do, who know no NaN and no Infinity."""
    return json.loads(data, parse_constant=lambda _: None)
