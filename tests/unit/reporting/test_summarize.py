from __future__ import annotations

from typing import Any

import pytest

from farm.model.report import CaseReport
from farm.model.suite import Rate, Trials
from farm.model.verdict import mean_score, outcome_of
from farm.reporting.summarize import exit_code, summarize_case, total
from tests.unit.builders import case, suite_report, trial, verdict


def summarize(outcomes: str, policy: object = "all", **fields: object) -> CaseReport:
    """Summarize trials given by their first letters."""
    words = {"p": "passed", "f": "failed", "e": "errored", "c": "cancelled", "s": "skipped"}
    trials = [trial(words[letter], number) for number, letter in enumerate(outcomes, 1)]
    subject = case(trials={"count": max(len(outcomes), 1), "policy": policy}, **fields)
    return summarize_case(subject, trials, agent="scripted", model=None)


@pytest.mark.parametrize(
    ("outcomes", "policy", "expected"),
    [
        ("p", "all", "passed"),
        ("f", "all", "failed"),
        ("e", "all", "errored"),
        ("ppp", "all", "passed"),
        ("ppf", "all", "failed"),
        ("ppe", "all", "errored"),
        ("pfe", "all", "failed"),
        ("ffp", "any", "passed"),
        ("fff", "any", "failed"),
        ("ffe", "any", "errored"),
        ("pee", "any", "passed"),
        ("ppppf", {"rate": 0.8}, "passed"),
        ("pppff", {"rate": 0.8}, "failed"),
        ("pppfe", {"rate": 0.8}, "errored"),
        ("pppee", {"rate": 0.6}, "passed"),
        ("fffpp", {"rate": 0.8}, "failed"),
        ("pppppppfff", {"rate": 0.7}, "passed"),  # 0.7 * 10 is a little more than 7 in binary
        ("pc", "all", "cancelled"),
        ("pec", "all", "errored"),
        ("ss", "all", "skipped"),
    ],
)
def test_a_case_is_judged_by_its_policy_and_only_as_far_as_is_certain(outcomes, policy, expected):
    assert summarize(outcomes, policy).outcome == expected


def test_trials_that_disagree_make_a_case_flaky_even_if_it_passes():
    assert summarize("pf", "any").flaky
    assert summarize("pf", "all").flaky
    assert not summarize("pp").flaky
    assert not summarize("ff").flaky
    assert not summarize("pe").flaky  # an outage is no disagreement


def test_a_case_without_trials_was_skipped():
    assert summarize("", skip="needs a database").outcome == "skipped"
    assert summarize("", skip="needs a database").skip_reason == "needs a database"


def test_a_policy_is_all_any_or_a_rate():
    assert Trials(count=5, policy=Rate(rate=0.8)).policy == Rate(rate=0.8)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["passed", "passed"], "passed"),
        (["passed", "failed"], "failed"),
        (["passed", "errored"], "errored"),
        (["failed", "errored"], "failed"),
        ([], "errored"),
    ],
)
def test_one_failed_verdict_decides_and_an_errored_one_leaves_it_open(outcomes, expected):
    assert outcome_of(verdict(outcome) for outcome in outcomes) == expected


def test_an_advisory_verdict_changes_no_outcome():
    advice = [verdict("failed", required=False), verdict("errored", required=False)]
    assert outcome_of([verdict("passed"), *advice]) == "passed"


def test_a_score_is_the_weighted_mean_of_what_was_scored():
    assert mean_score([(1.0, 3.0), (0.0, 1.0)]) == 0.75
    assert mean_score([(1.0, 1.0), (None, 5.0)]) == 1.0
    assert mean_score([(None, 1.0)]) is None
    assert mean_score([(1.0, 0.0)]) is None


def test_what_earlier_attempts_cost_is_a_part_of_what_the_case_cost():
    earlier = (
        {"attempt": 1, "kind": "rate_limited", "message": "m", "cost_usd": 3.0, "input_tokens": 5},
        {"attempt": 2, "kind": "worker_lost", "message": "m"},
    )
    tried = trial("passed", attempt=3, cost_usd=1.0, earlier_errors=earlier)
    paid = summarize_case(case(), [tried, trial("passed", 2, cost_usd=0.5)], agent="a", model=None)
    assert (paid.cost_usd, paid.input_tokens, paid.trials[0].cost_usd) == (4.5, 5, 1.0)
    assert total([paid]).cost_usd == 4.5


def test_totals_count_every_case_once_and_add_up_what_is_known():
    cases = [
        summarize("p"),
        summarize("f", weight=3.0),
        summarize("e"),
        summarize("pf", "any"),
        summarize("", skip="why"),
    ]
    totals = total(cases)
    assert (totals.cases, totals.passed, totals.failed, totals.errored, totals.skipped) == (5, 2, 1, 1, 1)
    assert totals.flaky == 1
    assert totals.cost_usd is None
    paid = summarize_case(
        case(), [trial("passed", cost_usd=0.25, input_tokens=3), trial("passed", 2)], agent="a", model=None
    )
    assert (total([paid]).cost_usd, total([paid]).input_tokens, total([paid]).output_tokens) == (
        0.25,
        3,
        None,
    )


def test_cases_and_totals_count_judges_apart_from_agents():
    figures: dict[str, Any] = {"judge_cost_usd": 0.5, "judge_input_tokens": 3, "judge_output_tokens": 1}
    judged = summarize_case(
        case(),
        [trial("passed", cost_usd=1.0, **figures), trial("passed", 2, **figures)],
        agent="a",
        model=None,
    )
    assert (judged.cost_usd, judged.judge_cost_usd, judged.input_tokens) == (1.0, 1.0, None)
    totals = total([judged, summarize("p")])
    assert (totals.cost_usd, totals.judge_cost_usd) == (1.0, 1.0)
    assert (totals.input_tokens, totals.judge_input_tokens, totals.judge_output_tokens) == (None, 6, 2)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [("p", 0), ("pf", 1), ("fe", 1), ("pe", 3), ("pc", 3), ("s", 0)],
)
def test_the_exit_code_tells_failed_from_could_not_be_judged(outcomes, code):
    assert exit_code(suite_report(*(summarize(one) for one in outcomes))) == code


def test_a_run_that_its_budget_stopped_is_not_all_passed():
    assert exit_code(suite_report(summarize("p"), state="over_budget")) == 3
    assert exit_code(suite_report(summarize("f"), state="over_budget")) == 1
