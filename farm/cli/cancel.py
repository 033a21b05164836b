"""`farm cancel`: end a run before its time."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace

from farm.cli.options import add_run_argument, echo
from farm.queue.collect import aggregate, forget_aggregator
from farm.queue.connection import LedgerError
from farm.queue.embedded import run_directory
from farm.queue.finding import FoundRun, find_run, shown_state
from farm.queue.ledger import RunStatus

_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.1


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_argument(parser)
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="don't wait until running sessions have ended and it is reported",
    )


def run(arguments: Namespace) -> int:
    """End a run. What is done is kept and reported, what runs is ended, and the rest is not begun.

    `farm resume` carries out the rest later.
    """
    run_id = arguments.run
    with find_run(run_id) as found:
        status = found.status()
        if status.is_over:
            echo(f"run {run_id} is over already: {shown_state(status)}")
            return 0
        cancelled = found.broker.ledger.cancel(run_id)
        status = found.status()
        ended = _end(found, wait=not arguments.no_wait)
    done = f"{status.done} of {status.total} trials done"
    if cancelled:
        echo(f"cancelled with {done}; `farm resume {run_id}` carries out the rest")
    else:
        echo(f"run {run_id} had ended before, with {done}; only its report was missing")
    if not ended:
        echo(f"not all of its sessions have ended yet; `farm status {run_id}` shows them", err=True)
        return 3
    if not arguments.no_wait:
        where = run_directory(run_id) / "report.json" if found.is_local else f"`farm report {run_id}`"
        echo(f"Report: {where}")
    return 0


def _end(found: FoundRun, *, wait: bool) -> bool:
    """Have a closed run reported, and wait until it has ended; False if that takes too long."""
    try:
        if not found.is_alive:
            forget_aggregator(found.run_id, found.broker)
        is_deserted = _is_deserted(found)
        if is_deserted:
            aggregate(found.run_id, found.broker)
        else:
            found.broker.publish_aggregation(found.run_id)
        return not wait or _await_end(found, is_deserted=is_deserted)
    except LedgerError:
        if not found.is_local:
            raise
        return True  # its server has gone with the command that carried it out


def _is_deserted(found: FoundRun) -> bool:
    """Say whether nobody else is there to write the report."""
    return not found.is_alive or not found.broker.ledger.workers()


def _await_end(found: FoundRun, *, is_deserted: bool) -> bool:
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        if _is_over(found.status(), found):
            return True
        time.sleep(_PAUSE_SECONDS)
        if is_deserted:
            aggregate(found.run_id, found.broker)  # whoever began it may have died at it
    return False


def _is_over(status: RunStatus, found: FoundRun) -> bool:
    if not status.is_over:
        return False
    # What the dead have claimed stays so: nobody looks after a run that is over.
    return not status.leased or _is_deserted(found)
