from __future__ import annotations

import pytest

from tests.unit.evaluators.builders import session, verdict


@pytest.mark.parametrize(
    ("kind", "value", "text", "outcome"),
    [
        ("contains", "Paris", "It is Paris.", "passed"),
        ("contains", "paris", "It is Paris.", "failed"),
        ("contains", "a", "", "failed"),
        ("icontains", "pARIS", "It is Paris.", "passed"),
        ("icontains", "STRASSE", "die Straße", "passed"),
        ("icontains", "rome", "It is Paris.", "failed"),
        ("contains_any", ["x", "Paris"], "It is Paris.", "passed"),
        ("contains_any", ["x", "paris"], "It is Paris.", "failed"),
        ("icontains_any", ["x", "paris"], "It is Paris.", "passed"),
        ("icontains_any", ["x", "y"], "It is Paris.", "failed"),
        ("contains_all", ["It", "Paris"], "It is Paris.", "passed"),
        ("contains_all", ["it", "Paris"], "It is Paris.", "failed"),
        ("icontains_all", ["it", "PARIS"], "It is Paris.", "passed"),
        ("icontains_all", ["it", "rome"], "It is Paris.", "failed"),
        ("equals", "42", " 42\n", "passed"),
        ("equals", "42\n", "42", "passed"),
        ("equals", "42", "42.", "failed"),
        ("equals", "", "  ", "passed"),
        ("equals", "a", "A", "failed"),
        ("regex", r"\d+ items", "there are 12 items", "passed"),
        ("regex", r"^\d+$", "12 items", "failed"),
        ("starts_with", "Hello", "\n Hello you", "passed"),
        ("starts_with", "Hello ", "Hellos", "failed"),
        ("starts_with", "you", "Hello you", "failed"),
        ("starts_with", " ", "anything", "failed"),
        ("ends_with", "you", "Hello you\n", "passed"),
        ("ends_with", "you\n", "Hello you", "passed"),
        ("ends_with", " you", "Helloyou", "failed"),
        ("ends_with", "Hello", "Hello you", "failed"),
        ("ends_with", "\n", "anything", "failed"),
    ],
)
def test_the_final_text_is_judged(kind, value, text, outcome):
    found = verdict(session(text=text), type=kind, value=value)
    assert (found.outcome, found.score) == (outcome, float(outcome == "passed"))
    assert bool(found.misses) == (outcome == "failed")
    assert verdict(session(text=text), type=kind, value=value, negate=True).outcome != outcome


def test_a_miss_shows_what_was_sought_and_the_ends_of_a_long_text():
    found = verdict(session(text="begin\x07" + "x" * 5000 + "end"), type="contains", value="q\n")
    assert found.misses[0] == 'does not contain "q\\n"'
    assert found.misses[1].startswith('seen: "begin\\x07xxx')
    assert found.misses[1].endswith('xxxend"')
    assert len(found.misses[1]) < 150


def test_an_empty_text_is_called_so():
    assert verdict(session(text=" \n"), type="contains", value="x").misses[1] == "seen: an empty text"


def test_each_text_of_contains_all_is_a_hit_or_a_miss():
    found = verdict(session(text="a b"), type="contains_all", value=["a", "z", "b", "y"])
    assert found.hits == ('contains "a"', 'contains "b"')
    assert found.misses[:2] == ('does not contain "z"', 'does not contain "y"')


def test_a_text_with_lone_surrogates_can_be_searched():
    assert verdict(session(text="a\ud800b"), type="regex", value="a.b").outcome == "passed"
    assert verdict(session(text="a\ud800b"), type="equals", value="x").outcome == "failed"
