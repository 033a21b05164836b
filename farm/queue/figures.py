"""How the whole fleet stands, in figures for those who scale it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from farm.errors import UsageError
from farm.queue.broker import Broker

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class FleetFigures:
    """What the ledger and the queues say."""

    queued: Mapping[str, int]  # messages, by queue
    runs: Mapping[str, int]  # by state
    waiting: int  # trials of runs that go on
    sessions: int
    workers: int
    slots: int  # sessions that they can run at once


def fleet_figures(broker: Broker, queues: Iterable[str]) -> FleetFigures:
    """Look at the fleet once."""
    ledger = broker.ledger
    states = Counter({"running": 0, "aggregating": 0, "complete": 0, "cancelled": 0})
    states.update(ledger.states())
    going_on = [status for run_id in ledger.active_runs() if (status := ledger.status(run_id))]
    sessions = sum(status.leased for status in going_on)
    left = sum(status.total - status.done for status in going_on if status.state == "running")
    workers = ledger.workers()
    return FleetFigures(
        queued={queue: broker.queued([queue]) for queue in queues},
        runs=states,
        waiting=max(0, left - sessions),
        sessions=sessions,
        workers=len(workers),
        slots=sum(worker.concurrency for worker in workers),
    )


def parse_address(text: str) -> tuple[str, int]:
    """Read `[HOST:]PORT`; without a host, only this machine can reach it."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (port.isascii() and port.isdecimal() and int(port) <= 65535) or (":" in text and not host):
        raise UsageError(
            f'"{text}" is no address: write a port, such as 9100, or a host and a port, 0.0.0.0:9100'
        )
    return host or LOOPBACK, int(port)
