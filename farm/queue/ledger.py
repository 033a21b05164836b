"""Remember every run: what is to be done, who is doing it, what came of it.

Celery may lose a message, deliver it twice, or deliver it to a worker that dies. So a message is only a hint,
and this is the truth. Each step is one script on the server, and so happens whole or not at all:

- a manifest is written at once, before anything is published;
- a trial is carried out only under a lease, which its worker must renew;
- a lease is given only within the limits of the fleet and the budget of the run;
- a result is written once, by the holder of the current token;
- the write that leaves nothing to do closes the run;
- a lease that was not renewed is taken back.

A step may be sent twice, when its answer is lost with the connection: the second time changes nothing.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

import redis

from farm.errors import UsageError
from farm.model.job import CaseJob
from farm.model.report import RunState
from farm.queue.connection import LedgerError, clear_errors
from farm.queue.fleet import Fleet
from farm.queue.names import RUN_ID
from farm.queue.records import (
    Claim,
    Completion,
    Expired,
    Limit,
    Refusal,
    Refused,
    Renewal,
    Result,
    Running,
    RunStatus,
    WorkerRecord,
)

__all__ = [
    "Claim",
    "Completion",
    "Expired",
    "Ledger",
    "LedgerError",
    "Limit",
    "Refusal",
    "Refused",
    "Renewal",
    "Result",
    "RunStatus",
    "Running",
    "WorkerRecord",
]

DEFAULT_LEASE_MS = 30_000
DEFAULT_MAX_LOSSES = 5
DEFAULT_KEEP_SECONDS = 14 * 24 * 3600

_T = TypeVar("_T")

# Without braces around the id, which would keep a run together on a cluster: limits are shared by all runs,
# so all keys must be on one server anyway.
_PREFIX = "farm:run:"
_TODO, _LEASES, _NOTES, _DELAYS = ":todo", ":leases", ":notes", ":delays"
_RESULTS, _LOG, _CASES = ":results", ":log", ":cases"
_SUFFIXES = ("", _TODO, _LEASES, _NOTES, _DELAYS, _RESULTS, _LOG, _CASES, ":claims", ":attempts", ":losses")
_ACTIVE, _RUNS = "farm:active", "farm:runs"
_OWN_NUMBERS = ("total", "executions", "retries", "duplicate_executions", "unknown_costs")
_OWN_TIMES = ("created_at_ms", "closed_at_ms", "finished_at_ms")
_OWN_AMOUNTS = ("budget_micro_usd", "spent_micro_usd", "reserved_micro_usd")
_OWN_FIELDS = {"state", "creation", "cancelled", "stopped", *_OWN_NUMBERS, *_OWN_TIMES, *_OWN_AMOUNTS}
_CREATION_SECONDS = 3600  # what a submitter prepared and never used is gone after that
_BATCH = 1000
_DISK_MS = 3000
_WORD_BYTES = 8  # before every result: which write it came by
_NOTE_CHARACTERS = 200
_MAX_USD = 1_000_000.0


class Ledger(Fleet):
    """The ledger of all runs, on one server."""

    def __init__(
        self,
        client: redis.Redis,
        *,
        lease_ms: int = DEFAULT_LEASE_MS,
        max_losses: int = DEFAULT_MAX_LOSSES,
        keep_seconds: int = DEFAULT_KEEP_SECONDS,
    ) -> None:
        super().__init__(client)
        self._lease_ms = lease_ms
        self._max_losses = max_losses
        self._keep_seconds = keep_seconds

    def create_run(
        self,
        run_id: str,
        jobs: Iterable[CaseJob],
        *,
        cases: Iterable[tuple[str, bytes]] = (),
        budget_usd: float | None = None,
        **fields: str,
    ) -> bool:
        """Write a run's manifest; False if there is a run of this id already, which is left as it is."""
        if not RUN_ID.fullmatch(run_id):
            raise UsageError(f'"{run_id}" is no run id: letters, digits, "-", "_" and "." only')
        written = _written(fields)
        word = secrets.token_hex(8)
        ready_jobs, ready_cases = _key(run_id, f"{_TODO}:{word}"), _key(run_id, f"{_CASES}:{word}")
        # Known as active before it exists: a submitter that dies on the way leaves nothing that nobody finds.
        now_ms = self._server_time_ms()
        with clear_errors():
            self._client.zadd(_ACTIVE, {run_id: now_ms})
            case_count = sum(self._prepare(ready_cases, "HSET", map(_flat, _batches(cases, 200))))
            names = ([_name(job) for job in batch] for batch in _batches(jobs, _BATCH))
            job_count = sum(self._prepare(ready_jobs, "SADD", names))
        budget = "" if budget_usd is None else _micro_usd(budget_usd)
        arguments = [word, run_id, job_count, case_count, budget, *written]
        created = self._run_script("create", [_key(run_id), ready_jobs, ready_cases], arguments, shared="run")
        if created < 0:
            raise LedgerError(
                "the broker lost a part of what was submitted; if it was restarted, submit again"
            )
        return bool(created)

    def await_disk(self) -> None:
        """Wait until what was written is on the server's disk, if it keeps anything there.

        For those who leave: a server that is killed within the next second would forget what it took.
        """
        try:
            with clear_errors():
                self._client.execute_command("WAITAOF", 1, 0, _DISK_MS)
        except LedgerError as error:
            # One without a disk, or of a version that knows no such wait: it promises no more.
            if "WAITAOF" not in str(error) and "unknown command" not in str(error):
                raise

    def claim(
        self,
        job: CaseJob,
        *,
        worker: str = "",
        limits: Sequence[Limit] = (),
        reserve_usd: float = 0.0,
        is_guess: bool = False,
    ) -> Claim | Refused:
        """Ask for the right to carry out a trial. What is refused as "limited", `due` gives later.

        If what is to be reserved is a guess, the last of the money is enough for one trial at a time.
        """
        token = secrets.token_hex(8)
        worker = _line(worker)
        reserve = [_micro_usd(reserve_usd), int(is_guess)]
        arguments = [_name(job), token, self._lease_ms, self._max_losses, *reserve, worker]
        for limit in limits:
            arguments += [limit.name, limit.concurrency or "", limit.starts_per_minute or ""]
        word, number, *more = self._call("claim", job.run_id, *arguments)
        if word == b"claimed":
            losses, started_at_ms = more
            return Claim(job, token, number, losses, worker, started_at_ms)
        return Refused(cast("Refusal", word.decode()), number)

    def renew(self, claim: Claim, note: str = "") -> Renewal:
        """Keep a lease; "lost" and "closed" mean that the session must end. The note says what it is at."""
        return _renewal(self._call("renew", claim.job.run_id, *self._renew_arguments(claim, note)))

    def renew_all(self, notes: Mapping[Claim, str]) -> dict[Claim, Renewal]:
        """Keep many leases with few messages."""
        renewals: dict[Claim, Renewal] = {}
        script = self._script("renew", "run")
        for batch in _batches(notes.items(), _BATCH):
            with clear_errors(), self._client.pipeline(transaction=False) as pipeline:
                for claim, note in batch:
                    arguments = self._renew_arguments(claim, note)
                    script(keys=[_key(claim.job.run_id)], args=arguments, client=pipeline)
                answers = pipeline.execute()
            renewals.update(
                (claim, _renewal(answer)) for (claim, _), answer in zip(batch, answers, strict=True)
            )
        return renewals

    def complete(self, claim: Claim, result: bytes, *, cost_usd: float | None = None) -> Completion:
        """Write a trial's result. "last" obliges the caller to queue the aggregator."""
        if not result:
            raise ValueError("a result can't be empty: that means a lost trial")
        word = secrets.token_bytes(_WORD_BYTES)
        arguments = (_name(claim.job), claim.token, word, _cost(cost_usd), result)
        return cast("Completion", self._call("complete", claim.job.run_id, *arguments).decode())

    def give_back(
        self, claim: Claim, *, delay_ms: int = 0, uncounted: bool = False, cost_usd: float | None = None
    ) -> bool:
        """Let another attempt be made, after a delay; uncounted if it was not the trial's fault."""
        arguments = (_name(claim.job), claim.token, _cost(cost_usd), delay_ms, int(uncounted))
        return bool(self._call("give_back", claim.job.run_id, *arguments))

    def expire(self, run_id: str, *, limit: int = 1000) -> Expired:
        """Take back leases that nobody renewed; give up trials that lost too many workers."""
        closed, lost, again = self._call("expire", run_id, self._max_losses, limit)
        return Expired(tuple(_job(run_id, name) for name in again), lost, bool(closed))

    def due(self, run_id: str, limit: int = 1000) -> tuple[CaseJob, ...]:
        """Take out the trials whose delay is over; the caller is to queue them."""
        return tuple(_job(run_id, name) for name in self._call("due", run_id, limit))

    def cancel(self, run_id: str) -> bool:
        """Close a run as it is; False if it was closed already."""
        return bool(self._call("cancel", run_id))

    def finish(self, run_id: str, *, closed_at_ms: int | None = None, **fields: str) -> bool:
        """Say that a closed run has been aggregated; False if that is not news. It is kept for some days.

        With the time when it was closed, False also if it has been opened and closed again since.
        """
        arguments = [self._keep_seconds * 1000, "" if closed_at_ms is None else closed_at_ms]
        return bool(self._call("finish", run_id, run_id, *arguments, *_written(fields)))

    def note_trouble(self, run_id: str, why: str) -> None:
        """Say why a closed run has no report yet, for those who wait for it."""
        self._call("trouble", run_id, why)

    def resume(self, run_id: str, *, budget_usd: float | None = None) -> int:
        """Open a closed run for its trials without result; give their number."""
        return int(self._call("resume", run_id, run_id, _cost(budget_usd)))

    def retry(self, run_id: str, jobs: Iterable[CaseJob], *, budget_usd: float | None = None) -> int:
        """Put trials that have a result back to be done, and open the run; give the number of them."""
        return int(self._call("retry", run_id, run_id, _cost(budget_usd), *map(_name, jobs)))

    def status(self, run_id: str) -> RunStatus | None:
        """Look at a run; None if there is none of this id."""
        now_ms = self._server_time_ms()
        with clear_errors():
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hgetall(_key(run_id))
            pipeline.scard(_key(run_id, _TODO))
            pipeline.zcount(_key(run_id, _LEASES), f"({now_ms}", "+inf")  # the others are of the dead
            raw, left, leased = pipeline.execute()
        if not raw:
            return None
        return _status(run_id, {name.decode(): value.decode() for name, value in raw.items()}, left, leased)

    def waiting(self, run_id: str) -> Iterator[CaseJob]:
        """Name the trials that have neither result nor lease, and whose delay is over."""
        now_ms = self._server_time_ms()
        with clear_errors():
            leased = set(self._client.zrange(_key(run_id, _LEASES), 0, -1))
            delayed = set(self._client.zrangebyscore(_key(run_id, _DELAYS), now_ms, "+inf"))
        for name in _each(self._client.sscan_iter(_key(run_id, _TODO), count=_BATCH)):
            if name not in leased and name not in delayed:
                yield _job(run_id, name)

    def running(self, run_id: str, limit: int = 100) -> list[Running]:
        """Name sessions that run, longest first; not more than a screen can show."""
        with clear_errors():
            names = self._client.zrange(_key(run_id, _LEASES), 0, limit - 1)
            notes = self._client.hmget(_key(run_id, _NOTES), names) if names else []
        found = [_running(run_id, name, note) for name, note in zip(names, notes, strict=True) if note]
        return sorted(found, key=lambda running: running.started_at_ms)

    def case(self, run_id: str, case_id: str) -> bytes | None:
        """Give one case of the manifest as the submitter wrote it."""
        with clear_errors():
            return cast("bytes | None", self._client.hget(_key(run_id, _CASES), case_id))

    def cases(self, run_id: str, case_ids: Sequence[str]) -> list[bytes | None]:
        """Give some cases of the manifest, None for each that is not there."""
        return self._many(_key(run_id, _CASES), case_ids)

    def case_ids(self, run_id: str) -> list[str]:
        """Name the cases of the manifest, in no order."""
        with clear_errors():
            return [name.decode() for name in self._client.hkeys(_key(run_id, _CASES))]

    def results(self, run_id: str) -> Iterator[Result]:
        """Give the results, a few at a time: a run may have more than fits in memory."""
        seen: set[bytes] = set()  # a scan may give an entry twice while the table grows
        for name, data in _each(self._client.hscan_iter(_key(run_id, _RESULTS), count=500)):
            if name not in seen:
                seen.add(name)
                yield Result(_job(run_id, name), data[_WORD_BYTES:] or None)

    def results_of(self, run_id: str, jobs: Sequence[CaseJob]) -> list[bytes | None]:
        """Give the results of some trials: None if there is none yet, empty if the workers were lost."""
        rows = self._many(_key(run_id, _RESULTS), [_name(job) for job in jobs])
        return [None if row is None else row[_WORD_BYTES:] for row in rows]

    def follow(self, run_id: str, position: int, limit: int = 500) -> tuple[list[Result], int]:
        """Give results in the order in which they were written, and the position to go on from.

        After a retry a trial may come again. A result that was put back meanwhile is left out.
        """
        with clear_errors():
            names = self._client.lrange(_key(run_id, _LOG), position, position + limit - 1)
        jobs = [_job(run_id, name) for name in names]
        rows = zip(jobs, self.results_of(run_id, jobs), strict=True)
        return [Result(job, row or None) for job, row in rows if row is not None], position + len(names)

    def active_runs(self) -> list[str]:
        """Name the runs that are not finished, oldest first."""
        found = self._run_script("active", [_ACTIVE], [_PREFIX, _CREATION_SECONDS * 1000])
        return [run_id.decode() for run_id in found]

    def runs(self) -> list[str]:
        """Name the runs that the ledger knows, newest first."""
        return [run_id.decode() for run_id in self._run_script("runs", [_RUNS], [_PREFIX])]

    def forget(self, run_id: str) -> None:
        """Remove all that is known of a run."""
        with clear_errors():
            pipeline = self._client.pipeline(transaction=True)
            pipeline.unlink(*(_key(run_id, suffix) for suffix in _SUFFIXES))
            pipeline.zrem(_RUNS, run_id)
            pipeline.zrem(_ACTIVE, run_id)
            pipeline.execute()

    def _call(self, script: str, run_id: str, *arguments: Any) -> Any:
        return self._run_script(script, [_key(run_id)], arguments, shared="run")

    def _prepare(self, key: str, command: str, batches: Iterable[list[Any]]) -> Iterator[int]:
        """Write a manifest in parts under a name of its own; give how much is new with each part."""
        for batch in batches:
            with self._client.pipeline(transaction=True) as pipeline:
                pipeline.execute_command(command, key, *batch)
                pipeline.expire(key, _CREATION_SECONDS)
                yield int(pipeline.execute()[0])

    def _renew_arguments(self, claim: Claim, note: str) -> list[Any]:
        shown = f"{claim.started_at_ms}\n{claim.worker}\n{_line(note)}" if note else ""
        return [_name(claim.job), claim.token, self._lease_ms, shown]

    def _many(self, key: str, names: Sequence[str]) -> list[bytes | None]:
        rows: list[bytes | None] = []
        with clear_errors():
            for batch in _batches(names, _BATCH):
                rows += self._client.hmget(key, batch)
        return rows


