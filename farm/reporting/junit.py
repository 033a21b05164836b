"""Turn a SuiteReport into JUnit's XML, as Jenkins, GitLab and their like read it.

A testsuite a test file, a testcase a case. What the agent did wrong is a `failure`; what could not be judged,
or was not carried out, is an `error`. What came from an agent is hostile: characters that XML can't hold are
shown instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from farm.model.report import CaseReport, SuiteReport, TrialReport
from farm.model.verdict import Outcome
from farm.reporting.report_file import ReportFile
from farm.reporting.terminal import case_lines, earlier_lines, safe

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_MAX_OUTPUT = 20_000
_MAX_BODY = 100_000


def dump_junit(report: SuiteReport) -> bytes:
    """Write a report as JUnit XML; the same one always gives the same bytes."""
    target = BytesIO()
    _write(report, report.cases, target)
    return target.getvalue()


def write_junit(report: ReportFile, target: IO[bytes]) -> None:
    """Write the same of a report that may not fit into memory."""
    _write(report.head, report.cases(), target)


def _write(head: SuiteReport, cases: Iterable[CaseReport], target: IO[bytes]) -> None:
    # A suite begins with figures about all its cases, which need not stand together: they wait in a file.
    with TemporaryFile() as written:
        files: dict[str, _Figures] = {}
        for case in cases:
            figures = files.setdefault(case.file, _Figures())
            figures.add(case)
            data = _xml(_case_element(case), level=2)
            figures.places.append((written.tell(), len(data)))
            written.write(data)
        target.write(b"<?xml version='1.0' encoding='UTF-8'?>\n")
        every = sum(files.values(), _Figures())
        target.write(_opening(Element("testsuites", {"name": _line(head.suite), **every.shown()}), level=0))
        for file, figures in sorted(files.items()):
            target.write(_opening(_suite_element(file, figures, head), level=1))
            target.write(_xml(_properties(head), level=2))
            for at, length in figures.places:
                written.seek(at)
                target.write(written.read(length))
            target.write(b"  </testsuite>\n")
        target.write(b"</testsuites>\n")


@dataclass
class _Figures:
    """What is counted of cases, and where they are written."""

    tests: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0
    milliseconds: float = 0.0
    places: list[tuple[int, int]] = field(default_factory=list)

    def add(self, case: CaseReport) -> None:
        self.tests += 1
        self.failures += case.outcome == "failed"
        self.errors += case.outcome in ("errored", "cancelled")
        self.skipped += case.outcome == "skipped"
        self.milliseconds += _milliseconds(case)

    def __add__(self, other: _Figures) -> _Figures:
        return _Figures(
            self.tests + other.tests,
            self.failures + other.failures,
            self.errors + other.errors,
            self.skipped + other.skipped,
            self.milliseconds + other.milliseconds,
        )

    def shown(self) -> dict[str, str]:
        counts = {"tests": self.tests, "failures": self.failures, "errors": self.errors}
        return {
            **{name: str(count) for name, count in counts.items()},
            "time": f"{self.milliseconds / 1000:.3f}",
        }


def _suite_element(file: str, figures: _Figures, head: SuiteReport) -> Element:
    # No zone: readers differ in what they make of one. It is UTC.
    moment = _MOMENT.match(head.started_at)
    started = {"timestamp": moment[0]} if moment else {}
    counts = {**figures.shown(), "skipped": str(figures.skipped)}
    return Element("testsuite", {"name": _line(file) or "(no file)", **counts, **started})


def _properties(head: SuiteReport) -> Element:
    properties = Element("properties")
    for name, value in (("run_id", head.run_id), ("suite", head.suite), ("state", head.state)):
        SubElement(properties, "property", {"name": name, "value": _line(value)})
    return properties


def _xml(element: Element, *, level: int) -> bytes:
    indent(element, level=level)
    text: str = tostring(element, encoding="unicode")
    return f"{'  ' * level}{text}\n".encode()


def _opening(element: Element, *, level: int) -> bytes:
    return _xml(element, level=level).removesuffix(b" />\n") + b">\n"


def _case_element(case: CaseReport) -> Element:
    # Together they are the case's id: readers join them with a dot, and must find the same case again.
    classname, name = _names(case)
    time = f"{_milliseconds(case) / 1000:.3f}"
    element = Element("testcase", {"classname": _line(classname), "name": _line(name), "time": time})
    if case.outcome == "skipped":
        SubElement(element, "skipped", {"message": _line(case.skip_reason or "skipped")})
    elif case.outcome == "failed":
        _add_reason(element, "failure", *_failure(case), case)
    elif case.outcome in ("errored", "cancelled"):
        _add_reason(element, "error", *_error(case), case)
    SubElement(element, "system-out").text = "\n".join(_fact_lines(case))
    return element


def _names(case: CaseReport) -> tuple[str, str]:
    """Part an id: `path/file` and `case` of `path/file::case`, `path` and `file` of `path/file`."""
    head, found, tail = case.id.partition("::")
    if not found:
        head, _, tail = case.id.rpartition("/")
    if head and tail:
        return head, tail
    return case.file or case.id, case.id


def _add_reason(element: Element, tag: str, kind: str, message: str, case: CaseReport) -> None:
    reason = SubElement(element, tag, {"message": _line(message), "type": _line(kind) or tag})
    reason.text = _cut("\n".join((*case_lines(case), *_output_lines(case.trials))), _MAX_BODY)


def _failure(case: CaseReport) -> tuple[str, str]:
    """Give the kind of what failed first, and what it says."""
    return next(_verdicts(case, "failed"), ("failed", "failed"))


def _error(case: CaseReport) -> tuple[str, str]:
    """Give the kind of what went wrong first, and what it says: a session, else a judge."""
    errors = (trial.error for trial in case.trials if trial.error is not None)
    told = ((error.kind, f"{error.kind}: {error.message}") for error in errors)
    return next(told, None) or next(_verdicts(case, "errored"), (case.outcome, case.outcome))


def _verdicts(case: CaseReport, outcome: Outcome) -> Iterator[tuple[str, str]]:
    for verdict in (verdict for trial in case.trials for verdict in trial.verdicts):
        if verdict.outcome == outcome and verdict.required:
            why = next(iter(verdict.misses), verdict.reasoning)
            yield verdict.type, f"{verdict.name}: {why}" if why else verdict.name


def _output_lines(trials: Iterable[TrialReport]) -> Iterator[str]:
    for trial in trials:
        if trial.outcome in ("failed", "errored") and trial.output:
            yield f"output of trial {trial.trial}:"
            yield safe(_cut(trial.output, _MAX_OUTPUT))


def _fact_lines(case: CaseReport) -> Iterator[str]:
    yield f"id: {_line(case.id)}"
    yield f"title: {_line(case.name)}"
    yield f"agent: {_line(case.agent)}" + (f", model: {_line(case.model)}" if case.model else "")
    if case.tags:
        yield f"tags: {_line(', '.join(case.tags))}"
    if case.score is not None:
        yield f"score: {case.score:.4f}"
    if len(case.trials) > 1:
        passed = sum(trial.outcome == "passed" for trial in case.trials)
        yield f"trials: {passed}/{len(case.trials)} passed{', flaky' if case.flaky else ''}"
    if case.cost_usd is not None:
        yield f"cost_usd: {case.cost_usd:.6f}"
    for trial in case.trials:
        yield from (f"trial {trial.trial}, {line}" for line in earlier_lines(trial))
        if trial.transcript:
            yield f"transcript of trial {trial.trial}: {_line(trial.transcript)}"


def _milliseconds(case: CaseReport) -> float:
    return sum(trial.duration_ms or 0.0 for trial in case.trials)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… (cut: {len(text)} characters; report.json has all)"


def _line(text: str) -> str:
    return safe(text).replace("\n", " ")
