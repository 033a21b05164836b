from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.evaluators.field_accuracy import _json_blocks
from farm.model.patterns import (
    PatternError,
    compile_regex,
    expand_braces,
    glob_matches,
    parameter_matches,
    path_glob_matches,
    path_glob_may_match_below,
    regex_found,
    same_json,
    text_of,
)

GLOBS = st.text("ab-.*?[]!^/\n", max_size=8)
VALUES = st.text("ab-.[]!^/\n", max_size=8)
SEGMENTS = st.one_of(st.just("**"), st.text("ab+*?[]!-9", min_size=1, max_size=4))
PATHS = st.lists(st.text("ab+-.9", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


def naive_class(body: str, char: str) -> bool:
    negated, rest = (True, body[1:]) if body[0] in "!^" else (False, body)
    found = False
    while rest:
        if len(rest) >= 3 and rest[1] == "-":
            found, rest = found or rest[0] <= char <= rest[2], rest[3:]
        else:
            found, rest = found or rest[0] == char, rest[1:]
    return found != negated


def naive_glob(pattern: str, text: str, never: str = "") -> bool:
    """The definition of a glob, character by character; `never` is what only a literal may match."""
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        return naive_glob(rest, text, never) or (
            bool(text) and text[0] not in never and naive_glob(pattern, text[1:], never)
        )
    if not text:
        return False
    if head == "?":
        return text[0] not in never and naive_glob(rest, text[1:], never)
    if head == "[":
        end = rest.find("]", 2 if rest[:1] in ("!", "^") else 1)
        if end > 0:
            matches = text[0] not in never and naive_class(rest[:end], text[0])
            return matches and naive_glob(rest[end + 1 :], text[1:], never)
    return head == text[0] and naive_glob(rest, text[1:], never)


def naive_path_glob(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    head, *rest = pattern
    if head == "**":
        least = 0 if rest else 1
        return any(naive_path_glob(rest, path[n:]) for n in range(least, len(path) + 1))
    return bool(path) and naive_glob(head, path[0], never="/") and naive_path_glob(rest, path[1:])


@settings(max_examples=400, deadline=None)
@given(GLOBS, VALUES)
def test_a_glob_agrees_with_its_definition(pattern, text):
    assert glob_matches(pattern, text) == naive_glob(pattern, text)


@settings(max_examples=400, deadline=None)
@given(st.lists(SEGMENTS, min_size=1, max_size=4), PATHS)
def test_a_path_glob_agrees_with_its_definition(segments, path):
    pattern = "/".join(segments)
    assert path_glob_matches(pattern, path) == (pattern == path or naive_path_glob(segments, path.split("/")))


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*", "a", True),
        ("*", "a/b", False),
        ("a?b", "a/b", False),
        ("a[!x]b", "a/b", False),
        ("a[+-9]b", "a/b", False),  # the range spans the slash
        ("a[+-9]b", "a0b", True),
        ("a[+-9]b", "a.b", True),
        ("**", "a", True),
        ("**", "a/b/c", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("**/b", "b", True),
        ("**/b", "a/c/b", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "axb", False),
        ("a**b", "a/b", False),
        ("*.env", ".env", True),
        ("app/[id]/x", "app/[id]/x", True),
        ("app/[id]/x", "app/i/x", True),
        ("*\n*", "a\nb", True),
        ("*", "\ud800", True),
    ],
)
def test_a_path_glob_stays_within_a_segment_but_for_two_stars(pattern, path, matches):
    assert path_glob_matches(pattern, path) is matches


@settings(max_examples=400, deadline=None)
@given(st.lists(SEGMENTS, min_size=1, max_size=4), PATHS)
def test_where_a_path_glob_matches_it_may_match_below_every_directory_above(segments, path):
    pattern = "/".join(segments)
    names = path.split("/")
    above = ["/".join(names[:depth]) for depth in range(1, len(names))]
    if path_glob_matches(pattern, path):
        assert all(path_glob_may_match_below(pattern, directory) for directory in above)


@pytest.mark.parametrize(
    ("pattern", "directory", "may"),
    [
        ("*.py", "a", False),
        ("*/*.py", "a", True),
        ("*/*.py", "a/b", False),
        ("src/*.py", "docs", False),
        ("src/**/x.py", "src", True),
        ("src/**/x.py", "src/a/b/c", True),
        ("src/**/x.py", "docs/a/b/c", False),
        ("src/a/**", "src", True),
        ("**", "a/b/c", True),
        ("a**/b", "a1", True),
        ("a**/b", "a1/c", False),
        ("app/[id]/x", "app/[id]", True),
    ],
)
def test_a_path_glob_can_match_only_below_some_directories(pattern, directory, may):
    assert path_glob_may_match_below(pattern, directory) is may


@pytest.mark.parametrize(
    ("pattern", "written_out"),
    [
        ("*.yaml", ["*.yaml"]),
        ("a{b,c}d", ["abd", "acd"]),
        ("{a,b}{c,d}", ["ac", "bc", "ad", "bd"]),
        ("{a,}b", ["ab", "b"]),
        ("x{a,{b,c}}y", ["xay", "xby", "xcy"]),
        ("{a,b", ["{a,b"]),
        ("a}b", ["a}b"]),
    ],
)
def test_braces_are_written_out(pattern, written_out):
    assert sorted(set(expand_braces(pattern))) == sorted(written_out)


def test_braces_may_be_many_as_long_as_what_they_stand_for_is_not():
    assert expand_braces("{a}" * 2000) == ["a" * 2000]


@pytest.mark.parametrize("pattern", ["{a,b}" * 40, "{" + "a," * 2000 + "b}"])
def test_braces_without_end_are_refused(pattern):
    with pytest.raises(PatternError, match="too many alternatives"):
        expand_braces(pattern)


def test_braces_without_end_are_refused_before_they_are_written_out():
    started = time.thread_time()
    with pytest.raises(PatternError, match="too many alternatives"):
        expand_braces("{" + "," * 2**20 + "}" + "x" * 2**20)
    assert time.thread_time() - started < 1


def cpu_seconds(work: Callable[[int], object], size: int) -> float:
    started = time.thread_time()  # not the wall clock: a busy machine must not fail the test
    work(size)
    return time.thread_time() - started


@pytest.mark.parametrize(
    "search",
    [
        lambda size: regex_found("(a+)+$", "a" * size + "!"),
        lambda size: regex_found("^(a|aa)+$", "a" * size + "!"),
        lambda size: regex_found("(.*)*x(.*)*y", "ab" * (size // 2)),
        lambda size: glob_matches("*a*a*a*a*b", "a" * size),
        lambda size: path_glob_matches("**/a*a*a/**/b", "aaa/" * (size // 4) + "c"),
        lambda size: parameter_matches("(x+x+)+y|*x*x*x*y", "x" * size),
        lambda size: list(_json_blocks("```json\nx" * (size // 9))),
    ],
)
def test_no_pattern_takes_more_than_linear_time(search):
    search(1000)  # compiled once
    rounds = [(cpu_seconds(search, 25_000), cpu_seconds(search, 400_000)) for _ in range(5)]
    small, large = map(min, zip(*rounds, strict=True))
    # Sixteen times the work: quadratic would be 256 times the time, exponential never come back.
    assert large < 64 * small


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        (5, 5, True),
        (5, 15, False),
        (5, 5.0, True),
        (5, "5", True),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ([1, 2], [1, 2, 3], False),
        (None, None, True),
        ("5", 15, True),  # a text is a pattern: found in it
        ("^5$", 15, False),
        ("*\ud800", "x\ud800", True),
        ("*?\ud800", "x", False),
    ],
)
def test_a_text_is_a_pattern_and_any_other_value_matches_its_equal(pattern, value, matches):
    assert parameter_matches(pattern, value) is matches


def test_values_are_seen_as_compact_json():
    assert text_of({"a": [1, "é", None]}) == '{"a":[1,"é",null]}'
    assert text_of("as it is") == "as it is"


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (False, 0, False),
        (None, False, False),
        ({"a": [1, {"b": 2}]}, {"a": [1.0, {"b": 2}]}, True),
        ({"a": None}, {}, False),
        ([1], [1, 1], False),
        ([[True]], [[1]], False),
        ({}, [], False),
        ("1", 1, False),
    ],
)
def test_values_are_the_same_as_json_not_as_python_has_it(a, b, same):
    assert same_json(a, b) is same
    assert same_json(b, a) is same


@pytest.mark.parametrize("pattern", ["(", "*.env", "(?=a)", r"\1", "a{5000}"])
def test_what_re2_does_not_accept_is_a_pattern_error(pattern):
    with pytest.raises(PatternError, match="not a regular expression"):
        compile_regex(pattern)
    assert parameter_matches(pattern, pattern)
