"""Turn trials into case reports, and those into a suite report. Pure: no clock, no files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from farm.model.base import Model
from farm.model.report import FIGURES, CaseReport, SuiteReport, Totals, TrialReport
from farm.model.suite import Case, Rate, Trials
from farm.model.verdict import Outcome, mean_score


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
        **_add_up([*trials, *(error for trial in trials for error in trial.earlier_errors)]),
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
    """Add up a run. Looks at one case at a time: a run may have more than fits in memory."""
    tally = _Tally()
    for case in cases:
        tally.add(case)
    return tally.totals()


class _Tally:
    """What is known of a run's figures so far; None where nothing is."""

    def __init__(self) -> None:
        self._outcomes: Counter[Outcome] = Counter()
        self._flaky = 0
        self._weighted_scores = 0.0
        self._weights = 0.0
        self._figures: dict[str, Any] = {}

    def add(self, case: CaseReport) -> None:
        self._outcomes[case.outcome] += 1
        self._flaky += case.flaky
        if case.score is not None and case.weight > 0:
            self._weighted_scores += case.score * case.weight
            self._weights += case.weight
        self._figures = _add_up((self._figures, case))

    def totals(self) -> Totals:
        outcomes = self._outcomes
        return Totals(
            cases=outcomes.total(),
            passed=outcomes["passed"],
            failed=outcomes["failed"],
            errored=outcomes["errored"],
            skipped=outcomes["skipped"],
            cancelled=outcomes["cancelled"],
            flaky=self._flaky,
            score=self._weighted_scores / self._weights if self._weights else None,
            **self._figures,
        )


def exit_code(report: SuiteReport) -> int:
    """Give the exit code that a run ends with."""
    if report.totals.failed:
        return 1
    return 3 if is_incomplete(report) else 0


def is_incomplete(report: SuiteReport) -> bool:
    """Say whether something of a run could not be judged, or was not carried out."""
    return bool(report.totals.errored or report.totals.cancelled or report.state == "over_budget")


def _add_up(parts: Iterable[Model | Mapping[str, Any]]) -> dict[str, Any]:
    """Add up what is known of costs and tokens; a figure that nobody knows is left out."""
    known: dict[str, Any] = {}
    for part in parts:
        figures = part if isinstance(part, Mapping) else part.__dict__
        for name in FIGURES:
            if (value := figures.get(name)) is not None:
                known[name] = known.get(name, 0) + value
    return known
