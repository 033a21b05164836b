"""`farm watch`: follow a run that another command started."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import replace

from farm.cli.following import FollowOptions, follow_to_the_end
from farm.cli.options import add_run_argument, add_show_options
from farm.errors import FarmError
from farm.queue.archive import REPORT
from farm.queue.connection import LedgerError
from farm.queue.embedded import run_directory
from farm.queue.finding import FoundRun, find_run, shown_state
from farm.queue.following import Update, follow_run
from farm.queue.report_directory import check_out
from farm.reporting.json import parse_report


class InterruptedRunError(FarmError):
    """Nobody carries out a run of this directory any more, and it has no report."""

    exit_code = 3

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was interrupted; `farm resume {run_id}` carries out the rest")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_argument(parser)
    add_show_options(parser)


def run(arguments: Namespace) -> int:
    """Follow a run to its end, and bring its report here.

    Shows what has been done already, then the rest as it comes. Ctrl-C ends the watching, not the run.
    The exit code is that of the run.
    """
    with find_run(arguments.run) as found:
        if shown_state(found.status(), is_alive=found.is_alive) == "interrupted":
            raise InterruptedRunError(arguments.run)
        out = arguments.out or run_directory(arguments.run)
        check_out(out)
        options = FollowOptions(
            out,
            verbose=arguments.verbose,
            as_json=arguments.json,
            owns_run=False,
        )
        updates = _updates_of_another(found) if found.is_local and found.is_alive else None
        return follow_to_the_end(found.broker, arguments.run, options, updates=updates)


def _updates_of_another(found: FoundRun) -> Iterator[Update]:
    """Follow a run of this directory, whose server goes with the command that carries it out."""
    last: Update | None = None
    shown: set[str] = set()
    try:
        for update in follow_run(found.broker, found.run_id):
            last = update
            shown.update(case.id for case in update.cases)
            yield update
    except LedgerError:
        path = run_directory(found.run_id) / REPORT
        if last is None or not path.is_file():
            raise InterruptedRunError(found.run_id) from None
        report = parse_report(path.read_bytes(), str(path))
        left = tuple(case for case in report.cases if case.id not in shown)
        yield replace(
            last, status=replace(last.status, state=report.state), cases=left, running=tuple, kept=()
        )
