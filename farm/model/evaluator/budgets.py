"""Specs of evaluators that look at what a session used up."""

from typing import Literal, Self

from pydantic import model_validator

from farm.model.base import Count, NonNegativeNumber, PositiveNumber, Score, wrong
from farm.model.evaluator.base import EvaluatorBase


class LatencySpec(EvaluatorBase):
    """The session took no longer than this."""

    type: Literal["latency"] = "latency"
    threshold: PositiveNumber  # milliseconds


class CostSpec(EvaluatorBase):
    """The session cost no more than this."""

    type: Literal["cost"] = "cost"
    budget: NonNegativeNumber  # USD


class TokenUsageSpec(EvaluatorBase):
    """The session used no more tokens than this."""

    type: Literal["token_usage"] = "token_usage"
    max_total: Count | None = None  # input and output
    max_input: Count | None = None  # what came from a cache included
    max_output: Count | None = None  # what was answered

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        if self.max_total is None and self.max_input is None and self.max_output is None:
            raise wrong('needs at least one of "max_total", "max_input" and "max_output"')
        return self


class ExecutionMetricsSpec(EvaluatorBase):
    """The session kept within several budgets at once; the score is the share that it kept."""

    type: Literal["execution_metrics"] = "execution_metrics"
    max_tool_calls: Count | None = None  # of all tools
    max_llm_calls: Count | None = None  # answers of the model
    max_tokens: Count | None = None  # input and output
    max_cost_usd: NonNegativeNumber | None = None  # of the session
    max_duration_ms: PositiveNumber | None = None  # of the session
    target_exploration_ratio: Score | None = None  # share of read-only tool calls
    exploration_tolerance: Score = 0.2  # how far the ratio may be off

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        budgets = ExecutionMetricsSpec.model_fields.keys() - EvaluatorBase.model_fields.keys()
        if all(getattr(self, budget) is None for budget in budgets - {"exploration_tolerance"}):
            raise wrong("needs at least one budget, such as max_tool_calls")
        return self
