"""Every table row, expansion and detection rule of seed 001, and the shorthands that SPEC §2 adds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farm.errors import Problem
from farm.model.suite import Case
from tests.unit.authoring.conftest import LoadCase, LoadProblems


def eval_case(**keys: Any) -> str:
    """Write a case as JSON, which is YAML too."""
    return json.dumps({"input": "What is 2+2?", "evaluators": ["is it right?"], **keys})


def contents(messages: tuple[Any, ...]) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in messages]


def test_input_is_an_alias_of_input_messages(load_case: LoadCase):
    """Table: `input_messages` | `input` | String → single user message"""
    case = load_case(eval_case())
    assert contents(case.input_messages) == [("user", "What is 2+2?")]


def test_expected_output_is_an_alias_of_expected_messages(load_case: LoadCase):
    """Table: `expected_messages` | `expected_output` | Object → single assistant message"""
    case = load_case(eval_case(expected_output={"riskLevel": "High"}))
    assert contents(case.expected_messages) == [("assistant", {"riskLevel": "High"})]


MESSAGES = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]


@pytest.mark.parametrize("alias", ["another", MESSAGES[1:], None, ...])
def test_the_canonical_input_takes_precedence_if_both_are_specified(load_case: LoadCase, alias: Any):
    """Alias resolution: raw.input_messages ?? expandShorthand(raw.input)"""
    keys = {"input_messages": MESSAGES} | ({} if alias in (None, ...) else {"input": alias})
    raw = json.loads(eval_case(**keys))
    if alias is ...:
        del raw["input"]
    assert contents(load_case(json.dumps(raw)).input_messages) == [("user", "one"), ("assistant", "two")]


@pytest.mark.parametrize("alias", ["another", {"an": "object"}, MESSAGES[1:], ["a", "list"]])
def test_the_canonical_expected_messages_take_precedence_if_both_are_specified(
    load_case: LoadCase, alias: Any
):
    """Alias resolution: raw.expected_messages ?? expandShorthand(raw.expected_output)"""
    case = load_case(eval_case(expected_messages=MESSAGES, expected_output=alias))
    assert contents(case.expected_messages) == [("user", "one"), ("assistant", "two")]


def test_input_shorthand_string_expands_to_input_messages(load_case: LoadCase):
    """`input` shorthand: both ways of writing it are the same case"""
    short = load_case('input: "What is 2+2?"\nevaluators: [x]\n')
    long = load_case('evaluators: [x]\ninput_messages:\n  - role: user\n    content: "What is 2+2?"\n')
    assert short.input_messages == long.input_messages
    assert contents(long.input_messages) == [("user", "What is 2+2?")]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (
            'expected_output: "The answer is 4"\n',
            'expected_messages:\n  - role: assistant\n    content: "The answer is 4"\n',
        ),
        (
            "expected_output:\n  riskLevel: High\n",
            "expected_messages:\n  - role: assistant\n    content:\n      riskLevel: High\n",
        ),
    ],
    ids=["string", "object"],
)
def test_expected_output_shorthand_expands_to_expected_messages(load_case: LoadCase, short: str, long: str):
    """`expected_output` shorthand: string, and object (structured output)"""
    head = "input: x\nevaluators: [x]\n"
    expanded = load_case(head + short).expected_messages
    assert len(expanded) == 1
    assert expanded == load_case(head + long).expected_messages


@pytest.mark.parametrize(
    ("value", "expanded"),
    [
        # typeof value === 'string'
        ("text", [("assistant", "text")]),
        ("", [("assistant", "")]),
        # Array.isArray(value) && value[0]?.role: already a message array
        (MESSAGES, [("user", "one"), ("assistant", "two")]),
        ([{"role": "tool", "content": "result"}], [("tool", "result")]),
        # typeof value === 'object' && !value.role: structured object
        ({"a": {"b": [1, None]}}, [("assistant", {"a": {"b": [1, None]}})]),
        ({}, [("assistant", {})]),
        ({"Role": "x"}, [("assistant", {"Role": "x"})]),
        ({"role": ""}, [("assistant", {"role": ""})]),
        # SPEC §2: a mapping with role is that one message
        ({"role": "user", "content": "I"}, [("user", "I")]),
        # SPEC §2: any other list is one assistant message with that list as content
        (["a", "b"], [("assistant", ["a", "b"])]),
        ([{"riskLevel": "High"}], [("assistant", [{"riskLevel": "High"}])]),
        ([{"a": 1}, {"role": "user"}], [("assistant", [{"a": 1}, {"role": "user"}])]),
        ([{"type": "invoice", "amount": 3}], [("assistant", [{"type": "invoice", "amount": 3}])]),
        ([1, 2.5, True], [("assistant", [1, 2.5, True])]),
        ([], [("assistant", [])]),
        # what the seed leaves open: an answer that is a number or a truth value
        (42, [("assistant", 42)]),
        (False, [("assistant", False)]),
    ],
)
def test_detection_logic_of_expected_output(load_case: LoadCase, value: Any, expanded: Any):
    """Detection logic: expandExpectedOutput"""
    case = load_case(eval_case(expected_output=value))
    assert contents(case.expected_messages) == expanded


def test_a_mapping_with_a_role_is_one_input_message_too(load_case: LoadCase):
    case = load_case(eval_case(input={"role": "system", "content": "be brief"}, input_messages=MESSAGES))
    assert contents(case.input_messages) == [("user", "one"), ("assistant", "two")]
    alone = load_case(eval_case(input={"role": "system", "content": "be brief"}))
    assert contents(alone.input_messages) == [("system", "be brief")]


@pytest.mark.parametrize(
    ("value", "column", "message"),
    [
        (5, 11, '"input" must be text or a list of messages'),
        (True, 11, '"input" must be text or a list of messages'),
        ({"no": "role"}, 11, '"input" must be text or a list of messages'),
        (["text"], 12, "a message must be a mapping with a role"),
        ([], 11, '"input" must be a list of messages'),
        ("", 11, '"input" is empty'),
    ],
)
def test_input_that_is_neither_text_nor_messages_is_refused(
    problems_of: LoadProblems, value: Any, column: int, message: str
):
    assert problems_of(eval_case(input=value)) == [Problem("case.yaml", 1, column, message)]


def test_file_parts_of_an_expected_list_are_found_and_travel(load_case: LoadCase, write):
    write({"answers/good.md": "good"})
    parts = [{"type": "text", "value": "see"}, {"type": "file", "value": "answers/good.md"}]
    case = load_case(eval_case(expected_output=parts))
    assert contents(case.expected_messages) == [("assistant", parts)]
    assert case.files == ("answers/good.md",)


def test_a_missing_file_of_an_expected_list_is_a_problem(problems_of: LoadProblems):
    [problem] = problems_of("input: x\nevaluators: [x]\nexpected_output:\n- {type: file, value: no.md}\n")
    assert (problem.line, problem.column) == (4, 23)
    assert problem.message.startswith('no file "no.md" beside this file')


def test_internally_only_the_canonical_names_exist():
    """What stays the same: the case's type uses `input_messages` and `expected_messages`"""
    assert {"input_messages", "expected_messages"} <= Case.model_fields.keys()
    assert not {"input", "expected_output", "outcome", "criteria", "prompt"} & Case.model_fields.keys()


def test_all_existing_eval_files_work_unchanged(load_case: LoadCase):
    """What stays the same: files with the canonical names need no alias"""
    case = load_case(
        json.dumps({"evaluators": ["x"], "input_messages": MESSAGES, "expected_messages": MESSAGES[1:]})
    )
    assert contents(case.input_messages) == [("user", "one"), ("assistant", "two")]
    assert contents(case.expected_messages) == [("assistant", "two")]
    assert case.reference_answer == "two"
