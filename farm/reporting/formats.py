"""The formats that a report can be had in. A new one is a function of its own file, and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from farm.model.report import SuiteReport
from farm.reporting.json import dump_report
from farm.reporting.terminal import report_lines


@dataclass(frozen=True)
class Format:
    """One format: the name of its file, and what turns a report into it."""

    file: str
    render: Callable[[SuiteReport], bytes]


def _text(report: SuiteReport) -> bytes:
    return "".join(f"{line}\n" for line in report_lines(report)).encode("utf-8", "replace")


FORMATS = {
    "json": Format("report.json", dump_report),
    "text": Format("report.txt", _text),
}
