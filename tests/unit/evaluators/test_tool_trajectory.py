from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.evaluators.matching import match_distinct
from farm.model.messages import ToolCall
from farm.model.transcript import TraceEvent
from tests.unit.evaluators.builders import call, session, trajectory_verdict, unrecorded


def score_of(
    calls: Sequence[ToolCall | str], expected: Any, mode: str = "superset", **fields: Any
) -> float | None:
    return trajectory_verdict(session(*calls), mode=mode, expected=expected, **fields).score


Step: TypeAlias = tuple[str, int | None]
Made: TypeAlias = tuple[str, int]

# A step is a tool and, for some, one expected argument; a call always has that argument.
STEPS = st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from([None, 1, 2])), min_size=1, max_size=4)
CALLS = st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from([1, 2])), max_size=5)


def fits(step: Step, made: Made) -> bool:
    return step[0] == made[0] and step[1] in (None, made[1])


def all_fit(steps: Sequence[Step], calls: Sequence[Made]) -> bool:
    return len(steps) == len(calls) and all(map(fits, steps, calls))


def reference_any_order(steps: Sequence[Step], calls: Sequence[Made]) -> float:
    """The most steps that any one-to-one assignment can satisfy."""
    for size in range(len(steps), 0, -1):
        for chosen in combinations(steps, size):
            if any(all_fit(chosen, picked) for picked in permutations(calls, size)):
                return size / len(steps)
    return 0.0


REFERENCES: dict[str, Callable[[Sequence[Step], Sequence[Made]], float]] = {
    "any_order": reference_any_order,
    "superset": lambda steps, calls: any(all_fit(steps, p) for p in permutations(calls, len(steps))),
    "in_order": lambda steps, calls: any(all_fit(steps, p) for p in combinations(calls, len(steps))),
    "exact": all_fit,
    "subset": lambda steps, calls: all(any(fits(step, made) for step in steps) for made in calls),
}


@pytest.mark.parametrize("mode", REFERENCES)
@given(steps=STEPS, calls=CALLS)
def test_every_mode_agrees_with_trying_everything(mode, steps, calls):
    expected = [{"tool": tool} if x is None else {"tool": tool, "args": {"x": x}} for tool, x in steps]
    made = [call(tool, x=x, y=0) for tool, x in calls]
    found = trajectory_verdict(session(*made), mode=mode, expected=expected)
    assert found.score == float(REFERENCES[mode](steps, calls))
    assert bool(found.misses) == (found.score < 1)


@given(st.lists(st.lists(st.integers(0, 4), unique=True), max_size=5))
def test_as_many_as_possible_are_matched_each_with_a_thing_of_its_own(fitting):
    matched = match_distinct(fitting)
    assert all(thing in fitting[want] for want, thing in matched.items())
    assert len(set(matched.values())) == len(matched)
    most = max(
        (
            size
            for size in range(len(fitting) + 1)
            for wants in combinations(range(len(fitting)), size)
            for things in permutations(range(5), size)
            if all(t in fitting[w] for w, t in zip(wants, things, strict=True))
        ),
        default=0,
    )
    assert len(matched) == most


def test_a_thousand_chained_wants_do_not_overflow_the_stack():
    # Each want takes what the one before it held, so that the last one moves all.
    fitting = [[n, n + 1] for n in range(1500)] + [[0]]
    assert len(match_distinct(fitting)) == 1501


def test_a_call_stands_for_one_expected_entry_only():
    assert score_of(["A"], [{"tool": "A"}, {"tool": "A"}]) == 0.0
    assert score_of(["A", "A"], [{"tool": "A"}, {"tool": "A"}]) == 1.0
    assert score_of(["A"], [{"tool": "A"}, {"tool": "A"}], mode="any_order") == 0.5


def test_an_open_entry_does_not_take_the_only_call_of_a_narrow_one():
    expected = [{"tool": "A"}, {"tool": "A", "args": {"x": 1}}]
    assert score_of([call("A", x=1), call("A", x=2)], expected) == 1.0


