"""Every scenario of seed 000, by its title."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.authoring.conftest import LoadCase

CHECKED = "evaluators: ['is it right?']\n"


def dumped(messages: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [message.model_dump(exclude_defaults=True) for message in messages]


def test_input_string_shorthand_for_single_user_query(load_case: LoadCase):
    """Scenario: String shorthand for single user query"""
    case = load_case(CHECKED + 'input: "What is 2+2?"\n')
    assert dumped(case.input_messages) == [{"role": "user", "content": "What is 2+2?"}]


def test_array_input_via_alias(load_case: LoadCase):
    """Scenario: Array input via alias"""
    case = load_case(
        CHECKED
        + """\
input:
  - role: system
    content: "You are a calculator"
  - role: user
    content: "What is 2+2?"
"""
    )
    assert dumped(case.input_messages) == [
        {"role": "system", "content": "You are a calculator"},
        {"role": "user", "content": "What is 2+2?"},
    ]


def test_input_canonical_name_takes_precedence(load_case: LoadCase):
    """Scenario: Canonical name takes precedence (input_messages over input)"""
    case = load_case(
        CHECKED
        + """\
input: "Alias query"
input_messages:
  - role: user
    content: "Canonical query"
"""
    )
    assert dumped(case.input_messages) == [{"role": "user", "content": "Canonical query"}]


def test_expected_output_string_shorthand(load_case: LoadCase):
    """Scenario: String shorthand"""
    case = load_case(CHECKED + 'input: x\nexpected_output: "The answer is 4"\n')
    assert dumped(case.expected_messages) == [{"role": "assistant", "content": "The answer is 4"}]


def test_object_shorthand_for_structured_output(load_case: LoadCase):
    """Scenario: Object shorthand for structured output"""
    case = load_case(
        CHECKED
        + """\
input: x
expected_output:
  riskLevel: High
  reasoning: "Explanation"
"""
    )
    assert dumped(case.expected_messages) == [
        {"role": "assistant", "content": {"riskLevel": "High", "reasoning": "Explanation"}}
    ]


def test_array_with_tool_calls_via_alias(load_case: LoadCase):
    """Scenario: Array with tool calls via alias"""
    case = load_case(
        CHECKED
        + """\
input: x
expected_output:
  - role: assistant
    tool_calls:
      - tool: Read
        input: { file_path: "config.json" }
  - role: assistant
    content: { status: "done" }
"""
    )
    first, second = case.expected_messages
    assert (first.role, first.content) == ("assistant", None)
    [call] = first.tool_calls
    assert (call.tool, call.input) == ("Read", {"file_path": "config.json"})
    assert (second.role, second.content, second.tool_calls) == ("assistant", {"status": "done"}, ())


def test_expected_output_canonical_name_takes_precedence(load_case: LoadCase):
    """Scenario: Canonical name takes precedence (expected_messages over expected_output)"""
    case = load_case(
        CHECKED
        + """\
input: x
expected_output: { riskLevel: High }
expected_messages:
  - role: assistant
    content: "Canonical answer"
"""
    )
    assert dumped(case.expected_messages) == [{"role": "assistant", "content": "Canonical answer"}]


@pytest.mark.parametrize("order", [1, -1])
def test_canonical_name_takes_precedence_in_either_order(load_case: LoadCase, order: int):
    """Scenario: Canonical name takes precedence, whichever is written first"""
    pair = ["input: alias", "input_messages: [{role: user, content: canonical}]"][::order]
    assert load_case(CHECKED + "\n".join(pair)).question == "canonical"
