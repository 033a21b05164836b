"""What crosses the queue, and what a worker finds at the other end of it.

A message names a trial and nothing more, never a command or a path: what is run stands in the run's manifest.
"""

from __future__ import annotations

from typing import Literal

from farm.model.agent import AgentSpec, Isolation
from farm.model.base import Model, NonEmptyText, PositiveCount
from farm.model.limits import LimitSpec
from farm.model.prices import Price
from farm.model.report import TrialError, TrialReport
from farm.model.suite import Case
from farm.model.transcript import LogName

Keep = Literal["failed", "all", "none"]


class CaseJob(Model):
    """One trial to be carried out."""

    run_id: NonEmptyText
    case_id: NonEmptyText
    trial: PositiveCount = 1


class ShippedFile(Model):
    """A file that a case refers to, on its way to a worker."""

    blob: str
    executable: bool = False


class RecordedTrial(Model):
    """What an earlier run left of one trial: its session's transcript, or why there is none."""

    transcript: str | None = None  # a blob
    error: TrialError | None = None
    duration_ms: float | None = None


class JudgePlan(Model):
    """An agent that LLM evaluators ask, with everything decided."""

    agent: str  # the name that test files and farm.yaml know it by
    spec: AgentSpec
    model: str | None = None  # unless an evaluator names another
    timeout_seconds: float
    isolation: Isolation = "auto"
    network: bool = True


class CasePlan(Model):
    """A case with everything decided: all that a worker on another machine needs for its trials."""

    case: Case
    agent: str  # the name that the case knows it by
    spec: AgentSpec
    model: str | None = None
    timeout_seconds: float
    bundle: str | None = None  # the workspace's id; None: an empty one
    files: dict[str, ShippedFile] = {}  # by the names that the case has for them
    isolation: Isolation = "auto"
    network: bool = True
    judges: dict[str, JudgePlan] = {}  # by the agent that an evaluator names; "" for those that name none
    limits: dict[str, LimitSpec] = {}
    prices: dict[str, Price] = {}  # farm.yaml's own, by model
    max_attempts: int = 3
    keep: Keep = "none"
    store: str = ""  # the mark of the store that holds its bundle and files
    recorded: tuple[RecordedTrial, ...] = ()  # of a regrade, one a trial: they are judged, and no agent runs


class TrialRecord(Model):
    """A trial's result as the ledger keeps it."""

    report: TrialReport
    transcript: str | None = None  # a blob
    logs: dict[LogName, str] = {}  # blobs
    kept: str | None = None  # the trial's directory, if it was kept, on its worker
