"""Celery's pool of threads, for workers that take a message only when a slot is free for it.

With Celery's own, the worker's loop does not hear of a thread that is done: it sleeps until a timer wakes it,
up to a second, with a free slot and messages waiting.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from celery.concurrency import ALIASES, thread


class TaskPool(thread.TaskPool):
    """Wakes the worker's loop whenever a slot is free again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hears, self._tells = os.pipe()
        for end in (self._hears, self._tells):
            os.set_blocking(end, False)

    def register_with_event_loop(self, loop: Any) -> None:
        """Let the loop wait for us beside the broker's connection; said anew after each loss of that."""
        loop.add_reader(self._hears, self._listen)

    def on_apply(self, *args: Any, **kwargs: Any) -> thread.ApplyResult:
        """Start a task in a thread."""
        result = super().on_apply(*args, **kwargs)
        result.f.add_done_callback(self._tell)  # not task_postrun: the slot is not free yet then
        return result

    def _tell(self, _done: object) -> None:
        with suppress(BlockingIOError):  # it has been told often enough
            os.write(self._tells, b".")

    def _listen(self) -> None:
        os.read(self._hears, 4096)  # that we are awake is all we wanted


def use_for_threads() -> None:
    """Have Celery take this one for `--pool threads`; it has no other place to say so."""
    ALIASES["threads"] = f"{__name__}:{TaskPool.__name__}"
