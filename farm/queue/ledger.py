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
from typing import Any, cast

import redis

from farm.errors import UsageError
from farm.model.job import CaseJob
from farm.queue.batching import batches
from farm.queue.connection import LedgerError, clear_errors
from farm.queue.keys import (
    ACTIVE,
    CASES,
    CREATION_SECONDS,
    RUNS,
    SUFFIXES,
    TODO,
    WORD_BYTES,
    job_of,
    key_of,
    name_of,
)
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
from farm.queue.run_book import OWN_FIELDS, RunBook

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

_BATCH = 1000
_DISK_MS = 3000
_NOTE_CHARACTERS = 200
_MAX_USD = 1_000_000.0


class Ledger(RunBook):
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
        ready_jobs, ready_cases = key_of(run_id, f"{TODO}:{word}"), key_of(run_id, f"{CASES}:{word}")
        # Known as active before it exists: a submitter that dies on the way leaves nothing that nobody finds.
        now_ms = self.time_ms()
        with clear_errors():
            self._client.zadd(ACTIVE, {run_id: now_ms})
            case_count = sum(self._prepare(ready_cases, "HSET", map(_flat, batches(cases, 200))))
            names = ([name_of(job) for job in batch] for batch in batches(jobs, _BATCH))
            job_count = sum(self._prepare(ready_jobs, "SADD", names))
        budget = "" if budget_usd is None else _micro_usd(budget_usd)
        arguments = [word, run_id, job_count, case_count, budget, *written]
        created = self._run_script(
            "create", [key_of(run_id), ready_jobs, ready_cases], arguments, shared="run"
        )
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
        arguments = [name_of(job), token, self._lease_ms, self._max_losses, *reserve, worker]
        for limit in limits:
            arguments += [limit.name, limit.concurrency or "", limit.starts_per_minute or ""]
        word, number, *more = self._call("claim", job.run_id, *arguments)
        if word == b"claimed":
            losses, started_at_ms, errors = more
            return Claim(job, token, number, losses, worker, started_at_ms, errors)
        return Refused(cast("Refusal", word.decode()), number)

    def renew(self, claim: Claim, note: str = "") -> Renewal:
        """Keep a lease; "lost" and "closed" mean that the session must end. The note says what it is at."""
        return _renewal(self._call("renew", claim.job.run_id, *self._renew_arguments(claim, note)))

    def renew_all(self, notes: Mapping[Claim, str]) -> dict[Claim, Renewal]:
        """Keep many leases with few messages."""
        renewals: dict[Claim, Renewal] = {}
        script = self._script("renew", "run")
        for batch in batches(notes.items(), _BATCH):
            with clear_errors(), self._client.pipeline(transaction=False) as pipeline:
                for claim, note in batch:
                    arguments = self._renew_arguments(claim, note)
                    script(keys=[key_of(claim.job.run_id)], args=arguments, client=pipeline)
                answers = pipeline.execute()
            renewals.update(
                (claim, _renewal(answer)) for (claim, _), answer in zip(batch, answers, strict=True)
            )
        return renewals

    def complete(self, claim: Claim, result: bytes, *, cost_usd: float | None = None) -> Completion:
        """Write a trial's result. "last" obliges the caller to queue the aggregator."""
        if not result:
            raise ValueError("a result can't be empty: that means a lost trial")
        word = secrets.token_bytes(WORD_BYTES)
        arguments = (name_of(claim.job), claim.token, word, _cost(cost_usd), result)
        return cast("Completion", self._call("complete", claim.job.run_id, *arguments).decode())

    def give_back(
        self,
        claim: Claim,
        *,
        delay_ms: int = 0,
        uncounted: bool = False,
        cost_usd: float | None = None,
        errors: bytes = b"",
    ) -> bool:
        """Let another attempt be made, after a delay; uncounted if it was not the trial's fault.

        The errors of all attempts so far are kept for who claims it next.
        """
        arguments = (name_of(claim.job), claim.token, _cost(cost_usd), delay_ms, int(uncounted), errors)
        return bool(self._call("give_back", claim.job.run_id, *arguments))

    def expire(self, run_id: str, *, limit: int = 1000) -> Expired:
        """Take back leases that nobody renewed; give up trials that lost too many workers."""
        closed, lost, again = self._call("expire", run_id, self._max_losses, limit)
        return Expired(tuple(job_of(run_id, name) for name in again), lost, bool(closed))

    def due(self, run_id: str, limit: int = 1000) -> tuple[CaseJob, ...]:
        """Take out the trials whose delay is over; the caller is to queue them."""
        return tuple(job_of(run_id, name) for name in self._call("due", run_id, limit))

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
        return int(self._call("retry", run_id, run_id, _cost(budget_usd), *map(name_of, jobs)))

    def replace_cases(self, run_id: str, cases: Iterable[tuple[str, bytes]]) -> None:
        """Put other rows in the place of some of the manifest's."""
        for batch in batches(cases, 200):
            self._call("replace", run_id, *_flat(batch))

    def forget(self, run_id: str) -> None:
        """Remove all that is known of a run."""
        with clear_errors():
            pipeline = self._client.pipeline(transaction=True)
            pipeline.unlink(*(key_of(run_id, suffix) for suffix in SUFFIXES))
            pipeline.zrem(RUNS, run_id)
            pipeline.zrem(ACTIVE, run_id)
            pipeline.execute()

    def _call(self, script: str, run_id: str, *arguments: Any) -> Any:
        return self._run_script(script, [key_of(run_id)], arguments, shared="run")

    def _prepare(self, key: str, command: str, batches: Iterable[list[Any]]) -> Iterator[int]:
        """Write a manifest in parts under a name of its own; give how much is new with each part."""
        for batch in batches:
            with self._client.pipeline(transaction=True) as pipeline:
                pipeline.execute_command(command, key, *batch)
                pipeline.expire(key, CREATION_SECONDS)
                yield int(pipeline.execute()[0])

    def _renew_arguments(self, claim: Claim, note: str) -> list[Any]:
        shown = f"{claim.started_at_ms}\n{claim.worker}\n{_line(note)}" if note else ""
        return [name_of(claim.job), claim.token, self._lease_ms, shown]


def _renewal(answer: bytes) -> Renewal:
    return cast("Renewal", answer.decode())


def _written(fields: Mapping[str, str]) -> list[str]:
    if clash := sorted(OWN_FIELDS & fields.keys()):
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
