"""What the ledger gives and takes: claims, limits, results, a run in figures, workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from farm.model.job import CaseJob
from farm.model.report import RunState

Refusal: TypeAlias = Literal["closed", "done", "leased", "early", "limited", "over_budget"]
Renewal: TypeAlias = Literal["held", "lost", "closed"]
Completion: TypeAlias = Literal["stored", "last", "duplicate", "closed"]


@dataclass(frozen=True)
class Limit:
    """What all workers of all runs may do together under one name, such as `model:opus`."""

    name: str
    concurrency: int | None = None  # sessions at once
    starts_per_minute: int | None = None

    def __post_init__(self) -> None:
        if not self.name or "\n" in self.name:
            raise ValueError("a limit's name is one line, and not empty")
        if any(number is not None and number < 1 for number in (self.concurrency, self.starts_per_minute)):
            raise ValueError(f"limit {self.name}: less than one would let nothing start, ever")


@dataclass(frozen=True)
class Claim:
    """The right to carry out one trial, for as long as it is renewed."""

    job: CaseJob
    token: str
    attempt: int  # the number of this execution, from 1
    losses: int = 0  # how many of those before ended because a worker was lost
    worker: str = ""
    started_at_ms: int = 0
    earlier_errors: bytes = b""  # what give_back was given of the attempts before

    def __hash__(self) -> int:
        return hash(self.token)  # which is unique; hashing a model takes its time


@dataclass(frozen=True)
class Refused:
    """Why a trial may not be carried out now; `wait_ms` until it may, if that is known."""

    reason: Refusal
    wait_ms: int = 0


@dataclass(frozen=True)
class Expired:
    """What became of the leases that nobody renewed."""

    again: tuple[CaseJob, ...]  # to be queued once more
    lost: int  # given up: too many of its workers fell silent
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
    spent_usd: float
    reserved_usd: float  # by sessions that run
    budget_usd: float | None
    unknown_costs: int  # executions that were charged as they had been reserved
    stopped: str | None  # "budget" if that closed it
    trouble: str | None  # why a closed run has no report yet
    cancelled: bool
    created_at_ms: int
    closed_at_ms: int | None
    finished_at_ms: int | None
    fields: Mapping[str, str]  # what the submitter and the aggregator wrote

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be carried out any more, and the report is written."""
        return self.state not in ("running", "aggregating")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of agents that its trials need."""
        return tuple(json.loads(self.fields.get("kinds", "[]")))


@dataclass(frozen=True)
class Result:
    """One trial's result as it was written; None if its workers were lost."""

    job: CaseJob
    data: bytes | None


@dataclass(frozen=True)
class Running:
    """One session that runs now, and what its worker last said of it."""

    job: CaseJob
    worker: str
    note: str
    started_at_ms: int


@dataclass(frozen=True)
class WorkerRecord:
    """One worker of the fleet."""

    name: str
    host: str
    pid: int
    agents: tuple[str, ...]
    concurrency: int
    started_at_ms: int
    key_id: str = ""  # of the key that it wants plans to be signed with; empty if it wants none