def test_any_order_counts_minimums_and_expected_entries_alike():
    found = trajectory_verdict(
        session("A", "A", "B"), mode="any_order", minimums={"A": 3}, expected=[{"tool": "B"}, {"tool": "C"}]
    )
    assert found.score == pytest.approx(1 / 3)
    assert found.misses == ("A called 2 times (minimum: 3)", "expected C: not called")


def test_a_minimum_is_named_as_the_author_wrote_it_and_zero_calls_are_plural():
    found = trajectory_verdict(session(), mode="any_order", minimums={"semanticSearch": 1})
    assert found.misses == ("semanticSearch called 0 times (minimum: 1)",)


def test_tool_names_are_compared_in_any_case_and_alias_on_both_sides():
    assert score_of(["read_file", "BASH"], [{"tool": "READ"}, {"tool": "execute_command"}], mode="exact") == 1
    found = trajectory_verdict(session("read_file"), mode="any_order", minimums={"read": 1})
    assert found.outcome == "passed"


def test_the_trace_is_used_in_every_mode_when_there_are_no_messages():
    events = (
        TraceEvent(type="tool_call", name="A", input={"x": 1}),
        TraceEvent(type="message", text="A"),
        TraceEvent(type="tool_call", name="B"),
    )
    expected = [{"tool": "A", "args": {"x": 1}}, {"tool": "B"}]
    for mode in REFERENCES:
        context = session(output_messages=None, trace=events)
        assert trajectory_verdict(context, mode=mode, expected=expected).score == 1.0


def test_messages_win_over_the_trace():
    context = session("A", trace=(TraceEvent(type="tool_call", name="B"),))
    assert trajectory_verdict(context, mode="exact", expected=[{"tool": "A"}]).score == 1.0


def test_negated_without_any_record_it_is_errored_and_does_not_pass():
    found = trajectory_verdict(unrecorded(), mode="exact", expected=[{"tool": "A"}], negate=True)
    assert found.outcome == "errored"


def test_a_session_without_calls_is_not_one_without_a_record():
    assert trajectory_verdict(session(), mode="exact", expected=[]).hits == ("no tool called",)
    assert trajectory_verdict(session("A"), mode="exact", expected=[]).misses == ("extra call: A()",)
    assert trajectory_verdict(session(), mode="subset", expected=[{"tool": "A"}]).outcome == "passed"


NESTED = {"q": {"k": [1, {"a": 1}], "m": "x"}}


@pytest.mark.parametrize(
    ("how", "expected", "given_input", "fits"),
    [
        (None, {"x": 1}, {"x": 1, "y": 2}, True),
        (None, {"x": 1}, {"y": 2}, False),
        (None, {"x": 1}, {"x": 1.0}, True),
        (None, {"x": 1}, {"x": True}, False),
        (None, {"x": "1"}, {"x": 1}, False),
        (None, {"x": None}, {}, False),
        (None, {"q": {"m": "x"}}, NESTED, True),
        (None, {"q": {"k": [1, {}]}}, NESTED, True),
        (None, {"q": {"k": [1]}}, NESTED, False),
        (None, {"q": {"k": [1, {"a": 2}]}}, NESTED, False),
        (None, {"q": {}}, {"q": "text"}, False),
        (None, {}, None, True),
        (None, {"x": 1}, None, False),
        (None, {"x": 1}, "x=1", False),
        ("superset", {"x": 1}, {"x": 1, "y": 2}, True),
        ("exact", {"x": 1}, {"x": 1, "y": 2}, False),
        ("exact", {"x": 1}, {"x": 1}, True),
        ("exact", {"q": {"m": "x"}}, NESTED, False),
        ("exact", {}, None, True),
        ("subset", {"x": 1, "y": 2}, {"x": 1}, True),
        ("subset", {"x": 1, "y": 2}, {}, True),
        ("subset", {"x": 1}, {"x": 1, "z": 3}, False),
        ("subset", {"x": 1, "y": 2}, {"x": 2}, False),
        ("subset", {"q": {"m": "x", "n": 1}}, {"q": {"m": "x"}}, False),
        ("ignore", {"x": 1}, {"x": 2}, True),
    ],
)
def test_args_are_matched_as_args_match_says_on_the_entry_or_the_spec(how, expected, given_input, fits):
    made = [ToolCall(tool="A", input=given_input)]
    on_entry = {"tool": "A", "args": expected} | ({"args_match": how} if how else {})
    assert score_of(made, [on_entry], mode="exact") == float(fits)
    spec_fields = {"args_match": how} if how else {}
    assert score_of(made, [{"tool": "A", "args": expected}], mode="in_order", **spec_fields) == float(fits)


