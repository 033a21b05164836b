"""The formats that a report can be had in. A new one is a function of its own file, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from farm.errors import OutputError
from farm.model.report import SuiteReport
from farm.reporting.html.page import render_page, write_page
from farm.reporting.json import dump_report
from farm.reporting.junit import dump_junit, write_junit
from farm.reporting.markdown import dump_markdown, write_markdown
from farm.reporting.report_file import ReportFile
from farm.reporting.terminal import report_lines


@dataclass(frozen=True)
class Format:
    """One format: the name of its file, and what turns a report into it."""

    file: str
    render: Callable[[SuiteReport], bytes]
    # For a format that shows transcripts too, or that need not have the whole report in memory.
    stream: Callable[[ReportFile, IO[bytes]], None] | None = None
    # Whether every report.json that is written for people has it beside it.
    is_beside: bool = True

    def write(self, report: ReportFile, target: IO[bytes]) -> None:
        """Write the format of a report that lies in a directory, its transcripts beside it."""
        if self.stream is not None:
            self.stream(report, target)
        else:
            target.write(self.render(report.whole))


def _text(report: SuiteReport) -> bytes:
    return b"".join(_encoded(report_lines(report, report.cases)))


def _write_text(report: ReportFile, target: IO[bytes]) -> None:
    target.writelines(_encoded(report_lines(report.head, report.cases())))


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    return (f"{line}\n".encode("utf-8", "replace") for line in lines)


FORMATS = {
    "json": Format("report.json", dump_report, is_beside=False),
    "text": Format("report.txt", _text, _write_text, is_beside=False),
    "junit": Format("junit.xml", dump_junit, write_junit),
    "markdown": Format("report.md", dump_markdown, write_markdown),
    "html": Format("report.html", render_page, write_page),
}

FORMATS_BESIDE = tuple(known for known in FORMATS.values() if known.is_beside)


def write_beside(path: Path, *, only_missing: bool = False) -> None:
    """Write a report.json in all the other forms that people look at, beside it.

    `only_missing`: whoever carried the run out may have written more into them than we know.
    """
    report = ReportFile(path)
    try:
        # Moved there when they are whole: two may do this at once, and nobody should see half a page.
        with TemporaryDirectory(prefix=".report-", dir=path.parent) as name:
            for known in FORMATS_BESIDE:
                new, place = Path(name) / known.file, path.parent / known.file
                if only_missing and place.exists():
                    continue
                with new.open("wb") as file:
                    known.write(report, file)
                if not (only_missing and place.exists()):
                    new.replace(place)
    except OSError as error:
        raise OutputError(f"{error.filename or path}: can't be written: {error.strerror}") from None
