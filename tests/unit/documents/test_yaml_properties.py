"""Whatever stands in a file: plain data, positions that are right, or a FarmError."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.authoring.load import load_suite
from farm.documents.json_lines import parse_json, parse_json_lines
from farm.documents.yaml import MAX_DEPTH, KeyPath, decode_text, parse_yaml
from farm.errors import FarmError, InputError
from farm.settings import Settings

calm = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

VALID = [
    'name: "n"\nprompt: p\nassertions:\n  - tool: Read\n    called: false\n    params: {file_path: "*.env"}\n',
    "name: n\nprompt: p\nassertions:\n  - stdout:\n      review: good\n      threshold: 8\n---\n"
    "name: m\nprompt: q\nscript:\n  - {tool: Read, input: {file_path: a}}\n  - say: x\nassertions: [x]\n",
    "description: d\nexecution:\n  target: claude\nevaluators:\n  - type: tool_trajectory\n"
    "    mode: any_order\n    minimums: {semanticSearch: 3}\nevalcases:\n  - id: a\n    input: x\n"
    "    expected_output:\n      riskLevel: High\n  - id: b\n    input:\n      - role: user\n"
    "        content:\n          - {type: text, value: v}\n    rubrics: [r, {outcome: o, weight: 2}]\n",
    "defaults: &d {type: composite, evaluators: [{tool: Read}, x]}\ninput: x\nevaluators:\n  - <<: *d\n"
    "    aggregator: {type: threshold, threshold: 0.5}\n  - *d\n",
    "tests: cases/*.yaml\ntrials: {count: 3, policy: {rate: 0.5}}\ntags: [a, b]\nenv: {A: b}\n",
]
LINES = (
    '{"id": "a", "input": "x", "evaluators": [{"type": "is_json", "schema": {"type": "object"}}]}\n'
    '\n{"id": "b", "input": [{"role": "user", "content": 1.5e3}], "assertions": ["\\u00e9"]}\n'
)

FRAGMENTS = [
    *("name", "prompt", "assertions", "evaluators", "cases", "tests", "input", "type", "tool", "stdout"),
    *("id", "Read", "contains", "composite", "role", "user", "content", "script", "replay", "agent", "<<"),
    *(":", ": ", "- ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ",", "&a ", "*a", "!!str ", "!x ", "|\n"),
    *(">-\n", "'", '"', "# c\n", "---\n", "...\n", "%YAML 1.1\n", "%TAG ! x\n", "? ", "~", "null", "no"),
    *("1", "-1", "1e999", "0x", ".5", "99999999999999999999", "\t", "\r\n", "\x00", "\x85", "\u2028", "é"),
    *("\ufeff", "\U0001f600", "\\", "@", "`", "../", "*", "./x.md", "\x7f", "\ud7ff", "\ue000"),
]


def load_bytes(content: bytes, name: str) -> None:
    """Load a file as a user would; nothing but a FarmError may come out."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_bytes(content)
        for given in (path, Path(directory)):
            try:
                suite = load_suite([given], settings=Settings())
            except FarmError as error:
                assert str(error)
                if isinstance(error, InputError):
                    assert all(0 < problem.line <= len(content) + 2 for problem in error.problems)
                    assert all(problem.column > 0 and problem.message for problem in error.problems)
            else:
                assert suite.cases
                assert all(json.loads(case.model_dump_json())["id"] == case.id for case in suite.cases)


