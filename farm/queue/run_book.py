"""Look at runs: how they stand, what their manifest says, what has come of them. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar, cast

from farm.model.job import CaseJob
from farm.model.report import RunState
from farm.queue.batching import batches
from farm.queue.connection import clear_errors
from farm.queue.fleet import Fleet
from farm.queue.keys import (
    ACTIVE,
    CASES,
    CREATION_SECONDS,
    DELAYS,
    LEASES,
    LOG,
    NOTES,
    PREFIX,
    RESULTS,
    RUNS,
    TODO,
    WORD_BYTES,
    job_of,
    key_of,
    name_of,
)
from farm.queue.records import Result, Running, RunStatus

_T = TypeVar("_T")

_BATCH = 1000
_OWN_NUMBERS = ("total", "executions", "retries", "duplicate_executions", "unknown_costs")
_OWN_TIMES = ("created_at_ms", "closed_at_ms", "finished_at_ms")
_OWN_AMOUNTS = ("budget_micro_usd", "spent_micro_usd", "reserved_micro_usd")
OWN_FIELDS = {
    "state",
    "creation",
    "cancelled",
    "stopped",
    "trouble",
    *_OWN_NUMBERS,
    *_OWN_TIMES,
    *_OWN_AMOUNTS,
}


class RunBook(Fleet):
    """What can be read of the runs on one server."""

    def status(self, run_id: str) -> RunStatus | None:
        """Look at a run; None if there is none of this id."""
        words, left, leased = self._run_script("status", [key_of(run_id)], [], shared="run")
        if not words:
            return None
        texts = [word.decode() for word in words]
        return _status(run_id, dict(zip(texts[::2], texts[1::2], strict=True)), left, leased)

    def waiting(self, run_id: str) -> Iterator[CaseJob]:
        """Name the trials that have neither result nor lease, and whose delay is over."""
        now_ms = self.time_ms()
        with clear_errors():
            leased = set(self._client.zrange(key_of(run_id, LEASES), 0, -1))
            delayed = set(self._client.zrangebyscore(key_of(run_id, DELAYS), f"({now_ms}", "+inf"))
        for name in _each(self._client.sscan_iter(key_of(run_id, TODO), count=_BATCH)):
            if name not in leased and name not in delayed:
                yield job_of(run_id, name)

    def running(self, run_id: str, limit: int = 100) -> list[Running]:
        """Name sessions that run, longest first; not more than a screen can show."""
        with clear_errors():
            names = self._client.zrange(key_of(run_id, LEASES), 0, limit - 1)
            notes = self._client.hmget(key_of(run_id, NOTES), names) if names else []
        found = [_running(run_id, name, note) for name, note in zip(names, notes, strict=True) if note]
        return sorted(found, key=lambda running: running.started_at_ms)

    def case(self, run_id: str, case_id: str) -> bytes | None:
        """Give one case of the manifest as the submitter wrote it."""
        with clear_errors():
            return cast("bytes | None", self._client.hget(key_of(run_id, CASES), case_id))

    def cases(self, run_id: str, case_ids: Sequence[str]) -> list[bytes | None]:
        """Give some cases of the manifest, None for each that is not there."""
        return self._many(key_of(run_id, CASES), case_ids)

    def case_ids(self, run_id: str) -> list[str]:
        """Name the cases of the manifest, in no order."""
        with clear_errors():
            return [name.decode() for name in self._client.hkeys(key_of(run_id, CASES))]

    def results(self, run_id: str) -> Iterator[Result]:
        """Give the results, a few at a time: a run may have more than fits in memory."""
        seen: set[bytes] = set()  # a scan may give an entry twice while the table grows
        for name, data in _each(self._client.hscan_iter(key_of(run_id, RESULTS), count=500)):
            if name not in seen:
                seen.add(name)
                yield Result(job_of(run_id, name), data[WORD_BYTES:] or None)

    def results_of(self, run_id: str, jobs: Sequence[CaseJob]) -> list[bytes | None]:
        """Give the results of some trials: None if there is none yet, empty if the workers were lost."""
        rows = self._many(key_of(run_id, RESULTS), [name_of(job) for job in jobs])
        return [None if row is None else row[WORD_BYTES:] for row in rows]

    def follow(self, run_id: str, position: int, limit: int = 500) -> tuple[list[Result], int]:
        """Give results in the order in which they were written, and the position to go on from.

        After a retry a trial may come again. A result that was put back meanwhile is left out.
        """
        with clear_errors():
            names = self._client.lrange(key_of(run_id, LOG), position, position + limit - 1)
        jobs = [job_of(run_id, name) for name in names]
        rows = zip(jobs, self.results_of(run_id, jobs), strict=True)
        return [Result(job, row or None) for job, row in rows if row is not None], position + len(names)

    def active_runs(self) -> list[str]:
        """Name the runs that are not finished, oldest first."""
        found = self._run_script("active", [ACTIVE], [PREFIX, CREATION_SECONDS * 1000])
        return [run_id.decode() for run_id in found]

    def runs(self) -> list[str]:
        """Name the runs that the ledger knows, newest first."""
        return [run_id.decode() for run_id in self._run_script("runs", [RUNS], [PREFIX])]

    def states(self) -> Counter[str]:
        """Count the runs that the ledger knows, by state."""
        run_ids = self.runs()
        with clear_errors(), self._client.pipeline(transaction=False) as pipeline:
            for run_id in run_ids:
                pipeline.hget(key_of(run_id), "state")
            found = pipeline.execute()
        return Counter(state.decode() for state in found if state)  # one may have been forgotten meanwhile

    def _many(self, key: str, names: Sequence[str]) -> list[bytes | None]:
        rows: list[bytes | None] = []
        with clear_errors():
            for batch in batches(names, _BATCH):
                rows += self._client.hmget(key, batch)
        return rows


def _running(run_id: str, name: bytes, note: bytes) -> Running:
    started_at_ms, worker, text = note.decode().split("\n")
    return Running(job_of(run_id, name), worker, text, int(started_at_ms))


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
        fields={name: value for name, value in fields.items() if name not in OWN_FIELDS},
    )


def _each(items: Iterator[_T]) -> Iterator[_T]:
    end = object()
    while True:
        with clear_errors():
            item = next(items, end)
        if item is end:
            return
        yield cast("_T", item)
