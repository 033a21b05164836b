"""Share among all workers what is no run's own: who lives, who has which lock, which limits pause."""

from __future__ import annotations

import dataclasses
import json
import random
from functools import cache

from pydantic import TypeAdapter, ValidationError

from farm.queue.connection import clear_errors
from farm.queue.records import WorkerRecord
from farm.queue.scripts import ScriptedClient

FIRST_PAUSE_MS = 5_000
LONGEST_PAUSE_MS = 300_000

_WORKERS = ["farm:workers", "farm:workers:records"]
_PAUSES = "farm:pauses"


class Fleet(ScriptedClient):
    """What the workers of one server share."""

    def note_busy(
        self,
        name: str,
        began_ms: int,
        *,
        told_ms: int = 0,
        first_ms: int = FIRST_PAUSE_MS,
        longest_ms: int = LONGEST_PAUSE_MS,
    ) -> int:
        """Let nobody start under this name for a time, longer with each strike in a row; give the time left.

        `began_ms` is when the session was claimed that was turned away; `told_ms` how long its service asked
        to wait, if it did.
        """
        keys = [f"farm:limit:{name}:pause", f"farm:limit:{name}:strikes", _PAUSES]
        chance = random.random()  # noqa: S311 — no secret
        told_ms = min(told_ms, 2 * longest_ms)
        return int(self._run_script("busy", keys, [name, began_ms, first_ms, longest_ms, told_ms, chance]))

    def note_served(self, name: str, began_ms: int) -> None:
        """Say that the service of this name served a session: the next strike is a first one again."""
        self._run_script("served", [f"farm:limit:{name}:strikes"], [began_ms])

    def pauses(self) -> dict[str, int]:
        """Give the names under which nobody may start now because a service is busy, and for how many ms."""
        now_ms = self.time_ms()
        with clear_errors():
            found = self._client.zrangebyscore(_PAUSES, f"({now_ms}", "+inf", withscores=True)
        return {name.decode(): int(ends_ms) - now_ms for name, ends_ms in found}

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
