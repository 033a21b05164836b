from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from farm.evaluators.registry import judge
from farm.model.messages import ToolCall
from farm.model.transcript import TraceEvent
from tests.unit.evaluators.builders import call, session, spec, tool_verdict, unrecorded

TOOLS = ["Read", "read_file", "READ", "Bash", "Edit", "semanticSearch"]
SAME = {"Read": "r", "read_file": "r", "READ": "r", "Bash": "b", "Edit": "e", "semanticSearch": "s"}
PATHS = [".env", "a.ts", "b/a.ts", "cat .env"]
PATTERNS = ["*.env", "a.ts", "^a", "cat|b", "*", "(", "a?ts"]

INPUTS = st.one_of(
    st.none(),
    st.just("a.ts"),
    st.fixed_dictionaries({}, optional={"file_path": st.sampled_from(PATHS), "n": st.integers(0, 1)}),
)
CALLS = st.lists(st.builds(ToolCall, tool=st.sampled_from(TOOLS), input=INPUTS), max_size=6)
PARAMS = st.fixed_dictionaries({}, optional={"file_path": st.sampled_from(PATTERNS), "n": st.integers(0, 1)})
BOUNDS = st.integers(0, 3)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "called": st.booleans(),
    "params": PARAMS,
    "call_count": BOUNDS,
    "min_calls": BOUNDS,
    "max_calls": BOUNDS,
    "called_after": st.sampled_from(TOOLS),
    "called_before": st.sampled_from(TOOLS),
    "nth_call_params": st.dictionaries(st.integers(1, 3), PARAMS, max_size=2),
    "first_call_params": PARAMS,
    "last_call_params": PARAMS,
}
# A few fields at a time: of ten constraints some other one nearly always fails, and hides a wrong one.
SPECS = st.sets(st.sampled_from(sorted(OPTIONAL)), max_size=3).flatmap(
    lambda keys: st.fixed_dictionaries(
        {"tool": st.sampled_from(TOOLS), **{key: OPTIONAL[key] for key in sorted(keys)}}
    )
)


def reference_pattern(pattern: Any, value: Any) -> bool:
    if not isinstance(pattern, str):
        return bool(value == pattern)
    if value == pattern or fnmatchcase(str(value), pattern):
        return True
    try:
        return re.search(pattern, str(value)) is not None
    except re.error:
        return False


def reference_input(params: dict[str, Any], made: ToolCall) -> bool:
    return all(
        isinstance(made.input, dict) and name in made.input and reference_pattern(pattern, made.input[name])
        for name, pattern in params.items()
    )


def reference(fields: dict[str, Any], calls: Sequence[ToolCall]) -> bool:
    """The rules of SPEC §4, each as its sentence says, over all pairs of calls."""
    numbered = list(enumerate(calls))
    of_tool = [(at, c) for at, c in numbered if SAME[c.tool] == SAME[fields["tool"]]]
    such = [at for at, c in of_tool if reference_input(fields.get("params", {}), c)]
    bounds = {"call_count", "min_calls", "max_calls"} & fields.keys()
    called = fields.get("called")
    ok = []
    pairs: dict[str, Callable[[int, int], bool]] = {
        "called_after": lambda one, other: one > other,
        "called_before": lambda one, other: one < other,
    }
    orders = {key: holds for key, holds in pairs.items() if key in fields}
    for key, holds in orders.items():
        others = [at for at, c in numbered if SAME[c.tool] == SAME[fields[key]]]
        some = any(holds(one, other) for one in such for other in others)
        ok.append(not some if called is False else some)
    if called is False and not orders:
        ok.append(len(such) == 0)
    if called is True or (called is None and not bounds):
        ok.append(len(such) >= 1)
    ok.append(len(such) == fields.get("call_count", len(such)))
    ok.append(len(such) >= fields.get("min_calls", 0))
    ok.append(len(such) <= fields.get("max_calls", 99))
    positions = dict(fields.get("nth_call_params", {}))
    expectations = [(n - 1, params) for n, params in positions.items()]
    if "first_call_params" in fields:
        expectations.append((0, fields["first_call_params"]))
    if "last_call_params" in fields:
        expectations.append((len(of_tool) - 1, fields["last_call_params"]))
    for at, params in expectations:
        ok.append(0 <= at < len(of_tool) and reference_input(params, of_tool[at][1]))
    return all(ok)


@settings(max_examples=400, deadline=None)
@given(fields=SPECS, calls=CALLS)
def test_an_assertion_agrees_with_its_rules_tried_on_all_pairs_of_calls(fields, calls):
    try:
        assertion = spec(type="tool_call", **fields)
    except ValidationError:  # a combination that no author can write
        return
    found = judge(assertion, session(*calls))
    assert (found.outcome == "passed") == reference(fields, calls)
    assert found.score == float(found.outcome == "passed")
    assert bool(found.misses) == (found.outcome == "failed")


@pytest.mark.parametrize("called", [True, False])
def test_without_any_record_of_calls_an_assertion_is_errored_either_way(called):
    found = tool_verdict(unrecorded(), "Bash", called=called)
    assert (found.outcome, found.reasoning) == ("errored", "the agent left no record of its tool calls")


def test_an_empty_record_is_a_record():
    assert tool_verdict(session(), "Bash", called=False).outcome == "passed"
    assert tool_verdict(session(output_messages=None, trace=()), "Bash", called=False).outcome == "passed"


def test_the_calls_of_a_trace_count_when_there_are_no_messages():
    context = session(output_messages=None, trace=(TraceEvent(type="tool_call", name="bash"),))
    assert tool_verdict(context, "Bash").outcome == "passed"


