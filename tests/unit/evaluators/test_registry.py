from __future__ import annotations

import logging
from typing import Any

import pytest

from farm.errors import EvaluatorError
from farm.evaluators.base import Judgement
from farm.evaluators.registry import EVALUATORS
from farm.model.evaluator import SPEC_BY_TYPE
from farm.model.patterns import PatternError
from tests.unit.evaluators.builders import session, verdict


@pytest.fixture
def evaluator(monkeypatch):
    """Let `contains` find whatever a test wants."""

    def install(outcome: Judgement | BaseException) -> None:
        def evaluate(_spec: Any, _context: Any) -> Judgement:
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setitem(EVALUATORS, "contains", evaluate)

    return install


def judged(**fields: Any):
    return verdict(session(), type="contains", value="x", **fields)


def test_the_registry_covers_every_type_of_the_union():
    assert EVALUATORS.keys() == SPEC_BY_TYPE.keys()


def test_a_verdict_carries_what_the_evaluator_found(evaluator):
    evaluator(Judgement(1.0, ("h",), ("m",), "because", {"k": 1}))
    found = judged(name="mine", weight=3)
    assert (found.name, found.type, found.outcome, found.score, found.weight) == (
        "mine",
        "contains",
        "passed",
        1.0,
        3.0,
    )
    assert (found.hits, found.misses, found.reasoning, found.details) == (("h",), ("m",), "because", {"k": 1})


def test_an_evaluator_error_is_an_errored_verdict_with_its_message(evaluator):
    evaluator(EvaluatorError("no data"))
    found = judged()
    assert (found.outcome, found.score, found.reasoning) == ("errored", None, "no data")


def test_any_expected_failure_is_errored_with_its_message(evaluator):
    evaluator(PatternError("too large"))
    assert judged().reasoning == "too large"


def test_a_bug_in_an_evaluator_is_errored_and_logged_never_failed(evaluator, caplog):
    evaluator(ZeroDivisionError("oh\x1b[31m"))
    with caplog.at_level(logging.ERROR, logger="farm.evaluators"):
        found = judged()
    assert (found.outcome, found.score) == ("errored", None)
    assert found.reasoning == "a bug in the evaluator: ZeroDivisionError: oh\\x1b[31m"
    [record] = caplog.records
    assert record.name == "farm.evaluators"
    assert record.exc_info is not None


def test_an_interrupt_is_not_swallowed(evaluator):
    evaluator(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        judged()


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf"), float("-inf")])
def test_a_score_outside_0_to_1_is_errored(evaluator, score):
    evaluator(Judgement(score))
    assert judged().outcome == "errored"
    assert judged(negate=True).outcome == "errored"


def test_a_score_just_outside_by_rounding_is_clamped(evaluator):
    evaluator(Judgement(1.0000000000000002))
    assert judged().score == 1.0
    evaluator(Judgement(-1e-17))
    assert judged().score == 0.0


@pytest.mark.parametrize(
    ("score", "outcome"), [(1.0, "passed"), (0.9999999999999, "passed"), (0.999, "failed"), (0.0, "failed")]
)
def test_facts_pass_only_with_the_full_score(evaluator, score, outcome):
    evaluator(Judgement(score))
    assert judged().outcome == outcome


@pytest.mark.parametrize(
    ("required", "score", "outcome"),
    [
        (0.8, 0.8, "passed"),
        (0.8, 0.1 + 0.7, "passed"),  # 0.7999999999999999
        (0.8, 0.79, "failed"),
        (0.01, 0.0, "failed"),
        (1, 0.99, "failed"),
    ],
)
def test_required_as_a_number_is_the_passing_score(evaluator, required, score, outcome):
    evaluator(Judgement(score))
    found = judged(required=required)
    assert (found.outcome, found.required) == (outcome, True)


def test_required_false_is_advisory_and_still_says_passed_or_failed(evaluator):
    evaluator(Judgement(0.0))
    assert (judged(required=False).outcome, judged(required=False).required) == ("failed", False)
    evaluator(Judgement(1.0))
    assert (judged(required=False).outcome, judged(required=False).required) == ("passed", False)
    evaluator(EvaluatorError("no"))
    assert (judged(required=False).outcome, judged(required=False).required) == ("errored", False)


@pytest.mark.parametrize(("passed", "outcome"), [(True, "passed"), (False, "failed")])
def test_what_the_evaluator_says_overrides_the_comparison(evaluator, passed, outcome):
    evaluator(Judgement(0.5, passed=passed))
    assert judged().outcome == outcome


def test_a_number_in_required_overrides_what_the_evaluator_says(evaluator):
    evaluator(Judgement(0.5, passed=True))
    assert judged(required=0.6).outcome == "failed"
    evaluator(Judgement(0.5, passed=False))
    assert judged(required=0.4).outcome == "passed"


def test_negate_flips_outcome_score_hits_and_misses(evaluator):
    evaluator(Judgement(0.25, ("h",), ("m",)))
    found = judged(negate=True)
    assert (found.outcome, found.score, found.hits, found.misses) == ("passed", 0.75, ("m",), ("h",))
    evaluator(Judgement(1.0))
    assert (judged(negate=True).outcome, judged(negate=True).score) == ("failed", 0.0)
    evaluator(Judgement(0.5, passed=True))
    assert judged(negate=True).outcome == "failed"


def test_negate_with_a_number_compares_the_negated_score(evaluator):
    evaluator(Judgement(0.3))
    assert judged(negate=True, required=0.7).outcome == "passed"
    assert judged(negate=True, required=0.71).outcome == "failed"


def test_negate_leaves_errored_as_it_is(evaluator):
    evaluator(EvaluatorError("no"))
    found = judged(negate=True)
    assert (found.outcome, found.score) == ("errored", None)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tool": "read_file"}, "Read called"),
        ({"tool": "Bash", "called": False}, "Bash not called"),
        ({"tool": "Read", "called_before": "Edit"}, "Read before Edit"),
        ({"tool": "Read", "called": False, "called_after": "Edit"}, "Read not called after Edit"),
        ({"tool": "Read", "call_count": 2}, "Read called 2 times"),
        (
            {"tool": "Read", "min_calls": 1, "max_calls": 3},
            "Read called at least 1 time, called at most 3 times",
        ),
        (
            {"tool": "Read", "called": False, "params": {"file_path": "*.env"}},
            "Read not called (file_path=*.env)",
        ),
        ({"tool": "Read", "nth_call_params": {2: {}}, "last_call_params": {}}, "Read call 2, last call"),
        ({"tool": "Read", "name": "mine"}, "mine"),
    ],
)
def test_an_assertion_without_a_name_gets_a_telling_one(fields, name):
    assert verdict(session("Read"), type="tool_call", **fields).name == name


def test_any_other_evaluator_without_a_name_is_called_by_its_type_and_what_it_looks_for():
    assert verdict(session(), type="latency", threshold=1).name == "latency"
    assert verdict(session(), type="contains_any", value=["a", "b"]).name == 'contains_any "a", "b"'
    assert verdict(session(), type="icontains", value="x").name == 'icontains "x"'
