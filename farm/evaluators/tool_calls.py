"""Judge which calls of a tool a session made: how many, in what order, with what input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from farm.errors import EvaluatorError
from farm.evaluators.base import EvaluationContext, Judgement
from farm.evaluators.facts import Fact, all_must_hold, hit, miss
from farm.evaluators.wording import (
    call_text,
    listed,
    param_text,
    printable,
    shortened,
    times,
    tool_text,
    value_text,
)
from farm.model.evaluator import Params, ToolCallSpec
from farm.model.messages import ToolCall
from farm.model.patterns import parameter_matches, text_of
from farm.model.tool_names import canonical_tool_name, tool_key
from farm.model.transcript import Transcript


def evaluate(spec: ToolCallSpec, context: EvaluationContext) -> Judgement:
    """Check every constraint of the assertion; report all that fail, with the calls that were seen."""
    calls = recorded_calls(context.transcript)
    of_tool = _positions(calls, spec.tool)
    such = [at for at in of_tool if _input_matches(spec.params, calls[at])]
    judgement = all_must_hold(
        [
            *_count_facts(spec, len(such)),
            *_order_facts(spec, such, calls),
            *_input_facts(spec, [calls[at] for at in of_tool]),
        ]
    )
    if not judgement.misses:
        return judgement
    return replace(judgement, misses=(*judgement.misses, _seen(spec, such, calls)))


def recorded_calls(transcript: Transcript) -> list[ToolCall]:
    """Give the session's tool calls in order; no record of them is not the same as no calls."""
    if transcript.output_messages is None and transcript.events() is None:
        raise EvaluatorError("the agent left no record of its tool calls")
    return list(transcript.tool_calls())


def default_name(spec: ToolCallSpec) -> str:
    """Name an assertion that its author did not: `Bash not called (command=rm*)`."""
    order = [f"after {canonical_tool_name(spec.called_after)}"] if spec.called_after else []
    order += [f"before {canonical_tool_name(spec.called_before)}"] if spec.called_before else []
    if spec.called is False:
        phrases = [" ".join(["not called", " or ".join(order)]).rstrip()]
    else:
        bounds = (("", spec.call_count), ("at least ", spec.min_calls), ("at most ", spec.max_calls))
        phrases = [f"called {words}{times(bound)}" for words, bound in bounds if bound is not None]
        phrases += order
        phrases += [f"{which}{_in_brackets(params)}" for which, _, params in _certain_calls(spec)]
    name = f"{canonical_tool_name(spec.tool)} {', '.join(phrases) or 'called'}"
    return shortened(f"{name}{_in_brackets(spec.params)}", 80)


def _in_brackets(params: Params) -> str:
    return f" ({', '.join(f'{key}={text_of(pattern)}' for key, pattern in params.items())})" if params else ""


def _positions(calls: Sequence[ToolCall], tool: str) -> list[int]:
    key = tool_key(tool)
    return [at for at, call in enumerate(calls) if tool_key(call.tool) == key]


def _input_matches(params: Params, call: ToolCall) -> bool:
    if not params:
        return True
    given = call.input
    return isinstance(given, Mapping) and all(
        name in given and parameter_matches(pattern, given[name]) for name, pattern in params.items()
    )


def _subject(spec: ToolCallSpec) -> str:
    params = list(spec.params.items())
    return f"{tool_text(spec.tool)} with {listed(params, param_text)}" if params else tool_text(spec.tool)


def _count_facts(spec: ToolCallSpec, count: int) -> Iterator[Fact]:
    called = f"{_subject(spec)} called {times(count)}" if count else f"{_subject(spec)} not called"
    ordered = spec.called_after is not None or spec.called_before is not None
    bounded = any(bound is not None for bound in (spec.call_count, spec.min_calls, spec.max_calls))
    if spec.called is False:
        if not ordered:  # else only calls on the wrong side of the other tool are forbidden
            yield Fact(count == 0, f"{called} (must not be)" if count else called)
    elif spec.called or not bounded:
        yield Fact(count > 0, called)
    if spec.call_count is not None:
        yield Fact(count == spec.call_count, f"{called} (expected: {spec.call_count})")
    if spec.min_calls is not None:
        yield Fact(count >= spec.min_calls, f"{called} (minimum: {spec.min_calls})")
    if spec.max_calls is not None:
        yield Fact(count <= spec.max_calls, f"{called} (maximum: {spec.max_calls})")


def _order_facts(spec: ToolCallSpec, such: Sequence[int], calls: Sequence[ToolCall]) -> Iterator[Fact]:
    for word, other in (("after", spec.called_after), ("before", spec.called_before)):
        if other is None:
            continue
        others = _positions(calls, other)
        if word == "after":
            found = bool(others) and any(at > others[0] for at in such)
        else:
            found = bool(others) and any(at < others[-1] for at in such)
        order = f"called {word} {tool_text(other)}"
        if spec.called is False:
            words = f"{_subject(spec)} {order} (must not be)" if found else f"{_subject(spec)} not {order}"
            yield Fact(not found, words)
        else:
            yield Fact(found, f"{_subject(spec)} {'' if found else 'not '}{order}")


def _input_facts(spec: ToolCallSpec, of_tool: Sequence[ToolCall]) -> Iterator[Fact]:
    for which, index, params in _certain_calls(spec):
        at = max(len(of_tool) - 1, 0) if index is None else index
        label = f"{which} of {tool_text(spec.tool)}"
        if at >= len(of_tool):
            yield miss(f"{label} does not exist (called {times(len(of_tool))})")
            continue
        if not params:
            yield hit(f"{label} exists")
        for name, pattern in params.items():
            yield _parameter_fact(label, name, pattern, of_tool[at])


def _certain_calls(spec: ToolCallSpec) -> Iterator[tuple[str, int | None, Params]]:
    """Name the calls of which the author expects parameters, with their index; None is the last."""
    for number, params in sorted(spec.nth_call_params.items()):
        yield f"call {number}", number - 1, params
    if spec.first_call_params is not None:
        yield "first call", 0, spec.first_call_params
    if spec.last_call_params is not None:
        yield "last call", None, spec.last_call_params


def _parameter_fact(label: str, name: str, pattern: object, call: ToolCall) -> Fact:
    if not isinstance(call.input, Mapping) or name not in call.input:
        return miss(f"{label}: {printable(name)} is missing, expected {value_text(pattern)}")
    value = call.input[name]
    holds = parameter_matches(pattern, value)
    verb = "matches" if holds else "does not match"
    return Fact(holds, f"{label}: {printable(name)}={value_text(value)} {verb} {value_text(pattern)}")


def _seen(spec: ToolCallSpec, such: Sequence[int], calls: Sequence[ToolCall]) -> str:
    """Show the calls that a reader of a failure wants: the forbidden ones, else those of the tools named."""
    others = [other for other in (spec.called_after, spec.called_before) if other is not None]
    if spec.called is False and not others:
        concerned = [calls[at] for at in such]
    else:
        keys = {tool_key(name) for name in (spec.tool, *others)}
        concerned = [call for call in calls if tool_key(call.tool) in keys]
    if concerned:
        return f"seen: {listed(concerned, call_text)}"
    if not calls:
        return "seen: no tool calls"
    tools = Counter(canonical_tool_name(call.tool) for call in calls)
    return (
        f"seen: only {listed(tools.most_common(), lambda tool: f'{tool_text(tool[0])} ({times(tool[1])})')}"
    )
