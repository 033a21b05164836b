"""What has changed between two runs: every pair of outcomes, and figures that add up."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.model.report import CaseReport, SuiteReport
from farm.model.verdict import Outcome
from farm.reporting.compare import (
    STATES,
    CaseChange,
    Comparison,
    compare,
    comparison_exit_code,
    standing_of,
    wilson,
)
from farm.reporting.summarize import summarize_case
from tests.unit.builders import case, suite_report, trial

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def report(case_id: str, *outcomes: str, policy: Any = "all") -> CaseReport:
    trials = [trial(outcome, number) for number, outcome in enumerate(outcomes, 1)]
    about = case(id=case_id, trials={"count": len(trials), "policy": policy})
    return summarize_case(about, trials, agent="a", model=None)


def compared(before: SuiteReport, after: SuiteReport) -> Comparison:
    return compare(standing_of(before)[0], standing_of(after)[0])


def change(before: CaseReport, after: CaseReport) -> CaseChange:
    (only,) = compared(suite_report(before), suite_report(after)).cases
    return only


EXPECTED = {
    ("passed", "passed"): "still_passing",
    ("failed", "failed"): "still_failing",
    ("passed", "failed"): "regressed",
    ("failed", "passed"): "fixed",
    ("skipped", "skipped"): "skipped",
}


@pytest.mark.parametrize(("before", "after"), list(product(OUTCOMES, OUTCOMES)))
def test_every_pair_of_outcomes_has_its_state(before, after):
    found = change(report("a", before), report("a", after))
    assert found.state == EXPECTED.get((before, after), "inconclusive")
    assert not found.uncertain


def test_a_case_that_is_gone_counts_as_regressed_and_a_new_one_does_not():
    comparison = compared(suite_report(report("a", "failed")), suite_report(report("b", "failed")))
    assert [(found.id, found.state) for found in comparison.cases] == [("a", "missing"), ("b", "new")]
    assert comparison.regressions == 1
    assert comparison_exit_code(comparison) == 1


def test_trials_that_disagree_are_flaky_only_where_the_outcome_is_the_same():
    steady, wavering = ("passed", "passed"), ("passed", "failed")
    assert change(report("a", *steady, policy="any"), report("a", *wavering, policy="any")).state == "flaky"
    assert (
        change(report("a", *wavering, policy="any"), report("a", *steady, policy="any")).state
        == "still_passing"
    )
    assert change(report("a", *wavering), report("a", *wavering)).state == "flaky"
    assert change(report("a", *steady), report("a", *wavering)).state == "regressed"


@pytest.mark.parametrize(
    ("before", "after", "uncertain"),
    [
        ((3, 0), (0, 3), True),  # 44 to 100 % and 0 to 56 % overlap
        ((4, 0), (0, 4), False),
        ((10, 0), (9, 1), True),
        ((10, 0), (3, 7), False),
        ((1, 0), (0, 1), False),  # of single trials nobody expects more
        ((1, 0), (0, 2), True),
    ],
)
def test_a_change_that_chance_may_explain_is_uncertain_both_ways(before, after, uncertain):
    then, now = (
        report("a", *["passed"] * passed, *["failed"] * failed) for passed, failed in (before, after)
    )
    assert (change(then, now).state, change(then, now).uncertain) == ("regressed", uncertain)
    assert (change(now, then).state, change(now, then).uncertain) == ("fixed", uncertain)


def test_trials_that_were_not_judged_are_not_in_the_rate():
    found = change(report("a", "passed", "passed"), report("a", "passed", "errored", "failed", policy="any"))
    assert found.after is not None
    assert (found.after.passed, found.after.judged) == (1, 2)
    assert found.after.interval == wilson(1, 2)


# Figures from the literature (Newcombe 1998, and the usual worked examples).
@pytest.mark.parametrize(
    ("passed", "judged", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_interval_is_wilsons(passed, judged, low, high):
    assert wilson(passed, judged) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 1000).flatmap(lambda judged: st.tuples(st.integers(0, judged), st.just(judged))))
def test_an_interval_holds_its_rate_and_nothing_impossible(counts):
    passed, judged = counts
    low, high = wilson(passed, judged)
    assert 0.0 <= low <= round(passed / judged, 4) <= high <= 1.0
    assert wilson(judged - passed, judged) == pytest.approx((1 - high, 1 - low), abs=2e-4)


# Runs of the same few cases, so that many are in both.
runs = st.dictionaries(
    st.sampled_from("abcdefgh"), st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=5), max_size=8
).map(lambda cases: suite_report(*(report(name, *outcomes) for name, outcomes in sorted(cases.items()))))


@settings(max_examples=50, deadline=None)
@given(runs, runs)
def test_every_case_is_counted_once_and_regressing_is_fixing_backwards(before, after):
    forth, back = compared(before, after), compared(after, before)
    ids = sorted({found.id for found in (*before.cases, *after.cases)})
    assert [found.id for found in forth.cases] == ids
    assert sum(forth.states.values()) == len(ids)
    assert tuple(forth.states) == STATES
    mirrored = {"regressed": "fixed", "fixed": "regressed", "missing": "new", "new": "missing"}
    for there, again in zip(forth.cases, back.cases, strict=True):
        assert there.uncertain == again.uncertain
        assert (there.before, there.after) == (again.after, again.before)
        if there.state in mirrored or there.state in ("inconclusive", "skipped"):
            assert again.state == mirrored.get(there.state, there.state)
        else:
            assert again.state in ("flaky", "still_passing", "still_failing")


@settings(max_examples=25, deadline=None)
@given(runs)
def test_a_run_beside_itself_has_not_changed(run):
    comparison = compared(run, run)
    assert comparison.regressions == comparison.states["fixed"] == comparison.states["new"] == 0
    assert comparison_exit_code(comparison) in (0, 3)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("passed", "passed", 0),
        ("failed", "failed", 0),
        ("passed", "failed", 1),
        ("passed", "errored", 3),
        ("passed", "skipped", 3),
        ("errored", "failed", 3),
        ("skipped", "failed", 3),
        ("errored", "passed", 0),  # what passes has not regressed, whatever it was
        ("skipped", "skipped", 0),
    ],
)
def test_the_exit_code_tells_worse_from_nobody_knows(before, after, code):
    pair = suite_report(report("a", before)), suite_report(report("a", after))
    assert comparison_exit_code(compared(*pair)) == code


def test_what_was_not_selected_is_left_out_and_counted():
    before = suite_report(report("a", "passed"), report("b", "passed"))
    then, left_out = standing_of(before, covers=lambda case: case.id == "a")
    now, _ = standing_of(suite_report(report("a", "passed")))
    comparison = compare(then, now, not_selected=left_out)
    assert (comparison.not_selected, comparison.regressions) == (1, 0)
