"""The runs that are over, wherever their reports are kept: in the store, in the broker, in this directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from farm.errors import FarmError
from farm.model.report import CaseReport, SuiteReport
from farm.queue.archive import REPORT, Archive, NotArchivedError, StoreArchive
from farm.queue.blobs import open_store
from farm.queue.embedded import local_archive
from farm.queue.finding import is_run_id, reachable_broker
from farm.queue.names import STORE_VARIABLE
from farm.reporting.json import parse_head
from farm.reporting.report_file import ReportFile

# Told of a report that can't be read: one broken file must not hide all others.
Complain = Callable[[str], None]


class JoinedArchive:
    """Two archives as one: the first is written to, and has the first word."""

    def __init__(self, first: Archive, second: Archive) -> None:
        self._first = first
        self._second = second

    def write(self, run_id: str, name: str, file: IO[bytes]) -> None:
        """Write to the first."""
        self._first.write(run_id, name, file)

    def read(self, run_id: str, name: str, target: IO[bytes]) -> None:
        """Copy from the one that has it."""
        try:
            self._first.read(run_id, name, target)
        except NotArchivedError:
            self._second.read(run_id, name, target)

    def lines(self, run_id: str, name: str) -> Iterator[bytes]:
        """Read from the one that has it."""
        try:
            yield from self._first.lines(run_id, name)
        except NotArchivedError:
            yield from self._second.lines(run_id, name)

    def runs(self) -> list[str]:
        """Name the runs of both, each once."""
        return sorted({*self._first.runs(), *self._second.runs()}, reverse=True)

    def bless(self, key: str, report: IO[bytes]) -> None:
        """Keep it in the first: that is the one that others see."""
        self._first.bless(key, report)

    def blessed(self) -> list[str]:
        """Name the keys of both."""
        return sorted({*self._first.blessed(), *self._second.blessed()})

    def read_blessed(self, key: str, target: IO[bytes]) -> None:
        """Copy from the one that has it."""
        try:
            self._first.read_blessed(key, target)
        except NotArchivedError:
            self._second.read_blessed(key, target)


def known_archive() -> Archive:
    """Give what is known of runs that are over: by the team's store or broker, and by this directory."""
    here = local_archive()
    store_url = os.environ.get(STORE_VARIABLE)
    if store_url:  # it can be read though the broker is away
        return JoinedArchive(StoreArchive(*open_store(store_url)), here)
    broker = reachable_broker()
    return here if broker is None else JoinedArchive(broker.archive, here)


def past_runs(
    archive: Archive, complain: Complain, *, suite: str | None = None, schedule: str | None = None
) -> Iterator[SuiteReport]:
    """Give the heads of the reports, newest first: of a report's cases nothing is read."""
    for run_id in archive.runs():
        if not is_run_id(run_id):
            continue
        try:
            head = parse_head(archive.lines(run_id, REPORT), f"the report of run {run_id}")
        except NotArchivedError:
            continue  # it goes on, or was interrupted
        except FarmError as error:
            complain(str(error))
            continue
        if suite in (None, head.suite) and schedule in (None, head.schedule):
            yield head


@dataclass(frozen=True)
class PastCase:
    """One case in one run."""

    run: SuiteReport  # without its cases
    case: CaseReport


def past_cases(
    archive: Archive, case_id: str, complain: Complain, *, suite: str | None = None
) -> Iterator[PastCase]:
    """Give a case as it was in each run that has it, newest first."""
    # A case's first lines, as reports are written: of the other cases no more is looked at.
    begins = [
        f'    {{\n      "id": {json.dumps(case_id, ensure_ascii=escaped)},'.encode(errors="replace")
        for escaped in (False, True)
    ]
    for head in past_runs(archive, complain, suite=suite):
        try:
            with brought_report(archive, head.run_id) as file:
                raw = [data for _, data in file.raw_cases() if data.startswith(tuple(begins))]
            found = [CaseReport.model_validate_json(data) for data in raw]
        except FarmError as error:
            complain(str(error))
            continue
        except ValueError:
            complain(f"the report of run {head.run_id}: can't be read: is it of another version of the farm?")
            continue
        for case in found:
            yield PastCase(head, case)


@contextmanager
def brought_report(archive: Archive, run_id: str) -> Iterator[ReportFile]:
    """Lay a run's report here for the length of the block."""
    with TemporaryDirectory(prefix="farm-report-") as name:
        path = Path(name) / REPORT
        with path.open("wb") as file:
            archive.read(run_id, REPORT, file)
        yield ReportFile(path, f"the report of run {run_id}")
