"""Turn trials into case reports, and those into a suite report. Pure: no clock, no files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from typing import TypeVar

from farm.model.report import CaseReport, SuiteReport, Totals, TrialReport
from farm.model.suite import Case, Rate, Trials
from farm.model.verdict import Outcome, mean_score

N = TypeVar("N", int, float)


def summarize_case(case: Case, trials: Sequence[TrialReport], *, agent: str, model: str | None) -> CaseReport:
    """Judge a case by its trials and its policy."""
    outcomes = Counter(trial.outcome for trial in trials)
    return CaseReport(
        id=case.id,
        name=case.name,
        file=case.file,
        tags=case.tags,
        agent=agent,
        model=model,
        weight=case.weight,
        outcome=_outcome(case.trials, outcomes),
        flaky=outcomes["passed"] > 0 and outcomes["failed"] > 0,
        score=mean_score((trial.score, 1.0) for trial in trials),
        trials=tuple(trials),
        skip_reason=case.skip,
    )


def _outcome(policy: Trials, outcomes: Counter[Outcome]) -> Outcome:
    """Say what is certain: passed or failed only if the trials that were not judged could not change it."""
    trials = outcomes.total()
    if not trials or outcomes["skipped"] == trials:
        return "skipped"
    needed = _passes_needed(policy, trials)
    if outcomes["passed"] >= needed:
        return "passed"
    if trials - outcomes["failed"] < needed:
        return "failed"
    return "errored" if outcomes["errored"] else "cancelled"


def _passes_needed(policy: Trials, trials: int) -> int:
    if isinstance(policy.policy, Rate):
        # Rounded first: 0.7 of 10 is 7.000000000000001 in binary.
        return ceil(round(policy.policy.rate * trials, 9))
    return 1 if policy.policy == "any" else trials


def total(cases: Iterable[CaseReport]) -> Totals:
    """Add up a run."""
    cases = tuple(cases)
    outcomes = Counter(case.outcome for case in cases)
    trials = [trial for case in cases for trial in case.trials]
    return Totals(
        cases=len(cases),
        passed=outcomes["passed"],
        failed=outcomes["failed"],
        errored=outcomes["errored"],
        skipped=outcomes["skipped"],
        cancelled=outcomes["cancelled"],
        flaky=sum(case.flaky for case in cases),
        score=mean_score((case.score, case.weight) for case in cases),
        cost_usd=_sum(trial.cost_usd for trial in trials),
        input_tokens=_sum(trial.input_tokens for trial in trials),
        output_tokens=_sum(trial.output_tokens for trial in trials),
    )


def exit_code(report: SuiteReport) -> int:
    """Give the exit code that a run ends with."""
    if report.state == "interrupted":
        return 130
    if report.totals.failed:
        return 1
    return 3 if report.totals.errored or report.totals.cancelled else 0


def _sum(values: Iterable[N | None]) -> N | None:
    """Add up what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