def _key(run_id: str, suffix: str = "") -> str:
    return f"{_PREFIX}{run_id}{suffix}"


def _name(job: CaseJob) -> str:
    return f"{job.trial}:{job.case_id}"


def _job(run_id: str, name: bytes) -> CaseJob:
    trial, _, case_id = name.decode().partition(":")
    return CaseJob(run_id=run_id, case_id=case_id, trial=int(trial))


def _renewal(answer: bytes) -> Renewal:
    return cast("Renewal", answer.decode())


def _running(run_id: str, name: bytes, note: bytes) -> Running:
    started_at_ms, worker, text = note.decode().split("\n")
    return Running(_job(run_id, name), worker, text, int(started_at_ms))


def _status(run_id: str, fields: Mapping[str, str], left: int, leased: int) -> RunStatus:
    def number(name: str) -> int:
        return int(fields.get(name, 0))

    total = number("total")
    return RunStatus(
        run_id=run_id,
        state=cast("RunState", fields["state"]),
        total=total,
        done=total - left,
        leased=leased,
        executions=number("executions"),
        retries=number("retries"),
        duplicate_executions=number("duplicate_executions"),
        spent_usd=number("spent_micro_usd") / 1e6,
        reserved_usd=number("reserved_micro_usd") / 1e6,
        budget_usd=number("budget_micro_usd") / 1e6 if "budget_micro_usd" in fields else None,
        unknown_costs=number("unknown_costs"),
        stopped=fields.get("stopped"),
        trouble=fields.get("trouble"),
        cancelled=fields.get("cancelled") == "1",
        created_at_ms=number("created_at_ms"),
        closed_at_ms=number("closed_at_ms") or None,
        finished_at_ms=number("finished_at_ms") or None,
        fields={name: value for name, value in fields.items() if name not in _OWN_FIELDS},
    )


def _written(fields: Mapping[str, str]) -> list[str]:
    if clash := sorted(_OWN_FIELDS & fields.keys()):
        raise ValueError(f"the ledger writes these fields itself: {', '.join(clash)}")
    return [text for field in fields.items() for text in field]


def _micro_usd(amount: float) -> int:
    # In whole numbers, or what was added up and taken off again would not come to nothing.
    if not 0 <= amount < math.inf:
        raise ValueError(f"{amount} is no amount of money")
    return round(min(amount, _MAX_USD) * 1e6)


def _cost(amount: float | None) -> int | str:
    """Write an amount that may be unknown. What an agent says of its cost may be anything."""
    return "" if amount is None or not 0 <= amount < math.inf else _micro_usd(amount)


def _line(text: str) -> str:
    return " ".join(text[:_NOTE_CHARACTERS].split())


def _flat(rows: Sequence[tuple[str, bytes]]) -> list[Any]:
    return [item for row in rows for item in row]


def _batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _each(items: Iterator[_T]) -> Iterator[_T]:
    end = object()
    while True:
        with clear_errors():
            item = next(items, end)
        if item is end:
            return
        yield cast("_T", item)
