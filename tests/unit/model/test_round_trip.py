"""What crosses the queue must arrive as it was sent."""

from __future__ import annotations

from pathlib import Path

from farm.authoring.load import load_suite
from farm.model.evaluator import SPEC_BY_TYPE
from farm.model.suite import Case
from tests.unit.builders import case

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_every_case_of_the_examples_survives_json():
    cases = load_suite([EXAMPLES]).cases
    assert {spec.type for case in cases for spec in case.evaluators} >= SPEC_BY_TYPE.keys() - {
        "stdout_review"
    }
    for original in cases:
        assert Case.model_validate_json(original.model_dump_json()) == original


def test_a_loaded_case_is_a_valid_one_though_the_loader_does_not_check_it_twice():
    for original in load_suite([EXAMPLES]).cases:
        assert Case.model_validate(original.model_dump()) == original


def test_a_tool_that_is_really_called_like_a_slip_survives_json():
    original = case(evaluators=[{"type": "tool_call", "tool": "=Edits", "called_after": "=Reads"}])
    assert Case.model_validate_json(original.model_dump_json()) == original


def test_a_member_without_required_is_no_gate_after_json():
    members = [{"type": "contains", "value": "a"}, {"type": "contains", "value": "b", "required": True}]
    original = case(evaluators=[{"type": "composite", "evaluators": members}])
    (again,) = Case.model_validate_json(original.model_dump_json()).evaluators
    assert [member.required for member in again.evaluators] == [None, True]  # type: ignore[union-attr]
