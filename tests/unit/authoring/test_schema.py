"""The JSON Schema for editors: it knows what the loader knows, and is never stricter."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.authoring.eval_fields import EvalCase, EvalFile
from farm.authoring.fields import AssertionTest
from farm.authoring.load import load_suite
from farm.authoring.schema import test_file_schema as make_schema
from farm.errors import FarmError, InputError
from farm.model.evaluator import SPEC_BY_TYPE, TYPE_ALIASES
from farm.settings import Settings

SCHEMA = make_schema()
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)

USER = {"role": "user", "content": "go"}
JUDGE = {"type": "code_judge", "command": "true"}

# One of each type, with as many of its keys as go together.
EVALUATORS: dict[str, dict[str, Any]] = {
    "tool_call": {
        "type": "tool_call",
        "tool": "Read",
        "called": True,
        "params": {"file_path": "*.md", "limit": 5},
        "min_calls": 1,
        "max_calls": 3,
        "called_after": "Bash",
        "called_before": "mcp__github__create_issue",
        "nth_call_params": {"1": {"a": "b"}, "2": {}},
        "first_call_params": {"a": "b"},
        "last_call_params": {"a": True},
        "name": "reads",
        "weight": 2,
        "required": 0.5,
        "negate": False,
    },
    "stdout_review": {
        "type": "stdout_review",
        "stdout": {"review": "good", "threshold": 7.5, "model": "m", "agent": "claude"},
        "required": False,
    },
    "tool_trajectory": {
        "type": "tool_trajectory",
        "mode": "in_order",
        "expected": [
            {"tool": "A", "args": "any"},
            {"tool": "B", "args": {"x": [1]}, "args_match": "superset", "max_duration_ms": 5},
        ],
        "args_match": "ignore",
    },
    "llm_judge": {
        "type": "llm_judge",
        "prompt": "Is it good?",
        "rubrics": [
            "polite",
            {"id": "r", "outcome": "o", "weight": 0, "required": True, "required_min_score": 5},
            {"score_ranges": [{"score_range": [0, 3.5], "outcome": "bad"}]},
        ],
        "model": "m",
        "agent": "claude",
        "samples": 3,
    },
    "code_judge": {**JUDGE, "timeout_seconds": 5, "cwd": ".", "config": {"a": [1]}, "own_key": {"b": None}},
    "composite": {
        "type": "composite",
        "evaluators": [{"tool": "Read", "name": "r"}, "good?", {"type": "composite", "assertions": [JUDGE]}],
        "aggregator": {"type": "weighted_average", "weights": {"r": 2}},
    },
    "field_accuracy": {
        "type": "field_accuracy",
        "fields": [
            {"path": "a.b[0]", "match": "numeric_tolerance", "tolerance": 0.1, "relative": True},
            {"path": "d", "match": "date", "formats": ["%Y"], "required": True, "weight": 2},
        ],
        "aggregation": "all_or_nothing",
    },
    **{
        kind: {"type": kind, "value": "x"}
        for kind in ("contains", "icontains", "equals", "starts_with", "ends_with")
    },
    **{
        kind: {"type": kind, "value": ["x", "y"]}
        for kind in ("contains_any", "icontains_any", "contains_all", "icontains_all")
    },
    "regex": {"type": "regex", "value": "a+"},
    "is_json": {"type": "is_json", "schema": {"type": "object", "required": ["a"]}},
    "file_exists": {"type": "file_exists", "path": "*.md"},
    "file_contains": {"type": "file_contains", "path": "a.md", "pattern": "x|y"},
    "files_changed": {"type": "files_changed", "expect": "a", "only": ["a", "b"], "forbid": ["c"]},
    "latency": {"type": "latency", "threshold": 100},
    "cost": {"type": "cost", "budget": 0},
    "token_usage": {"type": "token_usage", "max_total": 10, "max_input": 5, "max_output": 5},
    "execution_metrics": {
        "type": "execution_metrics",
        "max_tool_calls": 3,
        "max_llm_calls": 3,
        "max_tokens": 100,
        "max_cost_usd": 0.5,
        "max_duration_ms": 10,
        "target_exploration_ratio": 0.5,
        "exploration_tolerance": 0.1,
    },
}

SETTINGS: dict[str, Any] = {
    "model": "m",
    "workspace": ".",
    "setup": ["make", "make test"],
    "timeout_seconds": 1.5,
    "isolation": "process",
    "network": False,
    "trials": {"count": 3, "policy": {"rate": 0.5}},
    "tags": ["a"],
    "env": {"A": "b"},
    "weight": 0,
    "skip": "why",
    "max_cost_usd": 1,
    "max_turns": 5,
}
TEST: dict[str, Any] = {"name": "n", "prompt": "p", "assertions": [{"tool": "Read"}]}
CASE: dict[str, Any] = {"id": "a", "input": "go", "evaluators": ["good?"]}
TOOL_CALL = {"tool": "A", "input": {"a": 1}, "output": None, "id": "i", "timestamp": "t", "duration_ms": 1.5}

VALID: dict[str, Any] = {
    "an assertion test": TEST,
    "an assertion test with everything": {
        **TEST,
        **SETTINGS,
        "agent": "scripted",
        "script": [
            {"tool": "Read", "input": {"file_path": "a"}},
            {"tool": "WebFetch", "output": "o"},
            {"say": "x"},
            {"sleep": 0.5},
            {"crash": "why"},
        ],
    },
    "a review": {**TEST, "assertions": [{"stdout": {"review": "good"}}]},
    "a suite": {"evalcases": [CASE]},
    "a suite of tests": {"tests": [CASE]},
    "a suite of cases": {"cases": [CASE, {**CASE, "id": "b"}]},
    "a suite with everything": {
        **SETTINGS,
        "name": "n",
        "dataset": "d",
        "description": "",
        "metadata": {"a": None},
        "target": "claude",
        "execution": {"target": "claude", "evaluators": [{"tool": "Read"}]},
        "input": USER,
        "cases": [{"id": "a"}],
    },
    "a case with everything": {
        **CASE,
        **SETTINGS,
        "name": "n",
        "description": "d",
        "agent": "claude",
        "expected_output": {"riskLevel": "High"},
        "expected_outcome": "works",
        "rubrics": ["polite", {"outcome": "o"}],
        "conversation_id": "c",
        "metadata": {"a": [1]},
    },
    "a single case without an id": {"input": "go", "assertions": ["good?"]},
    "a bare list": [CASE],
    "an outcome": {**CASE, "outcome": "works"},
    "criteria": {**CASE, "criteria": "works"},
    "canonical names": {
        "input_messages": [USER],
        "expected_messages": [{"role": "assistant", "tool_calls": [TOOL_CALL]}],
        "rubrics": ["r"],
    },
    "messages": {
        **CASE,
        "input": [{"role": "system", "content": "s", "name": "n", "metadata": {"a": 1}}, USER],
    },
    "content parts": {**CASE, "input": [{"role": "user", "content": [{"type": "text", "value": "t"}]}]},
    "a message without calls": {**CASE, "input": [{**USER, "tool_calls": []}]},
    "one message": {**CASE, "input": USER},
    "a text, expected": {**CASE, "expected_output": "text"},
    "a list, expected": {**CASE, "expected_output": [1, {"a": 2}]},
    "a message, expected": {**CASE, "expected_output": {"role": "assistant", "content": 5}},
    "messages, expected": {**CASE, "expected_output": [{"role": "tool", "content": {}}]},
    "trials, a number": {**CASE, "trials": 5},
    "trials, any": {**CASE, "trials": {"policy": "any"}},
    "setup and tags, one text": {**CASE, "setup": "make", "tags": "a"},
    "an argv": {**CASE, "evaluators": [{"type": "script", "script": ["true", "x"]}]},
    "an aggregator by name": {
        **CASE,
        "evaluators": [{"type": "composite", "evaluators": ["x"], "aggregator": "weighted-average"}],
    },
    "an aggregator that judges": {
        **CASE,
        "evaluators": [{"type": "composite", "evaluators": ["x"], "aggregator": {"type": "llm-grader"}}],
    },
    "an aggregator that runs": {
        **CASE,
        "evaluators": [
            {"type": "composite", "evaluators": ["x"], "aggregator": {"type": "code-judge", "path": "true"}}
        ],
    },
    "a threshold": {
        **CASE,
        "evaluators": [
            {"type": "composite", "evaluators": ["x"], "aggregator": {"type": "threshold", "threshold": 0.5}}
        ],
    },
    "minimums": {
        **CASE,
        "evaluators": [{"type": "tool-trajectory", "mode": "any_order", "minimums": {"A": 0, "B": 1}}],
    },
    "a schema of everything": {**CASE, "evaluators": [{"type": "is_json", "schema": True}]},
    "called false": {**TEST, "assertions": [{"tool": "Read", "called": False, "max_calls": 0}]},
    **{f"evaluator {kind}": {**CASE, "evaluators": [entry]} for kind, entry in EVALUATORS.items()},
    **{f"assertion {kind}": {**TEST, "assertions": [entry]} for kind, entry in EVALUATORS.items()},
    **{
        f"alias {alias}": {**CASE, "evaluators": [{**EVALUATORS[kind], "type": alias}]}
        for alias, kind in TYPE_ALIASES.items()
    },
    **{
        f"hyphens {kind}": {**CASE, "evaluators": [{**entry, "type": kind.replace("_", "-")}]}
        for kind, entry in EVALUATORS.items()
        if "_" in kind
    },
}

INVALID: dict[str, Any] = {
    "a text": "text",
    "no name": {"prompt": "p", "assertions": [{"tool": "Read"}]},
    "no assertions at all": {"name": "n", "prompt": "p"},
    "no assertions": {**TEST, "assertions": []},
    "an unknown key of a test": {**TEST, "asserts": []},
    "an unknown key of a suite": {"cases": [CASE], "evaluator": []},
    "an unknown key of a case": {**CASE, "expected": "x"},
    "an unknown key of a listed case": {"cases": [{**CASE, "expected": "x"}]},
    "an unknown key of a message": {**CASE, "input": [{**USER, "contents": 1}]},
    "an unknown key of a tool call": {**CASE, "expected_messages": [{"role": "tool", "tool_calls": [{"tool": "A", "x": 1}]}]},
    "an unknown key of a review": {**TEST, "assertions": [{"stdout": {"review": "r", "treshold": 5}}]},
    "an unknown key of a rubric": {**CASE, "rubrics": [{"outcome": "o", "x": 1}]},
    "an unknown key of trials": {**CASE, "trials": {"count": 1, "x": 1}},
    "an unknown key of a step": {**TEST, "script": [{"say": "x", "loud": True}]},
    "an unknown key of execution": {**CASE, "execution": {"targets": "claude"}},
    "an unknown type": {**CASE, "evaluators": [{"type": "contain", "value": "x"}]},
    "an evaluator without a type": {**CASE, "evaluators": [{"value": "x"}]},
    "a role that there is not": {**CASE, "input": [{"role": "usr", "content": "x"}]},
    "a number for an input": {**CASE, "input": 5},
    "a flag in quotes": {**TEST, "assertions": [{"tool": "Read", "called": "yes"}]},
    "a count in quotes": {**TEST, "assertions": [{"tool": "Read", "min_calls": "3"}]},
    "a negative count": {**TEST, "assertions": [{"tool": "Read", "min_calls": -1}]},
    "a threshold too high": {**TEST, "assertions": [{"stdout": {"review": "r", "threshold": 11}}]},
    "a threshold too low": {**TEST, "assertions": [{"stdout": {"review": "r", "threshold": 0}}]},
    "an empty value": {**TEST, "agent": None},
    "an empty value of an assertion": {**TEST, "assertions": [{"tool": "Read", "called": None}]},
    "an empty prompt": {**TEST, "prompt": ""},
    "no case": {"cases": []},
    "a listed case without an id": {"cases": [{"input": "x", "evaluators": ["x"]}]},
    "no trial": {**CASE, "trials": 0},
    "a number in the environment": {**CASE, "env": {"A": 1}},
    **{
        f"an unknown key of {kind}": {**CASE, "evaluators": [{**entry, "zzz": 1}]}
        for kind, entry in EVALUATORS.items()
        if kind != "code_judge"  # whose own configuration may have any key
    },
}  # fmt: skip


def accepted(document: Any) -> bool:
    """Say whether the loader takes a document, as JSON, which is YAML too."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "t.yaml"
        path.write_text(json.dumps(document))
        try:
            load_suite([path], settings=Settings())
        except FarmError:
            return False
        return True


