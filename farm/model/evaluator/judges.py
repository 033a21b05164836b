"""Specs of evaluators that ask a judge: an LLM, or the author's own program."""

import re
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

# What a prompt template may put in, and what it is called elsewhere.
TEMPLATE_VARIABLES = (
    "question",
    "candidate_answer",
    "expected_outcome",
    "reference_answer",
    "input_messages",
    "output_messages",
    "expected_messages",
    "file_changes",
    "results",
)
VARIABLE_ALIASES = {
    "input": "question",
    "output": "candidate_answer",
    "answer": "candidate_answer",
    "criteria": "expected_outcome",
    "outcome": "expected_outcome",
    "expected_output": "reference_answer",
}
AGGREGATOR_VARIABLE = "results"  # the members' verdicts: a composite's judge alone has them

VARIABLE = re.compile(r"\{\{([^{}]*)\}\}")


def template_variables(template: str) -> set[str]:
    """Name the variables that a prompt template uses, each by its own name."""
    names = (written.strip() for written in VARIABLE.findall(template))
    return {VARIABLE_ALIASES.get(name, name) for name in names}


Samples = Annotated[PositiveCount, Field(le=99)]  # how often a judge is asked; the median counts


class StdoutReview(Model):
    """Criteria in words, graded 1 to 10 by an LLM."""

    review: NonEmptyText  # the criteria, in words
    threshold: Annotated[Number, Field(ge=1, le=10)] = 7  # the grade that passes
    model: NonEmptyText | None = None  # of the judge
    agent: NonEmptyText | None = None  # who judges
    samples: Samples = 1  # how often the judge is asked; the median counts


class StdoutReviewSpec(EvaluatorBase):
    """An LLM grades the agent's final text against criteria in words."""

    type: Literal["stdout_review"] = "stdout_review"
    stdout: StdoutReview  # the review


class ScoreRange(Model):
    """What a band of scores means to the judge."""

    # Lowest and highest.
    score_range: tuple[Annotated[Number, Field(ge=0, le=10)], Annotated[Number, Field(ge=0, le=10)]]
    outcome: NonEmptyText  # what such a score means

    @model_validator(mode="after")
    def _low_before_high(self) -> Self:
        if self.score_range[0] > self.score_range[1]:
            raise wrong("score_range must be [lowest, highest]")
        return self


class Rubric(Model):
    """One criterion of an LLM judge."""

    id: NonEmptyText | None = None  # what it is called in the verdict
    outcome: NonEmptyText | None = None  # the criterion, in words
    weight: NonNegativeNumber = 1.0  # share in the score
    required: Flag = False  # if it is not satisfied, the score is 0
    required_min_score: Annotated[Number, Field(ge=0, le=10)] | None = None  # graded below it, the score is 0
    score_ranges: tuple[ScoreRange, ...] = ()  # what grades from 0 to 10 mean

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
    rubrics: tuple[RubricEntry, ...] = ()  # criteria, each graded by itself
    model: NonEmptyText | None = None  # of the judge
    agent: NonEmptyText | None = None  # who judges
    samples: Samples = 1  # how often the judge is asked; the median counts

    @model_validator(mode="after")
    def _some_rubric_counts(self) -> Self:
        if self.rubrics and not any(rubric.weight for rubric in self.rubrics):
            raise wrong("no rubric has a weight above 0: there would be no score")
        return self


class CodeJudgeSpec(EvaluatorBase):
    """The author's own program grades the session."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["code_judge"] = "code_judge"
    command: NonEmptyText | Annotated[tuple[str, ...], Field(min_length=1)]  # for the shell, or argv
    cwd: str | None = None  # as written: relative to the test file; once loaded: to the suite root
    files: tuple[NonEmptyText, ...] = ()  # what the judge needs, beside what its command names
    timeout_seconds: PositiveNumber = 60.0  # of the program
    config: dict[str, JsonValue] = {}  # given to the program; every unknown key is put in as well
