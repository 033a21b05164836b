"""The results at three scales: trial, case, suite. The shape of report.json."""

from __future__ import annotations

from typing import Literal

from farm.model.base import Model
from farm.model.transcript import TraceSummary, WorkspaceChanges
from farm.model.verdict import Outcome, Verdict

REPORT_SCHEMA = "farm.report/1"

RunState = Literal["running", "aggregating", "complete", "cancelled", "over_budget"]


# What attempts, trials, cases and runs alike took, as far as it is known: agents first, then their judges.
FIGURES = (
    *("cost_usd", "input_tokens", "output_tokens"),
    *("judge_cost_usd", "judge_input_tokens", "judge_output_tokens"),
)


class TrialError(Model):
    """Why a trial could not be judged."""

    kind: str
    message: str
    retryable: bool = False


class AttemptError(Model):
    """Why an attempt could not be judged, and another was made."""

    attempt: int
    kind: str
    message: str
    worker: str | None = None
    duration_ms: float | None = None
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    judge_cost_usd: float | None = None
    judge_input_tokens: int | None = None
    judge_output_tokens: int | None = None


class TrialReport(Model):
    """One trial of a case: its last attempt, with what that took, and why there were others before it."""

    trial: int
    attempt: int = 1
    outcome: Outcome
    score: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    error: TrialError | None = None
    earlier_errors: tuple[AttemptError, ...] = ()  # one for each attempt before this one
    duration_ms: float | None = None
    cost_usd: float | None = None
    cost_is_partial: bool = False  # there is more: nobody knows what its last request cost
    input_tokens: int | None = None
    output_tokens: int | None = None
    judge_cost_usd: float | None = None  # of the sessions of its judges, as far as they told
    judge_input_tokens: int | None = None
    judge_output_tokens: int | None = None
    judge_unknown_costs: int = 0  # sessions of judges that did not tell what they cost
    warnings: tuple[str, ...] = ()  # what a reader should know of its figures
    trace_summary: TraceSummary | None = None
    output: str = ""
    workspace_changes: WorkspaceChanges | None = None
    transcript: str | None = None  # where the transcript lies, relative to the report
    logs: tuple[str, ...] = ()  # where lies what the agent's program wrote down itself, likewise
    worker: str | None = None


class CaseReport(Model):
    """One case with all its trials."""

    id: str
    name: str
    file: str
    tags: tuple[str, ...] = ()
    agent: str
    model: str | None = None
    weight: float = 1.0
    outcome: Outcome
    flaky: bool = False
    score: float | None = None
    cost_usd: float | None = None  # of all attempts at all its trials, as far as it is known; so are the next
    input_tokens: int | None = None
    output_tokens: int | None = None
    judge_cost_usd: float | None = None
    judge_input_tokens: int | None = None
    judge_output_tokens: int | None = None
    trials: tuple[TrialReport, ...] = ()
    skip_reason: str | None = None


class Totals(Model):
    """A run in figures."""

    cases: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0
    skipped: int = 0
    cancelled: int = 0
    flaky: int = 0
    score: float | None = None
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    judge_cost_usd: float | None = None
    judge_input_tokens: int | None = None
    judge_output_tokens: int | None = None


class Engine(Model):
    """How the run was carried out."""

    workers: int = 1
    executions: int = 0
    retries: int = 0
    duplicate_executions: int = 0


class SuiteReport(Model):
    """One run of a suite."""

    run_id: str
    suite: str
    state: RunState
    started_at: str
    finished_at: str | None = None
    duration_ms: float | None = None
    regraded_from: str | None = None  # the run whose transcripts were judged again
    schedule: str | None = None  # the one of farm.yaml that it was made by
    totals: Totals
    engine: Engine
    cases: tuple[CaseReport, ...]