def test_the_schema_is_a_json_schema():
    jsonschema_rs.meta.validate(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_tables_here_know_every_evaluator_type():
    assert EVALUATORS.keys() == SPEC_BY_TYPE.keys()


@pytest.mark.parametrize("document", VALID.values(), ids=VALID)
def test_the_schema_accepts_what_the_loader_accepts(document: Any):
    assert accepted(document)
    assert VALIDATOR.is_valid(document)


@pytest.mark.parametrize("document", INVALID.values(), ids=INVALID)
def test_the_schema_refuses_what_the_loader_refuses(document: Any):
    assert not accepted(document)
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (AssertionTest, {**TEST, **SETTINGS, "agent": "a", "replay": "r", "script": []}),
        (EvalFile, {**VALID["a suite with everything"]}),
        (EvalCase, {**VALID["a case with everything"]}),
    ],
)
def test_every_key_of_a_model_is_in_its_definition(model: Any, document: dict[str, Any]):
    properties = SCHEMA["$defs"][model.__name__]["properties"]
    assert properties.keys() == model.model_fields.keys()
    assert document.keys() <= properties.keys()
    assert SCHEMA["$defs"][model.__name__]["additionalProperties"] is False


def test_a_file_of_defaults_beside_a_jsonl_file_is_accepted_too(tmp_path: Path):
    document = {"name": "n", "target": "claude", "evaluators": ["good?"]}
    (tmp_path / "t.yaml").write_text(json.dumps(document))
    (tmp_path / "t.jsonl").write_text('{"id": "a", "input": "go"}')
    assert len(load_suite([tmp_path], settings=Settings()).cases) == 1
    assert VALIDATOR.is_valid(document)
    assert not VALIDATOR.is_valid({**document, "targets": "claude"})