def test_args_match_on_the_entry_wins_over_the_spec():
    entry = {"tool": "A", "args": {"x": 1}, "args_match": "ignore"}
    assert score_of([call("A", x=9)], [entry], args_match="exact") == 1.0


def test_args_any_accepts_every_input():
    assert score_of([call("A", x=9)], [{"tool": "A", "args": "any"}], args_match="exact") == 1.0


def test_a_call_that_took_too_long_does_not_fit():
    step = {"tool": "A", "max_duration_ms": 100}
    slow, quick = ToolCall(tool="A", duration_ms=101), ToolCall(tool="A", duration_ms=100)
    assert score_of([quick], [step]) == 1.0
    assert score_of([slow, quick], [step], mode="in_order") == 1.0
    found = trajectory_verdict(session(slow), mode="exact", expected=[step])
    assert found.misses == ("step 1, expected A: A() took 101 ms (maximum: 100)",)


def test_an_unknown_duration_is_errored_where_it_matters_only():
    step = {"tool": "A", "args": {"x": 1}, "max_duration_ms": 100}
    assert trajectory_verdict(session(call("A", x=1)), mode="exact", expected=[step]).outcome == "errored"
    assert trajectory_verdict(session(call("A", x=2)), mode="exact", expected=[step]).outcome == "failed"


@pytest.mark.parametrize(
    ("mode", "calls", "expected", "miss"),
    [
        (
            "exact",
            ["A"],
            [{"tool": "A"}, {"tool": "B"}],
            "step 2, expected B: not called, the session ended before",
        ),
        ("exact", ["B"], [{"tool": "A"}], "step 1, expected A: got B()"),
        ("exact", ["A", "B", "C"], [{"tool": "A"}], "extra calls: B(), C()"),
        ("in_order", ["A"], [{"tool": "A"}, {"tool": "B"}], "step 2, expected B: not called"),
        (
            "in_order",
            [call("A", x=2)],
            [{"tool": "A", "args": {"x": 1}}],
            "step 1, expected A(x=1): called with other input: A(x=2)",
        ),
        (
            "exact",
            [call("A", x=1, y=2)],
            [{"tool": "A", "args": {"x": 1}, "args_match": "exact"}],
            "step 1, expected A(x=1): called with other input: A(x=1, y=2) (args_match: exact)",
        ),
        ("subset", ["A", "C"], [{"tool": "A"}], "extra call: C(): not expected"),
        (
            "superset",
            ["A"],
            [{"tool": "A"}, {"tool": "A"}],
            "expected A: every such call already stands for another step",
        ),
    ],
)
def test_a_miss_says_what_was_expected_and_what_came(mode, calls, expected, miss):
    found = trajectory_verdict(session(*calls), mode=mode, expected=expected)
    assert found.misses == (miss,)


def test_many_extra_calls_are_counted_not_listed():
    found = trajectory_verdict(session(*"CDEFGHI"), mode="subset", expected=[{"tool": "A"}])
    assert len(found.misses) == 6
    assert found.misses[-1] == "extra calls: 2 more"
    found = trajectory_verdict(session(*"CDEFG"), mode="subset", expected=[{"tool": "A"}])
    assert len(found.misses) == 5
