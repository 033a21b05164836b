from __future__ import annotations

from typing import Any

import pytest

from farm.model.transcript import TraceEvent
from tests.unit.evaluators.builders import session, unrecorded, verdict

USAGE = {"input_tokens": 100, "output_tokens": 50, "cache_read_tokens": 30, "cache_creation_tokens": 20}
FULL: dict[str, Any] = {"usage": USAGE, "cost_usd": 0.5, "duration_ms": 1500.0}


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"type": "latency", "threshold": 1500}, "passed"),
        ({"type": "latency", "threshold": 1499}, "failed"),
        ({"type": "cost", "budget": 0.5}, "passed"),
        ({"type": "cost", "budget": 0.49}, "failed"),
        ({"type": "token_usage", "max_total": 200}, "passed"),
        ({"type": "token_usage", "max_total": 199}, "failed"),
        ({"type": "token_usage", "max_input": 150}, "passed"),
        ({"type": "token_usage", "max_input": 149}, "failed"),
        ({"type": "token_usage", "max_output": 50}, "passed"),
        ({"type": "token_usage", "max_output": 49}, "failed"),
        ({"type": "token_usage", "max_total": 200, "max_input": 150, "max_output": 49}, "failed"),
    ],
)
def test_a_budget_may_be_used_up_but_not_exceeded(fields, outcome):
    found = verdict(session(**FULL), **fields)
    assert (found.outcome, found.score) == (outcome, float(outcome == "passed"))


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"type": "latency", "threshold": 1}, "duration"),
        ({"type": "cost", "budget": 1}, "cost"),
        ({"type": "token_usage", "max_total": 1}, "token usage"),
        ({"type": "execution_metrics", "max_tokens": 1}, "token usage"),
        ({"type": "execution_metrics", "max_cost_usd": 1}, "cost"),
        ({"type": "execution_metrics", "max_duration_ms": 1}, "duration"),
        ({"type": "execution_metrics", "max_llm_calls": 1}, "number of LLM calls"),
    ],
)
def test_missing_data_is_errored_and_named(fields, what):
    found = verdict(unrecorded(), **fields)
    assert found.outcome == "errored"
    assert found.reasoning == f"the transcript does not record the session's {what}"


@pytest.mark.parametrize("fields", [{"max_tool_calls": 1}, {"target_exploration_ratio": 0.5}])
def test_without_a_record_of_calls_they_cannot_be_counted(fields):
    assert verdict(unrecorded(), type="execution_metrics", **fields).outcome == "errored"


def test_no_cost_is_not_an_unknown_cost():
    assert verdict(session(cost_usd=0.0), type="cost", budget=0).outcome == "passed"
    assert verdict(session(cost_usd=0.1 + 0.2), type="cost", budget=0.3).outcome == "passed"


def test_a_miss_says_how_much_was_used_and_allowed():
    assert verdict(session(**FULL), type="latency", threshold=1000).misses == (
        "took 1,500 ms (maximum: 1,000 ms)",
    )
    assert verdict(session(**FULL), type="cost", budget=0.25).misses == ("cost $0.5 (maximum: $0.25)",)
    assert verdict(session(**FULL), type="token_usage", max_input=1).misses == (
        "150 input tokens (maximum: 1)",
    )


def test_the_score_of_execution_metrics_is_the_share_of_budgets_kept():
    context = session("Read", "Bash", **FULL)
    bounds: dict[str, Any] = {"max_tool_calls": 2, "max_llm_calls": 2, "max_tokens": 200, "max_cost_usd": 0.5}
    bounds |= {"max_duration_ms": 1500, "target_exploration_ratio": 0.5}
    assert verdict(context, type="execution_metrics", **bounds).score == 1.0
    for name in ("max_tool_calls", "max_llm_calls", "max_tokens", "max_duration_ms"):
        found = verdict(context, type="execution_metrics", **{**bounds, name: 1})
        assert found.score == pytest.approx(5 / 6)
        assert found.outcome == "failed"
        assert len(found.misses) == 1
    assert verdict(context, type="execution_metrics", **{**bounds, "max_cost_usd": 0.1}).outcome == "failed"
    found = verdict(context, type="execution_metrics", required=0.8, **{**bounds, "max_tokens": 1})
    assert found.outcome == "passed"


@pytest.mark.parametrize(
    ("calls", "target", "tolerance", "outcome"),
    [
        (["Read", "glob_files", "Grep", "WebFetch", "WebSearch"], 1.0, 0.0, "passed"),
        (["Bash", "Edit", "Write", "Task"], 0.0, 0.0, "passed"),
        (["Read", "Read", "Read", "Read", "Bash"], 0.6, 0.2, "passed"),
        (["Read", "Read", "Read", "Bash"], 0.5, 0.2, "failed"),
        (["Bash"], 0.5, 0.4, "failed"),
        ([], 0.0, 1.0, "failed"),
    ],
)
def test_the_exploration_ratio_is_the_share_of_tools_that_only_look(calls, target, tolerance, outcome):
    fields = {"target_exploration_ratio": target, "exploration_tolerance": tolerance}
    assert verdict(session(*calls), type="execution_metrics", **fields).outcome == outcome


def test_llm_calls_of_a_trace_are_its_model_steps():
    events = (TraceEvent(type="model_step"), TraceEvent(type="message"), TraceEvent(type="model_step"))
    context = session(output_messages=None, trace=events)
    assert verdict(context, type="execution_metrics", max_llm_calls=2).outcome == "passed"
    assert verdict(context, type="execution_metrics", max_llm_calls=1).outcome == "failed"


def test_only_assistant_messages_are_llm_calls():
    context = session(output_messages=[{"role": "user"}, {"role": "assistant"}, {"role": "tool"}])
    assert verdict(context, type="execution_metrics", max_llm_calls=1).outcome == "passed"
    assert verdict(context, type="execution_metrics", max_llm_calls=0).outcome == "failed"
