"""What authors can ask of a session: one spec a kind of evaluator, a tagged union on `type`."""

from typing import Annotated, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import Field, model_validator

from farm.model.base import Model, NonNegativeNumber, Score, wrong
from farm.model.evaluator.answers import (
    AccurateField,
    AffixSpec,
    ContainsSeveralSpec,
    ContainsSpec,
    EqualsSpec,
    FieldAccuracySpec,
    IsJsonSpec,
    RegexSpec,
)
from farm.model.evaluator.base import EvaluatorBase, OneOrMoreTexts, Params
from farm.model.evaluator.budgets import CostSpec, ExecutionMetricsSpec, LatencySpec, TokenUsageSpec
from farm.model.evaluator.judges import CodeJudgeSpec, LlmJudgeSpec, Rubric, StdoutReviewSpec
from farm.model.evaluator.tools import ExpectedToolCall, ToolCallSpec, ToolTrajectorySpec
from farm.model.evaluator.workspaces import FileContainsSpec, FileExistsSpec, FilesChangedSpec

__all__ = [
    "SPECS",
    "SPEC_BY_TYPE",
    "TYPE_ALIASES",
    "AccurateField",
    "AffixSpec",
    "CodeJudgeSpec",
    "CompositeSpec",
    "ContainsSeveralSpec",
    "ContainsSpec",
    "CostSpec",
    "EqualsSpec",
    "EvaluatorBase",
    "EvaluatorSpec",
    "ExecutionMetricsSpec",
    "ExpectedToolCall",
    "FieldAccuracySpec",
    "FileContainsSpec",
    "FileExistsSpec",
    "FilesChangedSpec",
    "IsJsonSpec",
    "LatencySpec",
    "LlmJudgeSpec",
    "OneOrMoreTexts",
    "Params",
    "RegexSpec",
    "Rubric",
    "StdoutReviewSpec",
    "Threshold",
    "TokenUsageSpec",
    "ToolCallSpec",
    "ToolTrajectorySpec",
    "WeightedAverage",
]


class WeightedAverage(Model):
    """The members' weighted mean."""

    type: Literal["weighted_average"] = "weighted_average"
    weights: dict[str, NonNegativeNumber] = {}  # by member name; wins over the members' own


class Threshold(Model):
    """The share of members that pass must reach a threshold."""

    type: Literal["threshold"] = "threshold"
    threshold: Score  # the share that must pass


Aggregator = Annotated[
    WeightedAverage | Threshold | CodeJudgeSpec | LlmJudgeSpec, Field(discriminator="type")
]


class CompositeSpec(EvaluatorBase):
    """Several evaluators that count as one."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["composite"] = "composite"
    evaluators: Annotated[tuple["EvaluatorSpec", ...], Field(min_length=1)]  # its members
    aggregator: Aggregator = Field(default_factory=WeightedAverage)  # how the members' verdicts become one

    @model_validator(mode="after")
    def _weights_name_members(self) -> Self:
        if isinstance(self.aggregator, WeightedAverage):
            names = {member.name or member.type for member in self.evaluators}
            if unknown := sorted(self.aggregator.weights.keys() - names):
                raise wrong(f'aggregator weights name "{unknown[0]}", which is no member')
        return self


EvaluatorSpec: TypeAlias = Annotated[
    ToolCallSpec
    | StdoutReviewSpec
    | ToolTrajectorySpec
    | LlmJudgeSpec
    | CodeJudgeSpec
    | CompositeSpec
    | FieldAccuracySpec
    | ContainsSpec
    | ContainsSeveralSpec
    | EqualsSpec
    | RegexSpec
    | AffixSpec
    | IsJsonSpec
    | FileExistsSpec
    | FileContainsSpec
    | FilesChangedSpec
    | LatencySpec
    | CostSpec
    | TokenUsageSpec
    | ExecutionMetricsSpec,
    Field(discriminator="type"),
]

SPECS: tuple[type[EvaluatorBase], ...] = get_args(get_args(EvaluatorSpec)[0])

SPEC_BY_TYPE: dict[str, type[EvaluatorBase]] = {
    kind: spec
    for spec in SPECS
    for kind in spec.model_fields["type"].annotation.__args__  # type: ignore[union-attr]
}

# What the origins call the same evaluators.
TYPE_ALIASES = {
    "llm_grader": "llm_judge",
    "rubrics": "llm_judge",
    "code_grader": "code_judge",
    "script": "code_judge",
}
