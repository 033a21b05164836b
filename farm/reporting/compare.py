"""Turn two runs of a suite into what has changed between them, case by case. Pure: no clock, no files.

The outcome decides: a case regressed if it passed and now fails, by its own policy. Where it has several
trials, the share of passed ones is given with its Wilson interval, and a change whose intervals overlap is
marked as uncertain: chance may explain it. That is cautious: some changes that are marked so are real.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal, TypeAlias, get_args

from farm.model.base import Model
from farm.model.report import CaseReport, SuiteReport, Totals
from farm.model.verdict import Outcome

COMPARISON_SCHEMA = "farm.comparison/1"
_Z_95 = 1.959963984540054

State: TypeAlias = Literal[
    "regressed",  # passed, and fails now
    "missing",  # was there, and is not now: counts as regressed
    "inconclusive",  # was not judged, then or now
    "flaky",  # its outcome is the same, but its trials disagree now
    "fixed",  # failed, and passes now
    "new",  # was not there
    "still_failing",
    "still_passing",
    "skipped",  # then and now
]
STATES: tuple[State, ...] = get_args(State)  # in the order in which people want to know


class Side(Model):
    """A case as one of the two runs has it."""

    outcome: Outcome
    flaky: bool = False
    score: float | None = None
    passed: int = 0  # trials
    judged: int = 0  # trials: those that passed or failed
    interval: tuple[float, float] | None = None  # where the share of passed trials lies, at 95 %


class CaseChange(Model):
    """What has become of one case."""

    id: str
    name: str
    state: State
    uncertain: bool = False  # the intervals of a change overlap
    before: Side | None = None
    after: Side | None = None


class ComparedRun(Model):
    """One of the two runs, in figures."""

    run_id: str
    suite: str
    started_at: str
    totals: Totals


class Comparison(Model):
    """A run beside an earlier one."""

    before: ComparedRun
    after: ComparedRun
    states: dict[State, int]
    not_selected: int = 0  # cases of the earlier run that this one was not asked to carry out
    cases: tuple[CaseChange, ...] = ()

    @property
    def regressions(self) -> int:
        """How many cases are worse than they were, or gone."""
        return self.states["regressed"] + self.states["missing"]


@dataclass(frozen=True)
class Standing:
    """What a comparison needs of a run: little, for a run may have many cases."""

    run: ComparedRun
    cases: Mapping[str, tuple[str, Side]]  # by id, each with its name


def standing_of(
    report: SuiteReport,
    cases: Iterable[CaseReport] | None = None,
    *,
    covers: Callable[[CaseReport], bool] | None = None,
) -> tuple[Standing, int]:
    """Sum up a run (its cases may be given apart), and count those that are left out as not covered."""
    kept: dict[str, tuple[str, Side]] = {}
    left_out = 0
    for case in report.cases if cases is None else cases:
        if covers is None or covers(case):
            kept[case.id] = (case.name, _side(case))
        else:
            left_out += 1
    run = ComparedRun(
        run_id=report.run_id, suite=report.suite, started_at=report.started_at, totals=report.totals
    )
    return Standing(run, kept), left_out


def _side(case: CaseReport) -> Side:
    outcomes = Counter(trial.outcome for trial in case.trials)
    passed, judged = outcomes["passed"], outcomes["passed"] + outcomes["failed"]
    return Side(
        outcome=case.outcome,
        flaky=case.flaky,
        score=case.score,
        passed=passed,
        judged=judged,
        interval=wilson(passed, judged) if judged > 1 else None,
    )


def wilson(passed: int, judged: int) -> tuple[float, float]:
    """Give the 95 % interval of a share, which holds for few trials, and for shares of 0 and 1, too."""
    share, square = passed / judged, _Z_95**2
    middle = share + square / (2 * judged)
    reach = _Z_95 * sqrt(share * (1 - share) / judged + square / (4 * judged**2))
    scale = 1 + square / judged
    low = 0.0 if passed == 0 else (middle - reach) / scale
    high = 1.0 if passed == judged else (middle + reach) / scale
    return round(low, 4), round(high, 4)


def compare(before: Standing, after: Standing, *, not_selected: int = 0) -> Comparison:
    """Say of every case what has become of it."""
    changes = tuple(
        _change(case_id, before.cases.get(case_id), after.cases.get(case_id))
        for case_id in sorted(before.cases.keys() | after.cases.keys())
    )
    counted = Counter(change.state for change in changes)
    return Comparison(
        before=before.run,
        after=after.run,
        states={state: counted[state] for state in STATES},
        not_selected=not_selected,
        cases=changes,
    )


def _change(case_id: str, before: tuple[str, Side] | None, after: tuple[str, Side] | None) -> CaseChange:
    then, now = before[1] if before else None, after[1] if after else None
    name = (after or before or ("", None))[0]
    state = _state(then, now)
    uncertain = state in ("regressed", "fixed") and _overlap(then, now)
    return CaseChange(id=case_id, name=name, state=state, uncertain=uncertain, before=then, after=now)


def _state(before: Side | None, after: Side | None) -> State:
    if before is None:
        return "new"
    if after is None:
        return "missing"
    match before.outcome, after.outcome:
        case "skipped", "skipped":
            return "skipped"
        case "passed", "failed":
            return "regressed"
        case "failed", "passed":
            return "fixed"
        case ("passed", "passed") | ("failed", "failed"):
            if after.flaky:
                return "flaky"
            return "still_passing" if after.outcome == "passed" else "still_failing"
    return "inconclusive"


def _overlap(before: Side | None, after: Side | None) -> bool:
    """Say whether the shares may be the same; not of single trials, of which nobody expects more."""
    if before is None or after is None or max(before.judged, after.judged) < 2:
        return False
    if not (before.judged and after.judged):
        return True
    low, high = wilson(before.passed, before.judged)
    other_low, other_high = wilson(after.passed, after.judged)
    return low <= other_high and other_low <= high


def comparison_exit_code(comparison: Comparison) -> int:
    """Give the exit code of a comparison.

    1: something regressed. 3: nothing did, but of some case nobody can say so: it was not judged then or now,
    and it did not pass now. 0: else; a case that passes has not regressed, whatever it was.
    """
    if comparison.regressions:
        return 1
    unknown = any(
        change.state == "inconclusive" and change.after is not None and change.after.outcome != "passed"
        for change in comparison.cases
    )
    return 3 if unknown else 0
