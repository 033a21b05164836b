"""Every scenario of seed 002, by its title."""

from __future__ import annotations

from typing import Any

import pytest

from farm.model.messages import Message
from farm.model.transcript import TraceEvent, TraceSummary, Transcript
from tests.unit.evaluators.builders import session, trajectory_verdict, unrecorded

SEARCH_THREE_TIMES: dict[str, Any] = {"mode": "any_order", "minimums": {"semanticSearch": 3}}


def test_tool_call_with_optional_trace_fields():
    """Scenario: ToolCall with optional trace fields"""
    transcript = Transcript.model_validate(
        {
            "agent": "command",
            "output_messages": [
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "tool": "searchDocs",
                            "input": {"query": "test"},
                            "output": {"results": []},
                            "id": "call_123",
                            "timestamp": "2025-01-01T00:00:00Z",
                        },
                        {"tool": "searchDocs"},
                    ],
                }
            ],
        }
    )
    first, second = transcript.tool_calls()
    assert (first.tool, first.input, first.output) == ("searchDocs", {"query": "test"}, {"results": []})
    assert (first.id, first.timestamp) == ("call_123", "2025-01-01T00:00:00Z")
    assert (second.id, second.timestamp) == (None, None)


def test_output_message_with_optional_metadata():
    """Scenario: OutputMessage with optional metadata"""
    message = {
        "role": "assistant",
        "content": "response",
        "timestamp": "2025-01-01T00:00:00Z",
        "metadata": {"latency_ms": 150},
    }
    transcript = Transcript.model_validate({"agent": "command", "output_messages": [message]})
    assert transcript.output_messages is not None
    [parsed] = transcript.output_messages
    assert (parsed.timestamp, parsed.metadata) == ("2025-01-01T00:00:00Z", {"latency_ms": 150})


def test_output_messages_available_in_evaluator_context():
    """Scenario: OutputMessages available in evaluator context"""
    context = session("searchDocs")
    assert context.transcript.output_messages is not None
    assert [c.tool for m in context.transcript.output_messages for c in m.tool_calls] == ["searchDocs"]


def test_fallback_to_trace_when_output_messages_absent():
    """Scenario: Fallback to trace when outputMessages absent"""
    events = (TraceEvent(type="tool_call", name="searchDocs"),)
    context = session(output_messages=None, trace=events)
    assert context.transcript.events() == events
    assert context.transcript.output_messages is None


def test_trace_event_structure():
    """Scenario: TraceEvent structure"""
    for kind in ("model_step", "tool_call", "tool_result", "message", "error"):
        assert TraceEvent.model_validate({"type": kind}).type == kind
    full = {"type": "tool_call", "timestamp": "2025-01-01T00:00:00Z", "id": "1", "name": "n", "input": {}}
    full |= {"output": [], "text": "t", "metadata": {"k": 1}}
    assert TraceEvent.model_validate(full).model_dump() == full
    for wrong in ({}, {"type": "other"}):
        with pytest.raises(ValueError, match="type"):
            TraceEvent.model_validate(wrong)
    assert Transcript.model_fields["trace"].deprecated == "use output_messages"


def test_trace_summary_computation():
    """Scenario: TraceSummary computation"""
    names = ["searchDocs", "searchDocs", "verify"]
    events = [
        event
        for name in names
        for event in (TraceEvent(type="tool_call", name=name), TraceEvent(type="tool_result"))
    ]
    assert TraceSummary.of_trace(tuple(events)).model_dump(mode="json", by_alias=True) == {
        "eventCount": 6,
        "toolNames": ["searchDocs", "verify"],
        "toolCallsByName": {"searchDocs": 2, "verify": 1},
        "errorCount": 0,
    }


def test_tool_names_of_a_trace_summary_are_sorted_and_errors_counted():
    """Scenario: TraceSummary computation (toolNames is sorted alphabetically)"""
    events = [TraceEvent(type="tool_call", name=name) for name in ("verify", "a", "searchDocs")]
    summary = TraceSummary.of_trace((*events, TraceEvent(type="error")))
    assert summary.tool_names == ("a", "searchDocs", "verify")
    assert (summary.event_count, summary.error_count) == (4, 1)