def mappings(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        if data:
            yield data
        for value in data.values():
            yield from mappings(value)
    elif isinstance(data, list):
        for item in data:
            yield from mappings(item)


KNOWN_KEYS = sorted({key for document in VALID.values() for mapping in mappings(document) for key in mapping})


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(list(VALID)))
def test_the_schema_is_never_stricter_than_the_loader(data: st.DataObject, name: str):
    document = copy.deepcopy(VALID[name])
    changes = []
    for _ in range(data.draw(st.integers(1, 2), label="changes")):
        mapping = data.draw(st.sampled_from(list(mappings(document)) or [{"": 0}]))
        key = data.draw(st.sampled_from(sorted(mapping)))
        kind = data.draw(st.sampled_from(["drop", "misspell", "rename"]))
        value = mapping.pop(key)
        if kind == "misspell":
            key = data.draw(st.sampled_from([key + "s", key[:-1], key.upper(), key.replace("_", "-")]))
        elif kind == "rename":
            key = data.draw(st.sampled_from(KNOWN_KEYS))
        if kind != "drop":
            mapping[key] = value
        changes.append((kind, key))
    if accepted(document):
        errors = [error.message for error in VALIDATOR.iter_errors(document)]
        assert errors == [], f"the loader accepts {document} after {changes}"


def test_the_loader_tells_of_a_renamed_key_what_the_schema_refuses(tmp_path: Path):
    """The property above is no empty one: a change that matters is refused by both."""
    document = {**TEST, "assertion": TEST["assertions"]}
    (tmp_path / "t.yaml").write_text(json.dumps(document))
    with pytest.raises(InputError, match='unknown key "assertion"'):
        load_suite([tmp_path / "t.yaml"], settings=Settings())
    assert not VALIDATOR.is_valid(document)
