"""Remember what is to be told of scheduled runs, until it has been told: once, however many beats there are.

A notice names its target by a hash. Where that is, and what is run for it, says only the farm.yaml of who
delivers it: nobody else can make a beat run a command.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from farm.model.schedule import NotifySpec
from farm.queue.connection import clear_errors
from farm.queue.scripts import ScriptedClient

KEEP_MS = 30 * 24 * 3600 * 1000  # longer than the ledger keeps a run

_NOTICE, _WAITING, _MARK, _WATCHED = "farm:notice:", "farm:notices:", "farm:mark:", "farm:watched:"
_WATCHED_SECONDS = 14 * 24 * 3600


@dataclass(frozen=True)
class Notice:
    """One thing to be told to one target."""

    id: str
    target: str
    tries: int  # this one included
    record: bytes


class Notices(ScriptedClient):
    """The notices of all suites on one server. Times are the caller's."""

    def add(self, suite: str, run_id: str, what: str, target: str, record: bytes, now: datetime) -> bool:
        """Have something told of a run; False if that has been done already."""
        notice = f"{run_id}:{what}:{target}"
        keys = [_NOTICE + notice, _WAITING + suite]
        return bool(self._run_script("add_notice", keys, [notice, record, _ms(now), KEEP_MS]))

    def take(self, suite: str, now: datetime, hold_ms: int, targets: Iterable[str]) -> Notice | None:
        """Take a due notice to one of these targets; it comes again after that time unless it is done.

        Others are left: another beat may have another farm.yaml, and know them.
        """
        taken = self._run_script("take_notice", [_WAITING + suite], [_NOTICE, _ms(now), hold_ms, *targets])
        if taken is None:
            return None
        notice = taken[0].decode()
        return Notice(notice, notice.rpartition(":")[2], int(taken[1]), taken[2])

    def done(self, suite: str, notice: Notice) -> None:
        """Say that a notice need not come again."""
        with clear_errors():
            self._client.zrem(_WAITING + suite, notice.id)

    def put_off(self, suite: str, notice: Notice, now: datetime, wait_ms: int) -> None:
        """Have a notice come again later."""
        with clear_errors():
            self._client.zadd(_WAITING + suite, {notice.id: _ms(now) + wait_ms}, xx=True)

    def mark(self, name: str) -> None:
        """Remember that something has been seen to."""
        with clear_errors():
            self._client.set(_MARK + name, 1, px=KEEP_MS)

    def is_marked(self, name: str) -> bool:
        """Say whether something has been seen to."""
        with clear_errors():
            return bool(self._client.exists(_MARK + name))

    def watched_since(self, definition: str, now: datetime) -> datetime:
        """Say since when there is a beat that knows a schedule as it is now; by calling, there is."""
        key = _WATCHED + definition
        with clear_errors(), self._client.pipeline(transaction=True) as pipeline:
            pipeline.set(key, _ms(now), nx=True)
            pipeline.expire(key, _WATCHED_SECONDS)
            pipeline.get(key)
            since_ms = int(pipeline.execute()[2])
        return datetime.fromtimestamp(since_ms / 1000, now.tzinfo)


def target_of(spec: NotifySpec) -> str:
    """Name a target without saying what it is: there may be a secret in it."""
    return hashlib.sha256(f"{spec.webhook}\n{spec.command}".encode(errors="replace")).hexdigest()[:12]


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
