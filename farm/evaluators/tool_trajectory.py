"""Judge the way a session took through its tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from farm.errors import EvaluatorError
from farm.evaluators.base import EvaluationContext, Judgement
from farm.evaluators.facts import Fact, all_must_hold, hit, miss, share_that_holds
from farm.evaluators.matching import match_distinct
from farm.evaluators.tool_calls import recorded_calls
from farm.evaluators.wording import call_text, listed, param_text, shortened, times, tool_text
from farm.model.evaluator import ExpectedToolCall, ToolTrajectorySpec
from farm.model.messages import ToolCall
from farm.model.patterns import same_json
from farm.model.tool_names import tool_key

NO_TRACE = "No trace available for evaluation"

Steps = Sequence[ExpectedToolCall]
Calls = Sequence[ToolCall]


def evaluate(spec: ToolTrajectorySpec, context: EvaluationContext) -> Judgement:
    """Compare the session's tool calls with the expected ones, in the spec's mode."""
    try:
        calls = recorded_calls(context.transcript)
    except EvaluatorError:
        if spec.negate:  # negated, the failure below would pass, with nothing looked at
            raise
        return Judgement(score=0.0, misses=(NO_TRACE,))
    steps = [_with_args_match(step, spec) for step in (spec.expected or ())]
    _check_durations_are_known(steps, calls)
    match spec.mode:
        case "any_order":
            return share_that_holds([*_minimum_facts(spec, calls), *_distinct_facts(steps, calls)])
        case "in_order":
            return all_must_hold(_in_order_facts(steps, calls))
        case "exact":
            return all_must_hold(_exact_facts(steps, calls))
        case "superset":
            return all_must_hold(_distinct_facts(steps, calls))
        case "subset":
            return all_must_hold(_subset_facts(steps, calls))


def _with_args_match(step: ExpectedToolCall, spec: ToolTrajectorySpec) -> ExpectedToolCall:
    return step.model_copy(update={"args_match": step.args_match or spec.args_match or "superset"})


def _minimum_facts(spec: ToolTrajectorySpec, calls: Calls) -> Iterator[Fact]:
    counts = Counter(tool_key(call.tool) for call in calls)
    for tool, minimum in spec.minimums.items():
        count = counts[tool_key(tool)]
        yield Fact(count >= minimum, f"{shortened(tool)} called {times(count)} (minimum: {minimum})")


def _distinct_facts(steps: Steps, calls: Calls) -> Iterator[Fact]:
    """Each step has a call of its own, in any order."""
    # As many candidates as there are steps are enough: the other steps can't take them all.
    fitting = [
        list(islice((at for at, call in enumerate(calls) if _fits(step, call)), len(steps))) for step in steps
    ]
    matched = match_distinct(fitting)
    for at, step in enumerate(steps):
        if at in matched:
            yield hit(f"{_step_text(step)}: {call_text(calls[matched[at]])}")
        elif fitting[at]:
            yield miss(f"{_step_text(step)}: every such call already stands for another step")
        else:
            yield miss(f"{_step_text(step)}: {_why_none_fits(step, calls)}")


def _in_order_facts(steps: Steps, calls: Calls) -> Iterator[Fact]:
    """The steps are a subsequence of the calls: taking the earliest call that fits is never wrong."""
    start = 0
    for number, step in enumerate(steps, 1):
        at = next((at for at in range(start, len(calls)) if _fits(step, calls[at])), None)
        if at is None:
            yield miss(f"step {number}, {_step_text(step)}: {_why_not_in_order(step, calls, start)}")
            return  # where the later steps belong is unknown
        yield hit(f"step {number}: {call_text(calls[at])}")
        start = at + 1


def _exact_facts(steps: Steps, calls: Calls) -> Iterator[Fact]:
    for number, step in enumerate(steps, 1):
        if number > len(calls):
            yield miss(f"step {number}, {_step_text(step)}: not called, the session ended before")
        elif _fits(step, calls[number - 1]):
            yield hit(f"step {number}: {call_text(calls[number - 1])}")
        else:
            yield miss(f"step {number}, {_step_text(step)}: {_mismatch(step, calls[number - 1])}")
    if extra := calls[len(steps) :]:
        yield miss(f"extra {'call' if len(extra) == 1 else 'calls'}: {listed(extra, call_text)}")
    elif not steps:
        yield hit("no tool called")


def _subset_facts(steps: Steps, calls: Calls) -> Iterator[Fact]:
    extra = [call for call in calls if not any(_fits(step, call) for step in steps)]
    if not extra:
        yield hit(f"nothing but the expected was called ({times(len(calls))})")
        return
    for call in extra[:5]:
        same_tool = next((step for step in steps if tool_key(step.tool) == tool_key(call.tool)), None)
        reason = "not expected" if same_tool is None else _mismatch(same_tool, call)
        yield miss(f"extra call: {call_text(call)}: {reason}")
    if len(extra) > 5:
        yield miss(f"extra calls: {len(extra) - 5} more")


def _check_durations_are_known(steps: Steps, calls: Calls) -> None:
    for step in steps:
        if step.max_duration_ms is not None:
            for call in calls:
                if call.duration_ms is None and _is_same_tool(step, call) and _args_fit(step, call):
                    raise EvaluatorError(f"the duration of {call_text(call)} was not recorded")


def _fits(step: ExpectedToolCall, call: ToolCall) -> bool:
    return _is_same_tool(step, call) and _args_fit(step, call) and _is_quick_enough(step, call)


def _is_same_tool(step: ExpectedToolCall, call: ToolCall) -> bool:
    return tool_key(step.tool) == tool_key(call.tool)


def _is_quick_enough(step: ExpectedToolCall, call: ToolCall) -> bool:
    if step.max_duration_ms is None:
        return True
    return call.duration_ms is not None and call.duration_ms <= step.max_duration_ms


def _args_fit(step: ExpectedToolCall, call: ToolCall) -> bool:
    if not isinstance(step.args, dict) or step.args_match == "ignore":
        return True
    given = {} if call.input is None else call.input
    if not isinstance(given, dict):
        return False
    if step.args_match == "exact":
        return same_json(given, step.args)
    if step.args_match == "subset":
        return all(key in step.args and same_json(value, step.args[key]) for key, value in given.items())
    return _includes(given, step.args)


def _includes(value: Any, expected: Any) -> bool:
    """A partial deep match: mappings may have more keys, all else must be equal."""
    if isinstance(expected, Mapping):
        return isinstance(value, Mapping) and all(
            key in value and _includes(value[key], part) for key, part in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(value, list) and len(value) == len(expected) and all(map(_includes, value, expected))
        )
    return same_json(value, expected)


def _step_text(step: ExpectedToolCall) -> str:
    if not isinstance(step.args, dict) or step.args_match == "ignore":
        return f"expected {tool_text(step.tool)}"
    return f"expected {tool_text(step.tool)}({listed(list(step.args.items()), param_text, 3)})"


def _mismatch(step: ExpectedToolCall, call: ToolCall) -> str:
    if not _is_same_tool(step, call):
        return f"got {call_text(call)}"
    if not _args_fit(step, call):
        how = "" if step.args_match == "superset" else f" (args_match: {step.args_match})"
        return f"called with other input: {call_text(call)}{how}"
    return f"{call_text(call)} took {call.duration_ms:g} ms (maximum: {step.max_duration_ms:g})"


def _why_none_fits(step: ExpectedToolCall, calls: Calls) -> str:
    of_tool = [call for call in calls if _is_same_tool(step, call)]
    return _mismatch(step, of_tool[0]) if of_tool else "not called"


def _why_not_in_order(step: ExpectedToolCall, calls: Calls, start: int) -> str:
    if not any(_fits(step, call) for call in calls[:start]):
        return _why_none_fits(step, calls)
    order = listed(calls, lambda call: tool_text(call.tool), 10)
    return f"not called after {call_text(calls[start - 1])}; seen in this order: {order}"