@st.composite
def mutated(draw: st.DrawFn, texts: list[str]) -> str:
    """Take a valid file; delete, insert or replace slices of it, or swap its lines."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["delete", "insert", "replace", "swap", "repeat"]))
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        inserted = draw(st.sampled_from(FRAGMENTS))
        if kind == "swap":
            lines = text.split("\n")
            i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
            lines[i], lines[j] = lines[j], lines[i]
            text = "\n".join(lines)
        elif kind == "repeat":
            text = text[:end] + text[start:]
        elif kind == "delete":
            text = text[:start] + text[end:]
        else:
            text = text[:start] + inserted + text[start if kind == "insert" else end :]
    return text


@pytest.mark.parametrize("text", VALID[:3])
def test_what_is_mutated_below_is_valid(text: str, tmp_path: Path):
    (tmp_path / "t.yaml").write_text(text)
    assert load_suite([tmp_path / "t.yaml"], settings=Settings()).cases


@calm
@given(st.binary(max_size=300), st.sampled_from(["t.yaml", "t.jsonl"]))
def test_arbitrary_bytes_never_raise_anything_but_a_farm_error(content: bytes, name: str):
    load_bytes(content, name)


@calm
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join), st.sampled_from(["t.yaml", "t.jsonl"]))
def test_arbitrary_fragments_never_raise_anything_but_a_farm_error(text: str, name: str):
    load_bytes(text.encode(), name)


@calm
@given(mutated(VALID))
def test_a_mutated_test_file_never_raises_anything_but_a_farm_error(text: str):
    load_bytes(text.encode(), "t.yaml")


@calm
@given(mutated([LINES]))
def test_a_mutated_jsonl_file_never_raises_anything_but_a_farm_error(text: str):
    load_bytes(text.encode(), "t.jsonl")


@calm
@given(
    st.text(max_size=200) | st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join) | mutated(VALID)
)
def test_parsers_give_plain_data_or_an_input_error(text: str):
    for parse in (parse_yaml, parse_json_lines):
        try:
            documents = parse(text, "t")
        except InputError as error:
            assert error.problems
        else:
            for document in documents:
                json.dumps(document.data, allow_nan=False)


@calm
@given(st.binary(max_size=50))
def test_bytes_are_decoded_or_the_first_wrong_one_is_named(content: bytes):
    try:
        text = decode_text(content, "t")
    except InputError as error:
        [problem] = error.problems
        line = content.split(b"\n")[problem.line - 1]
        wrong = line[problem.column - 1]
        assert f"0x{wrong:02x}" in problem.message
        assert wrong >= 0x80
    else:
        assert text.encode() == content.removeprefix(b"\xef\xbb\xbf")


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    [
        "no",
        "on",
        "1:30",
        "2025-01-01",
        "0644",
        "true",
        "null",
        "~",
        "<<",
        "- a",
        "a: b",
        "# c",
        "'",
        '"',
        ".inf",
    ]
)
# PyYAML dumps for YAML 1.1, where these are text without quotes; in 1.2 they are numbers.
words = words.filter(lambda word: not re.fullmatch(r"[-+]?[.0-9]+[eE][0-9]+|0o[0-7]+", word))
scalars = (
    words
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)


def paths_of(data: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    yield path, data
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, child in children:
        yield from paths_of(child, (*path, step))


def text_at(text: str, position: tuple[int, int]) -> str:
    # YAML breaks lines at these, and only at these.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    line, column = position
    return "\n".join([lines[line - 1][column - 1 :], *lines[line:]])


def scalar_at(text: str, position: tuple[int, int]) -> Any:
    """Read the one scalar that begins at a position, by itself."""
    tokens = yaml.scan(text_at(text, position), Loader=yaml.CSafeLoader)
    return next(token.value for token in tokens if isinstance(token, yaml.ScalarToken))


def dumped(data: Any, **options: Any) -> str:
    text = yaml.dump(
        data, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=10_000, **options
    )
    assert isinstance(text, str)
    return text


@calm
@given(trees)
def test_what_was_dumped_is_read_again(data: Any):
    [document] = parse_yaml(dumped(data), "t")
    assert document.data == data


@calm
@given(trees)
def test_json_is_read_as_json(data: Any):
    assert parse_json(json.dumps(data), "t") == data
    [line] = parse_json_lines(json.dumps(data, ensure_ascii=False), "t")
    assert line.data == data


plain_words = st.text("abcdefgh é", min_size=1, max_size=8).map(str.strip).filter(bool)
texts_only = st.recursive(
    plain_words,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4) | st.dictionaries(plain_words, inner, min_size=1, max_size=4)
    ),
    max_leaves=20,
)


@calm
@given(texts_only, st.booleans(), st.integers(0, 3))
def test_every_position_points_at_the_text_of_its_key_and_value(data: Any, flow: bool, comments: int):
    text = "# a comment\n" * comments + dumped(data, default_flow_style=flow)
    [document] = parse_yaml(text, "t")
    assert document.data == data
    for path, value in paths_of(data):
        at = text_at(text, document.position(path))
        if isinstance(value, str):
            assert at.lstrip("'\"").startswith(value)
        elif flow:
            assert at.startswith("{" if isinstance(value, dict) else "[")
        else:
            first = next(iter(value)) if isinstance(value, dict) else "- "
            assert at.startswith(first)
        if path and isinstance(path[-1], str):
            assert text_at(text, document.position(path, of_key=True)).startswith(path[-1])


@calm
@given(texts_only)
def test_positions_of_quoted_text_are_those_of_the_quotes(data: Any):
    text = dumped(data, default_style='"')
    [document] = parse_yaml(text, "t")
    for path, value in paths_of(data):
        if isinstance(value, str):
            assert text_at(text, document.position(path)).startswith('"')
            assert scalar_at(text, document.position(path)) == value


@calm
@given(texts_only, st.lists(plain_words, min_size=1, max_size=3))
def test_a_path_that_leads_nowhere_gives_the_nearest_position(data: Any, beyond: list[str]):
    [document] = parse_yaml(dumped(data), "t")
    absent = ["absent", *beyond]
    for path, _ in paths_of(data):
        assert document.position([*path, *absent]) == document.position(path)


@calm
@given(st.integers(1, 3 * MAX_DEPTH), st.sampled_from(["[]", "{}"]))
def test_nesting_is_read_or_refused_but_never_cut(depth: int, brackets: str):
    opening = "[" if brackets == "[]" else '{"a": '
    text = opening * depth + "1" + brackets[1] * depth
    for parse in (parse_yaml, parse_json_lines):
        try:
            [document] = parse(text, "t")
        except InputError as error:
            assert depth >= MAX_DEPTH
            assert "nested deeper" in str(error)
        else:
            assert depth <= MAX_DEPTH
            assert json.dumps(document.data) == text
