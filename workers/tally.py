"""Bring what became of trials from the pool, which may be other processes, to the worker's own process.

A line a trial, through a pipe: what is shorter than 512 bytes is written whole or not at all. Not by
datagrams, of which some systems keep ten; nor in prometheus_client's own way, a file in memory for each
process: writing to that kills the process when the disk is full.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import suppress

from farm.queue.ended import Ended


class Tally:
    """Made before the pool forks; what one end notes, the other gives."""

    def __init__(self) -> None:
        takes, self._gives = os.pipe()
        self._takes = os.fdopen(takes, "rb")
        os.set_blocking(self._gives, False)

    def note(self, ended: Ended) -> None:
        """Send off what became of a trial, in figures: why is not counted, and may be long."""
        figures = dataclasses.asdict(dataclasses.replace(ended, why=""))
        with suppress(BlockingIOError):  # nobody counts fast enough; no trial waits for that
            os.write(self._gives, json.dumps(figures).encode() + b"\n")

    def noted(self) -> Iterator[Ended]:
        """Give what was noted, and wait for more until it is closed."""
        for line in self._takes:
            yield Ended(**json.loads(line))

    def close(self) -> None:
        """Take no more notes."""
        os.close(self._gives)  # the end, for who waits
        self._takes.close()
