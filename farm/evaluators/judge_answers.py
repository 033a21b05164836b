"""Read what a judge answered, and turn it into a Judgement. Nothing that is not as asked is guessed at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from farm.evaluators.base import Judgement
from farm.evaluators.is_json import NotJsonError, parse_json
from farm.evaluators.judge_prompt import is_scored, rubric_key
from farm.evaluators.wording import shortened
from farm.model.base import JsonValue, Model, Score
from farm.model.evaluator import Rubric
from farm.model.verdict import mean_score

REVIEW_SCALE = 10.0
RUBRIC_SCALE = 10.0
# Where a rubric is graded and the author names no lowest score: 0.8, as for a judge as a whole.
SATISFYING_SCORE = 8.0

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)\n```", re.DOTALL)

M = TypeVar("M", bound=Model)
Words = Annotated[str, Field(strict=True)]


class UnusableAnswerError(ValueError):
    """The judge's answer is not what it was asked for; says why, in words that are safe to repeat to it."""


class _AnswerModel(Model):
    model_config = ConfigDict(extra="ignore")  # a judge may say more than it was asked for


class Review(_AnswerModel):
    """The answer to a review."""

    score: Annotated[float, Field(strict=True, ge=1, le=10, allow_inf_nan=False)]
    reasoning: Words


class Grade(_AnswerModel):
    """The answer to a judge's prompt."""

    score: Score
    hits: tuple[Words, ...]
    misses: tuple[Words, ...]
    reasoning: Words


class Check(_AnswerModel):
    """What a judge says of a rubric that is satisfied or not."""

    satisfied: Annotated[bool, Field(strict=True)]
    reasoning: Words


class RubricGrade(_AnswerModel):
    """What a judge says of a rubric that is graded."""

    score: Annotated[float, Field(strict=True, ge=0, le=10, allow_inf_nan=False)]
    reasoning: Words


# Without bounds: not every API takes them in a schema. They are in the prompt, and checked here.
_NUMBER: dict[str, JsonValue] = {"type": "number"}
_TEXT: dict[str, JsonValue] = {"type": "string"}
_TEXTS: dict[str, JsonValue] = {"type": "array", "items": {"type": "string"}}


def _object(**properties: JsonValue) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# The reasoning comes first: a judge is to reason and then score, not to explain a score.
REVIEW_SCHEMA = _object(reasoning=_TEXT, score=_NUMBER)
GRADE_SCHEMA = _object(reasoning=_TEXT, hits=_TEXTS, misses=_TEXTS, score=_NUMBER)


def rubrics_schema(rubrics: Sequence[Rubric]) -> dict[str, JsonValue]:
    """Ask for a grade of each rubric, by its name."""
    answers: dict[str, JsonValue] = {
        rubric_key(number): _object(reasoning=_TEXT, score=_NUMBER)
        if is_scored(rubric)
        else _object(reasoning=_TEXT, satisfied={"type": "boolean"})
        for number, rubric in enumerate(rubrics, 1)
    }
    return _object(**answers)


def read_review(text: str) -> Judgement:
    """Read the answer to a review."""
    review = _validated(Review, _parse(text))
    return Judgement(review.score / REVIEW_SCALE, reasoning=review.reasoning)


def read_grade(text: str) -> Judgement:
    """Read the answer to a judge's prompt."""
    grade = _validated(Grade, _parse(text))
    return Judgement(grade.score, grade.hits, grade.misses, grade.reasoning)


def read_rubrics(text: str, rubrics: Sequence[Rubric]) -> Judgement:
    """Read the grades of rubrics: their weighted mean, or 0 if a required one is not satisfied."""
    answer = _parse(text)
    if not isinstance(answer, dict):
        raise UnusableAnswerError("it is not a JSON object")
    graded = [
        _GradedRubric(rubric, number, answer.get(rubric_key(number)))
        for number, rubric in enumerate(rubrics, 1)
    ]
    score = mean_score((one.score, one.rubric.weight) for one in graded)
    assert score is not None  # the spec sees to it that some rubric has a weight
    gates = [one.name for one in graded if one.is_gate and not one.holds]
    reasons = [f"{one.name}: {one.reasoning}" for one in graded if one.reasoning]
    if gates:
        reasons.insert(0, f"required, and not satisfied: {', '.join(gates)}")
    return Judgement(
        score=0.0 if gates else score,
        hits=tuple(one.words for one in graded if one.holds),
        misses=tuple(f"{one.words}: {one.reasoning}" for one in graded if not one.holds),
        reasoning="\n".join(reasons),
        details={"rubrics": [one.details() for one in graded]},
    )


class _GradedRubric:
    """One rubric, and what the judge said of it."""

    def __init__(self, rubric: Rubric, number: int, answer: Any) -> None:
        self.rubric = rubric
        self.name = rubric.id or (shortened(rubric.outcome, 60) if rubric.outcome else rubric_key(number))
        self.words = rubric.outcome or self.name
        self.is_gate = rubric.required or rubric.required_min_score is not None
        where = rubric_key(number)
        if is_scored(rubric):
            grade = _validated(RubricGrade, answer, where)
            lowest = SATISFYING_SCORE if rubric.required_min_score is None else rubric.required_min_score
            self.score, self.holds = grade.score / RUBRIC_SCALE, grade.score >= lowest
            self.reasoning = grade.reasoning
            self.words = f"{self.words} (score {grade.score:g} of 10, minimum: {lowest:g})"
        else:
            check = _validated(Check, answer, where)
            self.score, self.holds, self.reasoning = float(check.satisfied), check.satisfied, check.reasoning

    def details(self) -> dict[str, JsonValue]:
        """Give what a report keeps of it."""
        return {
            "id": self.name,
            "score": self.score,
            "weight": self.rubric.weight,
            "satisfied": self.holds,
            "required": self.is_gate,
            "reasoning": self.reasoning,
        }


def _parse(text: str) -> Any:
    """Read an answer that is JSON, or a code block of it and nothing else.

    A block among words is no answer: it may be what the judge quotes of the agent's.
    """
    answer = text.strip()
    block = _FENCED.fullmatch(answer)
    try:
        return parse_json(block[1] if block else answer)
    except NotJsonError as error:
        raise UnusableAnswerError(f"it is not JSON and nothing else: {shortened(str(error))}") from None


def _validated(model: type[M], data: Any, where: str = "") -> M:
    if not isinstance(data, dict):
        raise UnusableAnswerError(f"{where or 'it'} is not a JSON object")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        wrongs = [
            f"{'.'.join(map(str, (*([where] if where else []), *detail['loc'])))}: {detail['msg']}"
            for detail in error.errors(include_url=False, include_input=False)
        ]
        raise UnusableAnswerError(shortened("; ".join(wrongs), 300)) from None
