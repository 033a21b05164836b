"""What this worker carries trials out with, made once and shared by all of its pool."""

from __future__ import annotations

import mmap
import os
import socket
from functools import cache

from farm.queue.caching import cache_directory
from farm.queue.carry_out import WorkPlace
from farm.queue.ended import Ended
from farm.queue.heartbeat import Heartbeat
from farm.queue.names import METRICS_VARIABLE, WORKER_NAME_VARIABLE
from workers.app import broker
from workers.tally import Tally

# One byte that the pool's processes share with the worker's: not 0 once sessions must end.
_draining = mmap.mmap(-1, 1)


@cache
def work_place() -> WorkPlace:
    """Give the place; a forked pool process has the one that was made before it."""
    return WorkPlace(
        name=_name(),
        broker=broker,
        heartbeat=Heartbeat(broker.ledger, lease_ms=broker.lease_ms, is_draining=is_draining),
        cache_directory=cache_directory(),
    )


@cache
def tally() -> Tally | None:
    """Give where trials are counted; None if nobody asked for figures."""
    is_wanted = os.environ.get(METRICS_VARIABLE) and not broker.is_embedded
    return Tally() if is_wanted else None


def note(ended: Ended) -> None:
    """Count what became of a trial, if anybody does."""
    if (counts := tally()) is not None:
        counts.note(ended)


def start_draining() -> None:
    """Have all sessions of this worker end, and be given back."""
    _draining[0] = 1


def is_draining() -> bool:
    """Say whether sessions must end because their worker does."""
    return _draining[0] != 0


def _name() -> str:
    place = f"{socket.gethostname()}:{os.getpid()}"
    told = os.environ.get(WORKER_NAME_VARIABLE)
    return f"{told}@{place}" if told else place
