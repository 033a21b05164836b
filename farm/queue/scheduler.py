"""What `celery beat` runs: the schedules of farm.yaml, in the place of Celery's own."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from celery import beat

from farm.errors import FarmError
from farm.queue.broker import broker_from_environment
from farm.queue.names import URL_VARIABLE
from farm.queue.schedules import schedules_of
from farm.queue.timekeeper import LOOK_EVERY_SECONDS, ChildSubmitter, Timekeeper
from farm.settings import find_root, load_settings

_log = logging.getLogger(__name__)


class Scheduler(beat.Scheduler):  # type: ignore[misc]
    """Celery's way to a Timekeeper for the project of the current directory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._root = find_root([Path.cwd()])
        self._submit = ChildSubmitter()
        self._timekeeper: Timekeeper | None = None
        super().__init__(*args, **kwargs)
        # Celery's default, five minutes, is too long to see that a run is over.
        self.max_interval: float = min(self.max_interval, LOOK_EVERY_SECONDS)

    def setup_schedule(self) -> None:
        """Begin; Celery's own entries, such as the clean-up of results, have nothing to do here."""
        broker = broker_from_environment()
        if broker is None:
            raise FarmError(f"{URL_VARIABLE} is not set; a beat needs a broker")
        self._timekeeper = Timekeeper(self._root, broker, self._submit)

    def tick(self, *_: Any, **__: Any) -> float:
        """Do what is due; give the seconds until the next tick."""
        assert self._timekeeper is not None
        try:
            return min(self._timekeeper.look(), self.max_interval)
        except Exception:  # noqa: BLE001 — a beat that has gone tells nobody anything
            _log.exception("the beat stumbled")
            return float(self.max_interval)

    def close(self) -> None:
        """End what is being submitted."""
        self._submit.end()
        super().close()

    @property
    def info(self) -> str:
        """Say in Celery's banner what there is to do."""
        try:
            names = ", ".join(schedules_of(self._root, load_settings(self._root)))
        except FarmError as error:
            return f"    . schedules -> {error}"
        return f"    . schedules -> {names or 'none'} ({self._root})"
