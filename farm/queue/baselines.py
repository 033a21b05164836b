"""Find the run that another is compared with: by its id, by its file, as the latest or the blessed one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from farm.errors import FarmError, UsageError
from farm.model.report import CaseReport, SuiteReport
from farm.queue.archive import REPORT, Archive, NotArchivedError, blessing_key
from farm.queue.finding import is_run_id
from farm.queue.history import Complain, brought_report, past_runs
from farm.reporting.compare import Standing, standing_of
from farm.reporting.json import parse_head
from farm.reporting.report_file import ReportFile

LATEST = "latest"
BLESSED = "blessed"

_LOOKED_AT = 20  # runs, for one that has all cases


class NoEarlierRunError(FarmError):
    """No run of a suite is there yet to compare with."""


@contextmanager
def opened_report(
    reference: str,
    archive: Archive,
    complain: Complain,
    *,
    suite: str | None = None,
    schedule: str | None = None,
    before: str | None = None,
    case_ids: Collection[str] = (),
) -> Iterator[ReportFile]:
    """Open the report that somebody means.

    `latest` means the newest complete run of the suite (by a schedule, before a run) that has the most of
    these cases, `blessed` the one that was blessed for it; all else a file, a directory with a report.json,
    or the id of a run. NoEarlierRunError if there is no latest; UsageError if there is nothing else of this
    name.
    """
    path = Path(reference)
    if reference in (LATEST, BLESSED):
        if suite is None:
            raise UsageError(f'"{reference}" of which suite? Name the other run by its id or file')
        if reference == BLESSED:
            opened = _blessed(archive, suite)
        else:
            past = past_runs(archive, complain, suite=suite, schedule=schedule)
            opened = brought_report(archive, _latest(archive, suite, past, before, case_ids))
        with opened as file:
            yield file
    elif (named := _named(path)) is not None:
        yield ReportFile(named)
    else:
        with _of_run(archive, reference) as file:
            yield file


def _named(path: Path) -> Path | None:
    try:
        if path.is_dir():
            if not (path / REPORT).is_file():
                raise UsageError(f"{path} has no {REPORT}")
            return path / REPORT
        return path if path.is_file() else None
    except (OSError, ValueError):  # no name that a file could have
        return None


@contextmanager
def _of_run(archive: Archive, run_id: str) -> Iterator[ReportFile]:
    known = "`farm history` lists the runs that have one"
    missing = UsageError(f'"{run_id}" is no report, and no run with one; {known}')
    if not is_run_id(run_id):
        raise missing
    where = f"the report of run {run_id}"
    with _laid_out(lambda target: archive.read(run_id, REPORT, target), missing, where) as file:
        yield file


def _latest(
    archive: Archive,
    suite: str,
    past: Iterator[SuiteReport],
    before: str | None,
    case_ids: Collection[str],
) -> str:
    """Name the newest run that has the most of the cases: one of a part of the suite would hide the rest."""
    complete = (
        head.run_id
        for head in past
        if head.state == "complete" and (before is None or head.run_id < before)  # ids sort by time
    )
    most, latest = -1, None
    for run_id in islice(complete, _LOOKED_AT):
        shared = 0
        if case_ids:
            with brought_report(archive, run_id) as file:
                shared = sum(case.id in case_ids for case in file.cases())
        if shared > most:
            most, latest = shared, run_id
        if shared == len(case_ids):
            break
    if latest is None:
        raise NoEarlierRunError(
            f'no earlier run of "{suite}" is complete, so there is nothing to compare with'
        )
    return latest


@contextmanager
def _blessed(archive: Archive, suite: str) -> Iterator[ReportFile]:
    missing = UsageError(f'no run of "{suite}" is blessed; `farm bless RUN` does that')
    where = f'the report that is blessed for "{suite}"'
    with _laid_out(lambda target: archive.read_blessed(blessing_key(suite), target), missing, where) as file:
        yield file


@contextmanager
def _laid_out(read: Callable[[IO[bytes]], None], missing: UsageError, where: str) -> Iterator[ReportFile]:
    with TemporaryDirectory(prefix="farm-report-") as name:
        path = Path(name) / REPORT
        try:
            with path.open("wb") as target:
                read(target)
        except NotArchivedError:
            raise missing from None
        yield ReportFile(path, where)


def read_standing(
    file: ReportFile, covers: Callable[[CaseReport], bool] | None = None
) -> tuple[Standing, int]:
    """Read what a comparison needs: a case at a time, unless another program has laid the report out anew."""
    try:
        return standing_of(file.head, file.cases(), covers=covers)
    except (FarmError, ValueError):
        pass
    try:
        return standing_of(file.whole, covers=covers)
    except OSError as error:
        raise UsageError(f"{file.path}: can't be read: {error.strerror}") from None


def bless(archive: Archive, file: ReportFile) -> SuiteReport:
    """Keep a report as the baseline of its suite; give its head."""
    head = file.head  # which says what is wrong if it is no report
    with file.path.open("rb") as report:
        archive.bless(blessing_key(head.suite), report)
    return head


def blessed_runs(archive: Archive, complain: Complain) -> Iterator[SuiteReport]:
    """Give the heads of the reports that are blessed."""
    for key in archive.blessed():
        target = BytesIO()
        try:
            archive.read_blessed(key, target)
            yield parse_head(BytesIO(target.getvalue()), f"the report that is blessed as {key}")
        except FarmError as error:
            complain(str(error))
