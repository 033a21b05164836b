"""Remember every run: what is to be done, who is doing it, what came of it.

Celery may lose a message, deliver it twice, or deliver it to a worker that dies. So a message is only a hint,
and this is the truth. Each step is one script on the server, and so happens whole or not at all:

- a manifest is written at once, before anything is published;
- a trial is carried out only under a lease, which its worker must renew;
- a result is written once, by the holder of the current token;
- the write that leaves nothing to do closes the run;
- a lease that was not renewed is taken back.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import redis

from farm.errors import FarmError, UsageError
from farm.model.job import CaseJob
from farm.model.report import RunState

DEFAULT_LEASE_MS = 30_000
DEFAULT_MAX_ATTEMPTS = 3

Refusal: TypeAlias = Literal["closed", "done", "leased", "early", "exhausted"]
Renewal: TypeAlias = Literal["held", "lost", "closed"]
Completion: TypeAlias = Literal["stored", "last", "duplicate", "closed"]

_KEYS = ("", ":todo", ":leases", ":claims", ":attempts", ":delays", ":results")
_RUNS = "farm:runs"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class LedgerError(FarmError):
    """The ledger's server can't be reached, or refuses us."""

    exit_code = 3


@dataclass(frozen=True)
class Claim:
    """The right to carry out one trial, for as long as it is renewed."""

    job: CaseJob
    token: str
    attempt: int


@dataclass(frozen=True)
class Refused:
    """Why a trial may not be carried out now; `wait_ms` until it may, if that is known."""

    reason: Refusal
    wait_ms: int = 0


@dataclass(frozen=True)
class Expired:
    """What became of the leases that nobody renewed."""

    again: tuple[CaseJob, ...]  # to be queued once more
    lost: int  # given up: every attempt's worker fell silent
    closed: bool  # giving up left nothing to do


@dataclass(frozen=True)
class RunStatus:
    """A run in figures."""

    run_id: str
    state: RunState
    total: int
    done: int
    leased: int
    executions: int
    retries: int
    duplicate_executions: int
    fields: Mapping[str, str]  # what the submitter wrote with the manifest


@dataclass(frozen=True)
class Result:
    """One trial's result as it was written; None if its workers were lost."""

    job: CaseJob
    data: bytes | None


