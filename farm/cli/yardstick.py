"""Hold a run against an earlier one, and decide how the command ends."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from farm.authoring.scope import Scope
from farm.cli.options import complain, echo, painter
from farm.errors import OutputError, UsageError
from farm.model.report import SuiteReport
from farm.model.suite import Suite
from farm.queue.baselines import NoEarlierRunError, opened_report, read_standing
from farm.queue.history import known_archive
from farm.reporting.changes import (
    COMPARISON_FILE,
    comparison_lines,
    dump_comparison,
    is_comparison_file,
)
from farm.reporting.compare import Comparison, Standing, compare, comparison_exit_code
from farm.reporting.formats import FORMATS
from farm.reporting.junit import write_junit
from farm.reporting.markdown import write_markdown
from farm.reporting.report_file import ReportFile
from farm.reporting.summarize import exit_code, is_incomplete

FailOn = Literal["failure", "regression", "never"]


@dataclass(frozen=True)
class Yardstick:
    """What a run is held against, and what lets the command fail."""

    fail_on: FailOn = "failure"
    baseline: Standing | None = None
    not_selected: int = 0  # cases of the baseline
    junit: Path | None = None

    def check(self, out: Path) -> None:
        """Refuse, before anything runs, places that can't be written to or hold what is another's."""
        path = out / COMPARISON_FILE
        if self.baseline is not None and os.path.lexists(path) and not is_comparison_file(path):
            raise UsageError(f"{path} exists, and is none of the farm's; choose another --out")

    def measure(self, path: Path, *, as_json: bool) -> int:
        """Write and show what a report is beside the baseline; give the exit code."""
        file = ReportFile(path)
        comparison = self._compare(file)
        if self.junit is not None:
            write_file(self.junit, lambda target: write_junit(file, target))
        if comparison is not None:
            beside, markdown = path.parent / COMPARISON_FILE, path.parent / FORMATS["markdown"].file
            write_file(beside, lambda target: target.write(dump_comparison(comparison)))
            write_file(markdown, lambda target: write_markdown(file, target, comparison))
            for line in comparison_lines(comparison, painter()):
                echo(line, err=as_json)
        return yardstick_code(self.fail_on, file.head, comparison)

    def _compare(self, file: ReportFile) -> Comparison | None:
        if self.baseline is None:
            return None
        now, _ = read_standing(file)
        return compare(self.baseline, now, not_selected=self.not_selected)


def yardstick_code(fail_on: FailOn, head: SuiteReport, comparison: Comparison | None) -> int:
    """Give the exit code of a run that has ended."""
    if fail_on == "never":
        return 0
    if fail_on == "failure":
        return exit_code(head)
    compared = 0 if comparison is None else comparison_exit_code(comparison)
    return compared or (3 if is_incomplete(head) else 0)


def open_yardstick(arguments: Namespace, suite: Suite, *, waits: bool) -> Yardstick:
    """Read the baseline: before anything runs, so that nobody waits for a comparison that can't be made."""
    for option in ("baseline", "junit"):
        if getattr(arguments, option) is not None and not waits:
            raise UsageError(f"--{option} needs --wait: who only queues a run does not see its end")
    if arguments.fail_on != "failure" and not waits:
        raise UsageError("--fail-on needs --wait: who only queues a run does not see its end")
    if arguments.fail_on == "regression" and arguments.baseline is None:
        raise UsageError("--fail-on regression needs a --baseline to tell what regressed")
    check_junit(arguments.junit)
    standing, not_selected = None, 0
    if arguments.baseline is not None:
        scope = Scope(
            root=Path(suite.root),
            paths=arguments.paths,
            pattern=arguments.pattern,
            recursive=not arguments.no_recursive,
            ids=arguments.case,
            tags=arguments.tag,
        )
        case_ids = {case.id for case in suite.cases}
        try:
            with opened_report(
                arguments.baseline, known_archive(), complain, suite=suite.name, case_ids=case_ids
            ) as file:
                standing, not_selected = read_standing(file, scope.covers)
        except NoEarlierRunError as error:
            echo(str(error), err=True)
    return Yardstick(arguments.fail_on, standing, not_selected, arguments.junit)


def reports_named(arguments: Namespace) -> tuple[Path, ...]:
    """Name the reports that may lie in a workspace: an agent could read there what it is judged by."""
    named = [arguments.junit] if arguments.junit is not None else []
    if arguments.baseline is not None and os.path.exists(arguments.baseline):  # noqa: PTH110 — any text may come
        named.append(Path(arguments.baseline))
    return tuple(named)


def check_junit(path: Path | None) -> None:
    """Refuse, before anything runs, a file that can't be written."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"--junit: {path} is a directory; name a file")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--junit: {path.parent} is not a directory")


def write_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file that people asked for."""
    try:
        with path.open("wb") as target:
            write(target)
    except OSError as error:
        raise OutputError(f"{path}: can't be written: {error.strerror}") from None
