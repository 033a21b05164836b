"""Specs of evaluators that ask a judge: an LLM, or the author's own program."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from farm.model.base import (
    Flag,
    JsonValue,
    Model,
    NonEmptyText,
    NonNegativeNumber,
    Number,
    PositiveCount,
    PositiveNumber,
    wrong,
)
from farm.model.evaluator.base import EvaluatorBase


class StdoutReview(Model):
    """Criteria in words, graded 1 to 10 by an LLM."""

    review: NonEmptyText
    threshold: Annotated[Number, Field(ge=1, le=10)] = 7
    model: NonEmptyText | None = None
    agent: NonEmptyText | None = None


class StdoutReviewSpec(EvaluatorBase):
    """An LLM grades the agent's final text against criteria in words."""

    type: Literal["stdout_review"] = "stdout_review"
    stdout: StdoutReview


class ScoreRange(Model):
    """What a band of scores means to the judge."""

    score_range: tuple[Annotated[Number, Field(ge=0, le=10)], Annotated[Number, Field(ge=0, le=10)]]
    outcome: NonEmptyText

    @model_validator(mode="after")
    def _low_before_high(self) -> Self:
        if self.score_range[0] > self.score_range[1]:
            raise wrong("score_range must be [lowest, highest]")
        return self


class Rubric(Model):
    """One criterion of an LLM judge."""

    id: NonEmptyText | None = None
    outcome: NonEmptyText | None = None
    weight: NonNegativeNumber = 1.0
    required: Flag = False
    required_min_score: Annotated[Number, Field(ge=0, le=10)] | None = None
    score_ranges: tuple[ScoreRange, ...] = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.outcome is None and not self.score_ranges:
            raise wrong('a rubric needs "outcome" or "score_ranges"')
        return self


def _rubric_shorthand(value: Any) -> Any:
    return {"outcome": value} if isinstance(value, str) else value


RubricEntry = Annotated[Rubric, BeforeValidator(_rubric_shorthand, json_schema_input_type=str | Rubric)]


class LlmJudgeSpec(EvaluatorBase):
    """An LLM grades the answer by a prompt and rubrics."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["llm_judge"] = "llm_judge"
    prompt: NonEmptyText | None = None  # a template, in the file or beside it; without: the case's outcome
    rubrics: tuple[RubricEntry, ...] = ()
    model: NonEmptyText | None = None
    agent: NonEmptyText | None = None
    samples: PositiveCount = 1


class CodeJudgeSpec(EvaluatorBase):
    """The author's own program grades the session."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["code_judge"] = "code_judge"
    command: NonEmptyText | Annotated[tuple[str, ...], Field(min_length=1)]  # for the shell, or argv
    cwd: str | None = None  # as written: relative to the test file; once loaded: to the suite root
    files: tuple[NonEmptyText, ...] = ()  # what the judge needs, beside what its command names
    timeout_seconds: PositiveNumber = 60.0
    config: dict[str, JsonValue] = {}