def test_the_calls_of_a_subagent_count():
    nested = ToolCall(tool="Read", input={"file_path": ".env"}, parent_id="toolu_1")
    context = session("Agent", nested)
    assert tool_verdict(context, "Read", called=False, params={"file_path": "*.env"}).outcome == "failed"
    assert tool_verdict(context, "Task").outcome == "passed"


def test_all_failing_constraints_are_reported_with_the_calls_that_were_seen():
    context = session(call("Read", file_path="b.md"), call("Edit", file_path="x"), call("Read"))
    found = tool_verdict(
        context,
        "read",
        call_count=1,
        max_calls=1,
        called_before="Write",
        first_call_params={"file_path": "a.*"},
        nth_call_params={4: {"file_path": "*"}},
        last_call_params={"file_path": "*"},
    )
    assert found.misses == (
        "Read called 2 times (expected: 1)",
        "Read called 2 times (maximum: 1)",
        "Read not called before Write",
        "call 4 of Read does not exist (called 2 times)",
        'first call of Read: file_path="b.md" does not match "a.*"',
        'last call of Read: file_path is missing, expected "*"',
        'seen: Read(file_path="b.md"), Read()',
    )


def test_hits_say_what_held():
    context = session(call("Read", file_path="a.md"), "Edit")
    found = tool_verdict(
        context,
        "Read",
        called_before="Edit",
        params={"file_path": "*.md"},
        first_call_params={"file_path": "a*"},
    )
    assert found.hits == (
        'Read with file_path="*.md" called 1 time',
        'Read with file_path="*.md" called before Edit',
        'first call of Read: file_path="a.md" matches "a*"',
    )


def test_a_forbidden_call_is_shown_before_all_others():
    harmless = [call("Read", file_path=f"{n}.md") for n in range(9)]
    context = session(*harmless, call("Read", file_path=".env"))
    found = tool_verdict(context, "Read", called=False, params={"file_path": "*.env"})
    assert found.misses == (
        'Read with file_path="*.env" called 1 time (must not be)',
        'seen: Read(file_path=".env")',
    )


def test_of_many_calls_a_few_are_shown_and_the_rest_counted():
    found = tool_verdict(session(*["Read"] * 12), "Read", call_count=1)
    assert found.misses[-1] == "seen: Read(), Read(), Read(), Read(), Read() and 7 more"


def test_where_the_tool_was_never_called_the_others_are_counted():
    assert tool_verdict(session("Bash", "Bash", "Edit"), "Read").misses == (
        "Read not called",
        "seen: only Bash (2 times), Edit (1 time)",
    )
    assert tool_verdict(session(), "Read").misses == ("Read not called", "seen: no tool calls")


def test_what_an_agent_wrote_is_shortened_and_escaped():
    hostile = call("Bash", command="\x1b[2J\u202e" + "x" * 5000 + "\ud800", timeout=5, background=True, d=1)
    [_, seen] = tool_verdict(session(hostile), "Bash", called=False).misses
    assert seen.startswith('seen: Bash(command="\\x1b[2J\\u202exxx')
    assert seen.endswith('…", timeout=5, background=true and 1 more)')
    assert len(seen) < 200
    assert seen.isprintable()


def test_a_hostile_tool_name_is_escaped_too():
    [_, seen] = tool_verdict(session("\x1b]0;owned\x07\ud800"), "Read").misses
    assert seen.isprintable()


@pytest.mark.parametrize("demand", [{"called": True}, {"called_after": "Bash"}, {"called_before": "Bash"}])
def test_a_call_that_is_not_allowed_can_not_be_demanded(demand):
    for bound in ("max_calls", "call_count"):
        with pytest.raises(ValidationError, match="no call is allowed"):
            spec(type="tool_call", tool="Read", **{bound: 0}, **demand)


def test_a_bound_does_not_save_an_order_from_needing_a_call():
    assert tool_verdict(session("Read"), "Write", max_calls=3, called_after="Read").outcome == "failed"
    assert (
        tool_verdict(session("Read", "Write"), "Write", max_calls=3, called_after="Read").outcome == "passed"
    )


def test_an_order_looks_only_at_calls_that_match_the_params():
    context = session(call("Write", file_path="a.ts"), "Read", call("Write", file_path="b.js"))
    assert (
        tool_verdict(context, "Write", called_after="Read", params={"file_path": "*.ts"}).outcome == "failed"
    )
    assert (
        tool_verdict(context, "Write", called_after="Read", params={"file_path": "*.js"}).outcome == "passed"
    )


def test_forbidden_after_a_tool_means_only_after_it():
    assert (
        tool_verdict(session("Bash", "Edit"), "Bash", called=False, called_after="Edit").outcome == "passed"
    )
    assert tool_verdict(session("Bash"), "Bash", called=False, called_after="Edit").outcome == "passed"
    found = tool_verdict(session("Bash", "Edit", "Bash"), "Bash", called=False, called_after="Edit")
    assert found.misses[0] == "Bash called after Edit (must not be)"
    assert (
        tool_verdict(session("Bash", "Edit"), "Bash", called=False, called_before="Edit").outcome == "failed"
    )
    assert (
        tool_verdict(session("Edit", "Bash"), "Bash", called=False, called_before="Edit").outcome == "passed"
    )


def test_specific_calls_are_counted_over_all_calls_of_the_tool_not_only_matching_ones():
    context = session(call("Read", file_path="a.md"), call("Read", file_path="b.md"))
    found = tool_verdict(
        context, "Read", params={"file_path": "b*"}, nth_call_params={2: {"file_path": "b*"}}
    )
    assert found.outcome == "passed"