def test_trace_summary_from_output_messages():
    """Scenario: TraceSummary from outputMessages"""
    message = Message.model_validate(
        {"role": "assistant", "tool_calls": [{"tool": "searchDocs"}, {"tool": "verify"}]}
    )
    assert TraceSummary.of_messages((message,)).model_dump(mode="json", by_alias=True) == {
        "eventCount": 2,
        "toolNames": ["searchDocs", "verify"],
        "toolCallsByName": {"searchDocs": 1, "verify": 1},
        "errorCount": 0,
    }


def test_minimum_calls_met_pass_from_output_messages():
    """Scenario: Minimum calls met - PASS (from outputMessages)"""
    found = trajectory_verdict(session(*["semanticSearch"] * 3), **SEARCH_THREE_TIMES)
    assert (found.score, found.outcome) == (1.0, "passed")
    assert found.hits == ("semanticSearch called 3 times (minimum: 3)",)
    assert found.misses == ()


def test_minimum_calls_met_pass_fallback_to_trace():
    """Scenario: Minimum calls met - PASS (fallback to trace)"""
    events = (TraceEvent(type="tool_call", name="semanticSearch"), TraceEvent(type="tool_result")) * 3
    context = session(output_messages=None, trace=events)
    summary = context.transcript.summary()
    assert summary is not None
    assert summary.tool_calls_by_name == {"semanticSearch": 3}
    found = trajectory_verdict(context, **SEARCH_THREE_TIMES)
    assert (found.score, found.outcome) == (1.0, "passed")


def test_minimum_calls_not_met_fail():
    """Scenario: Minimum calls not met - FAIL"""
    found = trajectory_verdict(session("semanticSearch"), **SEARCH_THREE_TIMES)
    assert (found.score, found.outcome) == (0.0, "failed")
    assert found.misses == ("semanticSearch called 1 time (minimum: 3)",)


def test_multiple_minimums_partial_pass():
    """Scenario: Multiple minimums - partial pass"""
    context = session("toolA", "toolB", "toolA")
    found = trajectory_verdict(context, mode="any_order", minimums={"toolA": 2, "toolB": 2})
    assert (found.score, found.outcome) == (0.5, "failed")
    assert found.hits == ("toolA called 2 times (minimum: 2)",)
    assert found.misses == ("toolB called 1 time (minimum: 2)",)


def test_in_order_sequence_pass():
    """Scenario: In-order sequence - PASS"""
    expected = [{"tool": "A"}, {"tool": "B"}, {"tool": "C"}]
    found = trajectory_verdict(session("A", "X", "B", "Y", "C"), mode="in_order", expected=expected)
    assert (found.score, found.outcome) == (1.0, "passed")


def test_in_order_sequence_fail_wrong_order():
    """Scenario: In-order sequence - FAIL (wrong order)"""
    found = trajectory_verdict(session("B", "A"), mode="in_order", expected=[{"tool": "A"}, {"tool": "B"}])
    assert (found.score, found.outcome) == (0.0, "failed")
    assert found.misses == ("step 2, expected B: not called after A(); seen in this order: B, A",)


def test_exact_sequence_pass():
    """Scenario: Exact sequence - PASS"""
    found = trajectory_verdict(session("A", "B"), mode="exact", expected=[{"tool": "A"}, {"tool": "B"}])
    assert (found.score, found.outcome) == (1.0, "passed")


def test_exact_sequence_fail_extra_tools():
    """Scenario: Exact sequence - FAIL (extra tools)"""
    found = trajectory_verdict(session("A", "B", "C"), mode="exact", expected=[{"tool": "A"}, {"tool": "B"}])
    assert (found.score, found.outcome) == (0.0, "failed")
    assert found.misses == ("extra call: C()",)


@pytest.mark.parametrize("mode", ["any_order", "in_order", "exact", "superset", "subset"])
def test_no_trace_or_output_messages_available(mode):
    """Scenario: No trace or outputMessages available"""
    found = trajectory_verdict(unrecorded(), mode=mode, expected=[{"tool": "A"}])
    assert (found.score, found.outcome) == (0.0, "failed")
    assert found.misses == ("No trace available for evaluation",)
