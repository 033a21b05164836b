"""Bring the report of a run that is over, with its transcripts, into a directory, wherever they are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile

from farm.errors import FarmError
from farm.queue.archive import REPORT, NotArchivedError
from farm.queue.finding import (
    NOT_LOOKED_INTO,
    find_run,
    is_run_id,
    kept_report,
    reachable_broker,
    shown_state,
)
from farm.queue.report_directory import copy_report, fetch_report


class NotOverError(FarmError):
    """A run has no report yet."""

    exit_code = 3


def bring_report(run: str, directory: Path, prepare: Callable[[], object] = lambda: None) -> Path:
    """Bring what a run left; give the path of the report.

    A run is named by its id, else by the path of its report, or of the directory that the report is in.
    `prepare` is called once it is sure that there is something to bring.
    """
    try:
        with find_run(run) as found:
            status = found.status()
            state = shown_state(status, is_alive=found.is_alive)
            if state == "interrupted":
                raise NotOverError(f"run {run} was interrupted; `farm resume {run}` carries out the rest")
            if state in ("running", "aggregating"):
                so_far = f"{status.done} of {status.total} trials are done"
                raise NotOverError(f"run {run} still goes on, {so_far}; `farm watch {run}` follows it")
            prepare()
            return fetch_report(found.broker, run, directory)
    except NOT_LOOKED_INTO:
        kept = kept_report(run) or _named_report(Path(run))
        if kept is None:
            archived = _fetch_archived(run, directory, prepare)
            if archived is None:
                raise
            return archived
    prepare()
    return copy_report(kept, directory)


def _fetch_archived(run: str, directory: Path, prepare: Callable[[], object]) -> Path | None:
    """Bring what a store has of a run that the broker has forgotten; None if there is none."""
    broker = reachable_broker() if is_run_id(run) else None
    if broker is None or broker.store_url is None:
        return None
    try:
        with TemporaryFile() as file:
            broker.archive.read(run, REPORT, file)
    except NotArchivedError:
        return None
    prepare()
    return fetch_report(broker, run, directory)


def _named_report(path: Path) -> Path | None:
    for candidate in (path, path / REPORT):
        try:
            if candidate.is_file():
                return candidate
        except (OSError, ValueError):  # no name that a file could have
            return None
    return None
