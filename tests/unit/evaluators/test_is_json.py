from __future__ import annotations

from typing import Any

import pytest

from farm.model.verdict import Verdict
from tests.unit.evaluators.builders import session, verdict

PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "tags/x": {"type": "array", "items": {"type": "integer"}}},
}


def is_json(text: str, **fields: Any) -> Verdict:
    return verdict(session(text=text), type="is_json", **fields)


@pytest.mark.parametrize("text", ["{}", ' {"a": [1, 2.5, null, true]}\n', '"text"', "0", "null"])
def test_json_passes(text):
    assert is_json(text).outcome == "passed"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sure! {}",
        "{} {}",
        "{'a': 1}",
        "[1,]",
        "NaN",
        "[Infinity]",
        '{"a": -Infinity}',
        '"\\ud800"',
        '"\ud800"',
        "[" * 100_000,
        "[" * 5000 + "]" * 5000,
    ],
)
def test_what_a_strict_parser_refuses_fails(text):
    found = is_json(text)
    assert (found.outcome, found.score) == ("failed", 0.0)
    assert found.misses[0].startswith("not JSON")


def test_a_code_fence_fails_and_is_named():
    found = is_json("```json\n{}\n```")
    assert found.outcome == "failed"
    assert found.misses[0].startswith("not JSON: it is wrapped in a code fence")


def test_a_value_that_fits_the_schema_passes():
    assert is_json('{"name": "Ada", "tags/x": [1]}', schema=PERSON).outcome == "passed"
    assert is_json("{}", schema=True).outcome == "passed"


def test_every_violation_of_the_schema_is_listed_with_its_pointer():
    found = is_json('{"tags/x": [1, "b", "c"]}', schema=PERSON)
    assert (found.outcome, found.score) == ("failed", 0.0)
    assert sorted(found.misses) == [
        '/tags~1x/1: "b" is not of type "integer"',
        '/tags~1x/2: "c" is not of type "integer"',
        'the whole value: "name" is a required property',
    ]
    assert is_json("{}", schema=False).outcome == "failed"


def test_of_many_violations_ten_are_listed():
    found = is_json("[" + ",".join(['"a"'] * 50) + "]", schema={"items": {"type": "integer"}})
    assert len(found.misses) == 11
    assert found.misses[-1] == "and more"


def test_ten_violations_are_not_more_than_ten():
    found = is_json("[" + ",".join(['"a"'] * 10) + "]", schema={"items": {"type": "integer"}})
    assert len(found.misses) == 10


@pytest.mark.parametrize("address", ["https://example.com/schema.json", "file:///etc/passwd"])
def test_a_schema_elsewhere_is_not_even_tried(address):
    assert "Retrieval is disabled" in (is_json("{}", schema={"$ref": address}).reasoning or "")


def test_a_huge_value_is_not_quoted_in_full():
    [miss] = is_json('"' + "a" * 100_000 + '!"', schema={"pattern": "(a+)+$"}).misses
    assert len(miss) < 300
    assert miss.endswith('does not match "(a+)+$"')


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objet"},
        {"pattern": "(?=a)b"},  # look-ahead needs backtracking
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/$defs/missing"},
        {"$schema": "https://example.com/unknown"},
    ],
)
@pytest.mark.parametrize("text", ["{}", "not json"])
def test_a_schema_that_is_wrong_or_needs_the_network_is_errored(schema, text):
    found = is_json(text, schema=schema)
    assert found.outcome == "errored"
    assert found.reasoning is not None
    assert found.reasoning.startswith("the schema is no valid JSON Schema: ")


def test_formats_are_checked():
    assert is_json('"2025-02-30"', schema={"format": "date"}).outcome == "failed"