class Ledger:
    """The ledger of all runs, on one server."""

    def __init__(
        self,
        client: redis.Redis,
        *,
        lease_ms: int = DEFAULT_LEASE_MS,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    ) -> None:
        self._client = client
        self._lease_ms = lease_ms
        self._max_attempts = max_attempts

    def create_run(self, run_id: str, jobs: Iterable[CaseJob], **fields: str) -> bool:
        """Write a run's manifest; False if there is a run of this id already, which is left as it is."""
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(f'"{run_id}" is no run id: letters, digits, "-", "_" and "." only')
        written = [text for field in fields.items() for text in field]
        arguments = [len(written), *written, *(_name(job) for job in jobs)]
        created = bool(self._call("create", run_id, *arguments))
        if created:
            # Not in the script: the index only helps to find runs, and each run is complete without it.
            self._guarded(lambda: self._client.zadd(_RUNS, {run_id: int(self._server_time_ms())}))
        return created

    def claim(self, job: CaseJob) -> Claim | Refused:
        """Ask for the right to carry out a trial."""
        token = secrets.token_hex(8)
        word, number = self._call("claim", job.run_id, _name(job), token, self._lease_ms, self._max_attempts)
        if word == b"claimed":
            return Claim(job, token, int(number))
        return Refused(cast("Refusal", word.decode()), int(number))

    def renew(self, claim: Claim) -> Renewal:
        """Keep a lease; "lost" and "closed" mean that the session must end."""
        answer = self._call("renew", claim.job.run_id, _name(claim.job), claim.token, self._lease_ms)
        return cast("Renewal", answer.decode())

    def complete(self, claim: Claim, result: bytes) -> Completion:
        """Write a trial's result. "last" obliges the caller to queue the aggregator."""
        if not result:
            raise ValueError("a result can't be empty: that means a lost trial")
        answer = self._call("complete", claim.job.run_id, _name(claim.job), claim.token, result)
        return cast("Completion", answer.decode())

    def give_back(self, claim: Claim, *, delay_ms: int = 0, uncounted: bool = False) -> bool:
        """Let another attempt be made, after a delay; uncounted if it was not the trial's fault."""
        arguments = (_name(claim.job), claim.token, delay_ms, "1" if uncounted else "0")
        return bool(self._call("give_back", claim.job.run_id, *arguments))

    def expire(self, run_id: str, *, limit: int = 1000) -> Expired:
        """Take back leases that nobody renewed."""
        closed, lost, *again = self._call("expire", run_id, self._max_attempts, limit)
        return Expired(tuple(_job(run_id, name) for name in again), int(lost), bool(closed))

    def cancel(self, run_id: str) -> bool:
        """Close a run as it is; False if it was closed already."""
        return bool(self._call("cancel", run_id))

    def finish(self, run_id: str) -> bool:
        """Say that a closed run has been aggregated; False if that is not news."""
        return bool(self._call("finish", run_id))

    def resume(self, run_id: str) -> int:
        """Open a closed run for its trials without result; give their number."""
        return int(self._call("resume", run_id))

    def status(self, run_id: str) -> RunStatus | None:
        """Look at a run; None if there is none of this id."""
        keys = _keys(run_id)

        def look() -> tuple[dict[bytes, bytes], int, int]:
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hgetall(keys[0])
            pipeline.scard(keys[1])
            pipeline.zcard(keys[2])
            fields, left, leased = pipeline.execute()
            return fields, left, leased

        raw, left, leased = self._guarded(look)
        if not raw:
            return None
        fields = {name.decode(): value.decode() for name, value in raw.items()}
        total = int(fields["total"])
        return RunStatus(
            run_id=run_id,
            state=cast("RunState", fields["state"]),
            total=total,
            done=total - left,
            leased=leased,
            executions=int(fields.get("executions", 0)),
            retries=int(fields.get("retries", 0)),
            duplicate_executions=int(fields.get("duplicate_executions", 0)),
            fields=fields,
        )

    def waiting(self, run_id: str) -> Iterator[CaseJob]:
        """Name the trials that have neither result nor lease, and whose delay is over."""
        keys = _keys(run_id)
        now_ms = self._server_time_ms()
        leased = set(self._guarded(lambda: self._client.zrange(keys[2], 0, -1)))
        delayed = set(self._guarded(lambda: self._client.zrangebyscore(keys[5], now_ms, "+inf")))
        for name in self._each(self._client.sscan_iter(keys[1], count=1000)):
            if name not in leased and name not in delayed:
                yield _job(run_id, name)

    def results(self, run_id: str) -> Iterator[Result]:
        """Give the results, a few at a time: a run may have more than fits in memory."""
        seen: set[bytes] = set()  # a scan may give an entry twice while the table grows
        for name, data in self._each(self._client.hscan_iter(_keys(run_id)[6], count=500)):
            if name not in seen:
                seen.add(name)
                yield Result(_job(run_id, name), data or None)

    def runs(self) -> list[str]:
        """Name the runs that the ledger knows, newest first."""
        return [name.decode() for name in self._guarded(lambda: self._client.zrevrange(_RUNS, 0, -1))]

    def forget(self, run_id: str) -> None:
        """Remove all that is known of a run."""
        self._guarded(lambda: self._client.delete(*_keys(run_id)))
        self._guarded(lambda: self._client.zrem(_RUNS, run_id))

    def _server_time_ms(self) -> int:
        seconds, microseconds = cast("tuple[int, int]", self._guarded(self._client.time))
        return seconds * 1000 + microseconds // 1000

    def _call(self, script: str, run_id: str, *arguments: Any) -> Any:
        registered = self._client.register_script(_source(script))
        return self._guarded(lambda: registered(keys=_keys(run_id), args=arguments))

    def _each(self, items: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while (item := self._guarded(lambda: next(items, end))) is not end:
            yield item

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except redis.AuthenticationError as error:
            raise LedgerError(
                f"the broker refuses the user or password of FARM_BROKER_URL: {error}"
            ) from None
        except redis.ConnectionError as error:
            raise LedgerError(f"the broker can't be reached: {error}") from None
        except redis.RedisError as error:
            raise LedgerError(f"the broker says: {error}") from None


def _keys(run_id: str) -> list[str]:
    # The braces keep a run's keys together on a cluster.
    return [f"farm:run:{{{run_id}}}{suffix}" for suffix in _KEYS]


def _name(job: CaseJob) -> str:
    return f"{job.trial}:{job.case_id}"


def _job(run_id: str, name: bytes) -> CaseJob:
    trial, _, case_id = name.decode().partition(":")
    return CaseJob(run_id=run_id, case_id=case_id, trial=int(trial))


@cache
def _source(script: str) -> str:
    directory = Path(__file__).parent / "lua"
    return (directory / "common.lua").read_text() + (directory / f"{script}.lua").read_text()
