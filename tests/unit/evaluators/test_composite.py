from __future__ import annotations

import sys
from typing import Any

import pytest

from farm.model.verdict import Verdict
from tests.unit.evaluators.builders import session, verdict

YES: dict[str, Any] = {"type": "contains", "value": "a"}
NO: dict[str, Any] = {"type": "contains", "value": "z"}
BROKEN: dict[str, Any] = {"type": "latency", "threshold": 1}


def composite(*members: dict[str, Any], **fields: Any) -> Verdict:
    return verdict(session(text="abc"), type="composite", evaluators=list(members), **fields)


def judge_program(code: str) -> dict[str, object]:
    program = f"import json, sys; p = json.load(sys.stdin); {code}"
    return {"type": "code_judge", "command": [sys.executable, "-c", program]}


def test_the_score_is_the_weighted_mean_of_the_members():
    found = composite(YES, {**NO, "weight": 3})
    assert (found.score, found.outcome) == (0.25, "failed")
    assert composite({**YES, "weight": 4}, NO).outcome == "passed"  # 0.8


def test_the_aggregators_weights_win_over_the_members_own():
    weights = {"good": 9, "contains": 1}
    found = composite(
        {**YES, "name": "good"}, NO, aggregator={"type": "weighted_average", "weights": weights}
    )
    assert found.score == 0.9


def test_members_that_weigh_nothing_are_errored():
    assert composite({**YES, "weight": 0}).outcome == "errored"


def test_an_errored_member_leaves_the_composite_errored():
    found = composite(YES, {**BROKEN, "name": "speed"})
    assert found.outcome == "errored"
    assert found.reasoning == "speed: the transcript does not record the session's duration"


@pytest.mark.parametrize(
    "aggregator", [{"type": "weighted_average"}, {"type": "threshold", "threshold": 1.0}]
)
def test_an_errored_advisory_member_does_not_count(aggregator):
    assert composite(YES, {**BROKEN, "required": False}, aggregator=aggregator).score == 1.0
    assert composite({**BROKEN, "required": False}, aggregator=aggregator).outcome == "errored"


@pytest.mark.parametrize("required", [True, 0.5])
@pytest.mark.parametrize(
    "aggregator", [{"type": "weighted_average"}, {"type": "threshold", "threshold": 0.5}]
)
def test_a_member_that_the_author_requires_fails_the_composite(required, aggregator):
    found = composite(
        {**YES, "weight": 9}, {**NO, "required": required, "name": "must"}, aggregator=aggregator
    )
    assert (found.score, found.outcome) == (0.0, "failed")
    assert found.reasoning == "required, and failed: must"


def test_a_member_without_required_only_costs_its_share():
    assert composite({**YES, "weight": 9}, NO).outcome == "passed"
    assert composite({**YES, "weight": 9}, {**NO, "required": False}).outcome == "passed"
    assert composite({**YES, "required": True}, {**YES, "required": 0.5}).outcome == "passed"


@pytest.mark.parametrize(
    ("threshold", "outcome"), [(0.6, "passed"), (2 / 3, "passed"), (2 / 3 + 1e-10, "passed"), (0.7, "failed")]
)
def test_a_threshold_is_the_share_of_members_that_pass(threshold, outcome):
    found = composite(YES, {**YES, "weight": 5}, NO, aggregator={"type": "threshold", "threshold": threshold})
    assert found.outcome == outcome
    assert found.score == pytest.approx(2 / 3)


def test_members_are_judged_with_their_own_negate():
    assert composite({**NO, "negate": True}).score == 1.0
    assert composite(YES, negate=True).outcome == "failed"


def test_hits_and_misses_carry_the_members_names_and_details_their_verdicts():
    found = composite({**YES, "name": "one"}, NO)
    assert found.hits == ('one: contains "a"',)
    assert found.misses == ('contains "z": does not contain "z"', 'contains "z": seen: "abc"')
    assert found.details is not None
    members = found.details["members"]
    assert isinstance(members, list)
    assert [member["outcome"] for member in members if isinstance(member, dict)] == ["passed", "failed"]


def test_composites_nest():
    inner = {"type": "composite", "name": "inner", "evaluators": [YES, NO]}
    found = composite(YES, inner)
    assert found.score == 0.75
    assert 'inner: contains "a": contains "a"' in found.hits


def test_a_code_judge_aggregates_the_members_results():
    aggregator = judge_program(
        "r = p['results']; assert list(r) == ['x', 'y', 'y (2)'], r;"
        "print(json.dumps({'score': r['x']['score'], 'hits': ['ok'],"
        " 'details': {'k': r['y']['outcome']}}))"
    )
    found = composite({**YES, "name": "x"}, {**NO, "name": "y"}, {**YES, "name": "y"}, aggregator=aggregator)
    assert (found.outcome, found.score) == ("passed", 1.0), found.reasoning
    assert found.hits[-1] == "ok"
    assert found.details is not None
    assert found.details.keys() == {"k", "members"}
    assert found.details["k"] == "failed"


def test_a_code_judge_that_breaks_leaves_the_composite_errored():
    assert composite(YES, aggregator=judge_program("sys.exit(3)")).outcome == "errored"
