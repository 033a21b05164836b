"""Share among all workers what is no run's own: who lives, who has which lock, which limits pause."""

from __future__ import annotations

import dataclasses
import json
from functools import cache

from pydantic import TypeAdapter, ValidationError

from farm.queue.connection import clear_errors
from farm.queue.records import WorkerRecord
from farm.queue.scripts import ScriptedClient

_WORKERS = ["farm:workers", "farm:workers:records"]


class Fleet(ScriptedClient):
    """What the workers of one server share."""

    def back_off(self, name: str, ms: int) -> None:
        """Let nobody start under this limit's name for a time: its service is overloaded."""
        if ms > 0:
            self._run_script("back_off", [f"farm:limit:{name}:pause"], [ms])

    def take_lock(self, name: str, owner: str, ttl_ms: int) -> bool:
        """Take a lock, or keep it if it is this owner's; False if it is another's."""
        return bool(self._run_script("take_lock", [_lock(name)], [owner, ttl_ms]))

    def release_lock(self, name: str, owner: str) -> bool:
        """Let go of a lock; False if it was not this owner's any more."""
        return bool(self._run_script("release_lock", [_lock(name)], [owner]))

    def break_lock(self, name: str) -> None:
        """Take a lock from an owner that is known to be dead."""
        with clear_errors():
            self._client.delete(_lock(name))

    def announce(self, worker: WorkerRecord, ttl_ms: int = 30_000) -> None:
        """Say that a worker lives; to be said again before the time is over."""
        record = json.dumps(dataclasses.asdict(worker))
        self._run_script("announce", _WORKERS, [worker.name, ttl_ms, record])

    def withdraw(self, name: str) -> None:
        """Say that a worker ends."""
        with clear_errors():
            pipeline = self._client.pipeline(transaction=True)
            pipeline.zrem(_WORKERS[0], name)
            pipeline.hdel(_WORKERS[1], name)
            pipeline.execute()

    def workers(self) -> list[WorkerRecord]:
        """Name the workers that live, by name."""
        living = []
        for record in self._run_script("workers", _WORKERS, []):
            try:
                living.append(_worker_record().validate_json(record))
            except ValidationError:
                continue  # of another version of the farm: it lives, but what it says is not for us
        return sorted(living, key=lambda worker: worker.name)


@cache
def _worker_record() -> TypeAdapter[WorkerRecord]:
    return TypeAdapter(WorkerRecord)  # not at the import: to build it takes milliseconds


def _lock(name: str) -> str:
    return f"farm:lock:{name}"
