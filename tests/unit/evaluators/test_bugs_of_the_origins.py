"""The table at the top of SPEC.md: what the origins do wrong, and we must not."""

from __future__ import annotations

import json
import sys

import pytest
from pydantic import ValidationError

from farm.model.messages import Message
from tests.unit.evaluators.builders import (
    a_case,
    call,
    session,
    spec,
    tool_verdict,
    trajectory_verdict,
    verdict,
)


def test_aptitude_never_read_env_can_fail():
    context = session(call("Read", file_path="/repo/.env"))
    assert tool_verdict(context, "Read", called=False, params={"file_path": "*.env"}).outcome == "failed"


def test_aptitude_max_calls_0_passes_with_zero_calls_and_fails_with_calls():
    assert tool_verdict(session("Read"), "Bash", max_calls=0).outcome == "passed"
    assert tool_verdict(session("Bash"), "Bash", max_calls=0).outcome == "failed"


def test_aptitude_called_after_itself_needs_two_calls():
    assert tool_verdict(session("Bash"), "Bash", called_after="Bash").outcome == "failed"
    assert tool_verdict(session("Bash", "Bash"), "Bash", called_after="Bash").outcome == "passed"
    assert tool_verdict(session("Bash"), "Bash", called_before="Bash").outcome == "failed"
    assert tool_verdict(session("Bash", "Bash"), "Bash", called_before="Bash").outcome == "passed"


def test_agentv_exact_with_an_extra_call_scores_0():
    expected = [{"tool": "A"}, {"tool": "B"}]
    assert trajectory_verdict(session("A", "B", "C"), mode="exact", expected=expected).score == 0.0


def test_agentv_in_order_in_the_wrong_order_scores_0():
    expected = [{"tool": "A"}, {"tool": "B"}]
    assert trajectory_verdict(session("B", "A"), mode="in_order", expected=expected).score == 0.0


def test_agentv_keys_inside_user_data_reach_a_code_judge_untouched():
    data = {"riskLevel": "High", "outer": {"innerKey": [{"deepKey": None}]}}
    case = a_case(data, input_messages=(Message(role="user", content=data),))
    program = (
        "import json, sys; p = json.load(sys.stdin);"
        "print(json.dumps({'score': 1, 'details': {k: p[k] for k in ('expected_messages', 'input_messages',"
        " 'output_messages', 'config')}}))"
    )
    context = session(call("searchDocs", maxResults=3, filterBy={"docType": "x"}), case=case)
    found = verdict(
        context,
        type="code_judge",
        command=[sys.executable, "-c", program],
        config={"maxScore": {"topKey": 1}},
    )
    assert found.outcome == "passed", found.reasoning
    assert found.details is not None
    seen = json.loads(json.dumps(found.details))
    assert seen["expected_messages"][0]["content"] == data
    assert seen["input_messages"][0]["content"] == data
    assert seen["output_messages"][0]["tool_calls"][0]["input"] == {
        "maxResults": 3,
        "filterBy": {"docType": "x"},
    }
    assert seen["config"] == {"maxScore": {"topKey": 1}}


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "contain", "value": "x"},
        {"type": "contains", "value": "x", "vaule": "y"},
        {"type": "tool_call", "tool": "Read", "params": {}, "callled": True},
        {"type": "tool_call", "tool": "Raed"},
        {"type": "tool_trajectory", "mode": "exact", "expected": [{"tool": "A", "arguments": {}}]},
    ],
)
def test_agentv_and_promptfoo_an_unknown_evaluator_or_key_is_an_error(fields):
    with pytest.raises(ValidationError):
        spec(**fields)
