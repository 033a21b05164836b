"""Judge what a session used against what it was allowed: time, money, tokens, calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from farm.errors import EvaluatorError
from farm.evaluators.base import EvaluationContext, Judgement
from farm.evaluators.facts import Fact, all_must_hold, miss, share_that_holds
from farm.evaluators.tool_calls import recorded_calls
from farm.model.evaluator import CostSpec, ExecutionMetricsSpec, LatencySpec, TokenUsageSpec
from farm.model.tool_names import tool_key
from farm.model.transcript import Transcript, Usage

# Tools that only look: the share of their calls is how much a session explored.
EXPLORING_TOOLS = frozenset(
    map(
        tool_key,
        ("Read", "Glob", "Grep", "LS", "WebFetch", "WebSearch", "NotebookRead", "TodoRead", "ToolSearch"),
    )
)

T = TypeVar("T")


def evaluate_latency(spec: LatencySpec, context: EvaluationContext) -> Judgement:
    """The session took no longer than the threshold."""
    return all_must_hold([_duration_fact(context.transcript, spec.threshold)])


def evaluate_cost(spec: CostSpec, context: EvaluationContext) -> Judgement:
    """The session cost no more than the budget."""
    return all_must_hold([_cost_fact(context.transcript, spec.budget)])


def evaluate_token_usage(spec: TokenUsageSpec, context: EvaluationContext) -> Judgement:
    """The session used no more tokens than each of the bounds."""
    usage = _usage(context.transcript)
    bounds = (
        ("input tokens", usage.total_input_tokens, spec.max_input),
        ("output tokens", usage.output_tokens, spec.max_output),
        ("tokens", _all_tokens(usage), spec.max_total),
    )
    return all_must_hold(_within(what, used, most) for what, used, most in bounds if most is not None)


def evaluate_execution_metrics(spec: ExecutionMetricsSpec, context: EvaluationContext) -> Judgement:
    """The share of the budgets that the session kept."""
    return share_that_holds(list(_metric_facts(spec, context.transcript)))


def _metric_facts(spec: ExecutionMetricsSpec, transcript: Transcript) -> Iterator[Fact]:
    if spec.max_tool_calls is not None:
        yield _within("tool calls", len(recorded_calls(transcript)), spec.max_tool_calls)
    if spec.max_llm_calls is not None:
        yield _within("LLM calls", _llm_calls(transcript), spec.max_llm_calls)
    if spec.max_tokens is not None:
        yield _within("tokens", _all_tokens(_usage(transcript)), spec.max_tokens)
    if spec.max_cost_usd is not None:
        yield _cost_fact(transcript, spec.max_cost_usd)
    if spec.max_duration_ms is not None:
        yield _duration_fact(transcript, spec.max_duration_ms)
    if spec.target_exploration_ratio is not None:
        yield _exploration_fact(transcript, spec.target_exploration_ratio, spec.exploration_tolerance)


def _within(what: str, used: float, most: float, unit: str = "") -> Fact:
    return Fact(used <= most, f"{used:,.10g}{unit} {what} (maximum: {most:,.10g}{unit})")


def _duration_fact(transcript: Transcript, most_ms: float) -> Fact:
    duration_ms = _recorded(transcript.duration_ms, "duration")
    return Fact(duration_ms <= most_ms, f"took {duration_ms:,.0f} ms (maximum: {most_ms:,.10g} ms)")


def _cost_fact(transcript: Transcript, most_usd: float) -> Fact:
    cost_usd = _recorded(transcript.cost_usd, "; ".join(("cost", *transcript.warnings)))
    return Fact(cost_usd <= most_usd + 1e-9, f"cost ${cost_usd:,.10g} (maximum: ${most_usd:,.10g})")


def _exploration_fact(transcript: Transcript, target: float, tolerance: float) -> Fact:
    calls = recorded_calls(transcript)
    expected = f"(expected: {target:g} ± {tolerance:g})"
    if not calls:
        return miss(f"no tool calls, so no exploration ratio {expected}")
    ratio = sum(tool_key(call.tool) in EXPLORING_TOOLS for call in calls) / len(calls)
    # Tenths do not add up in binary: 0.8 - 0.6 is more than 0.2.
    return Fact(abs(ratio - target) <= tolerance + 1e-9, f"exploration ratio {ratio:.2f} {expected}")


def _llm_calls(transcript: Transcript) -> int:
    if transcript.output_messages is not None:
        return sum(message.role == "assistant" for message in transcript.output_messages)
    steps = sum(event.type == "model_step" for event in transcript.events() or ())
    return _recorded(steps or None, "number of LLM calls")


def _usage(transcript: Transcript) -> Usage:
    return _recorded(transcript.usage, "token usage")


def _all_tokens(usage: Usage) -> int:
    return usage.total_input_tokens + usage.output_tokens


def _recorded(value: T | None, what: str) -> T:
    if value is None:
        raise EvaluatorError(f"the transcript does not record the session's {what}")
    return value
