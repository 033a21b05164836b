"""What this worker carries trials out with, made once and shared by all of its pool."""

from __future__ import annotations

import mmap
import os
import socket
from functools import cache

from farm.queue.caching import cache_directory
from farm.queue.carry_out import WorkPlace
from farm.queue.heartbeat import Heartbeat
from farm.queue.names import WORKER_NAME_VARIABLE
from workers.app import broker

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
