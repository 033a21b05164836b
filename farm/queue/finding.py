"""Find a run by its id: on the broker that the environment names, else in this directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from farm.errors import FarmError, UsageError
from farm.queue.archive import REPORT
from farm.queue.broker import Broker, broker_from_environment
from farm.queue.connection import clear_errors
from farm.queue.embedded import (
    has_ledger,
    has_report,
    is_carried_out,
    local_broker,
    local_runs,
    run_directory,
)
from farm.queue.following import UnknownRunError
from farm.queue.ledger import RunStatus
from farm.queue.names import RUN_ID
from farm.queue.server import ServerError

_PATIENCE_SECONDS = 2.0


class EmptyLedgerError(FarmError):
    """The ledger of a run of this directory says nothing of it."""


# What `find_run` says of a run whose report may be there nevertheless.
NOT_LOOKED_INTO = (UnknownRunError, EmptyLedgerError, ServerError)


@dataclass(frozen=True)
class FoundRun:
    """A run, and where it is known."""

    run_id: str
    broker: Broker
    is_local: bool  # carried out by a command in this directory, not by a fleet
    is_alive: bool  # it can go on: there is a fleet, or the command that carries it out still runs

    def status(self) -> RunStatus:
        """Look at the run."""
        status = self.broker.ledger.status(self.run_id)
        if status is None:
            raise UnknownRunError(self.run_id)
        return status


def is_run_id(text: str) -> bool:
    """Say whether a text can be the id of a run, and the name of its directory."""
    return RUN_ID.fullmatch(text) is not None


def kept_report(run_id: str) -> Path | None:
    """Give the report of a run that is in this directory."""
    return run_directory(run_id) / REPORT if is_run_id(run_id) and has_report(run_id) else None


def latest_run() -> str:
    """Name the run that was submitted last, in this directory or to the broker that the environment names."""
    broker = reachable_broker()
    known: list[str] = [*local_runs()[:1], *(broker.ledger.runs()[:1] if broker is not None else ())]
    if not known:
        raise UsageError("there is no run here yet; `farm submit` makes one")
    return max(known)  # ids sort by time


def reachable_broker() -> Broker | None:
    """Give the broker that the environment names, once it has answered; None if it names none.

    People wait for this: a server that is away is told of sooner than to those who work.
    """
    broker = broker_from_environment()
    if broker is not None:
        with clear_errors():
            replace(broker, patience_seconds=_PATIENCE_SECONDS).client.ping()
    return broker


def fleet_broker(run_id: str) -> Broker | None:
    """Give the fleet's broker if it knows a run; UnknownRunError if nobody here does."""
    if not is_run_id(run_id):
        raise UnknownRunError(run_id)
    broker = reachable_broker()
    if broker is not None and broker.ledger.status(run_id) is not None:
        return broker
    if not has_ledger(run_id):
        raise UnknownRunError(run_id)
    return None


@contextmanager
def find_run(run_id: str) -> Iterator[FoundRun]:
    """Open a run to look at it."""
    fleet = fleet_broker(run_id)
    if fleet is not None:
        yield FoundRun(run_id, fleet, is_local=False, is_alive=True)
        return
    is_alive = is_carried_out(run_id)
    with local_broker(run_id) as broker:
        if broker is None:
            raise UnknownRunError(run_id)
        check_submitted(broker, run_id)
        yield FoundRun(run_id, broker, is_local=True, is_alive=is_alive)


def check_submitted(broker: Broker, run_id: str) -> None:
    """Refuse a run of this directory of which the ledger does not know."""
    if broker.ledger.status(run_id) is not None:
        return
    if has_report(run_id):
        raise EmptyLedgerError(f"only its report is left of run {run_id}; `farm report {run_id}` shows it")
    raise EmptyLedgerError(f"run {run_id} was interrupted before it was submitted; submit it again")


def shown_state(status: RunStatus, *, is_alive: bool = True) -> str:
    """Name a run's state for people: also that nobody carries it out any more, and why it was stopped."""
    if not status.is_over and not is_alive:
        return "interrupted"
    return "over_budget" if status.stopped == "budget" and status.state == "complete" else status.state
