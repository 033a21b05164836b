"""Bring what became of trials from the pool, which may be other processes, to the worker's own process.

One datagram a trial. prometheus_client's own way is a file in memory for each process, and writing to that
kills the process when the disk is full.
"""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Iterator
from contextlib import suppress

from farm.queue.ended import Ended

_MAX_BYTES = 4096


class Tally:
    """Made before the pool forks; what one end notes, the other gives."""

    def __init__(self) -> None:
        self._takes, self._gives = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._gives.settimeout(0)

    def note(self, ended: Ended) -> None:
        """Send off what became of a trial."""
        with suppress(OSError):  # nobody listens fast enough; no trial waits for a figure
            self._gives.send(json.dumps(dataclasses.asdict(ended)).encode())

    def noted(self) -> Iterator[Ended]:
        """Give what was noted, and wait for more."""
        while True:
            yield Ended(**json.loads(self._takes.recv(_MAX_BYTES)))
