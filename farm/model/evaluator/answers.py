"""Specs of evaluators that look at the final text."""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from farm.model.base import Flag, JsonValue, Model, NonEmptyText, NonNegativeNumber
from farm.model.evaluator.base import EvaluatorBase, OneOrMoreTexts, Regex


class ContainsSpec(EvaluatorBase):
    """The final text contains a text."""

    type: Literal["contains", "icontains"]
    value: NonEmptyText


class ContainsSeveralSpec(EvaluatorBase):
    """The final text contains any, or all, of several texts."""

    type: Literal["contains_any", "icontains_any", "contains_all", "icontains_all"]
    value: OneOrMoreTexts


class EqualsSpec(EvaluatorBase):
    """The final text is this text, but for white space around it."""

    type: Literal["equals"] = "equals"
    value: str


class RegexSpec(EvaluatorBase):
    """A regular expression (RE2) is found in the final text."""

    type: Literal["regex"] = "regex"
    value: Regex


class AffixSpec(EvaluatorBase):
    """The final text starts, or ends, with a text."""

    type: Literal["starts_with", "ends_with"]
    value: NonEmptyText


class IsJsonSpec(EvaluatorBase):
    """The final text is JSON, and valid against a JSON Schema if one is given."""

    type: Literal["is_json"] = "is_json"
    model_config = ConfigDict(populate_by_name=True)

    json_schema: dict[str, JsonValue] | bool | None = Field(default=None, alias="schema")


class AccurateField(Model):
    """One field of a structured answer."""

    path: NonEmptyText  # invoice.lines[0].amount
    match: Literal["exact", "numeric_tolerance", "date"] = "exact"
    required: Flag = False
    weight: NonNegativeNumber = 1.0
    tolerance: NonNegativeNumber = 0.0
    relative: Flag = False
    formats: tuple[NonEmptyText, ...] = ()


class FieldAccuracySpec(EvaluatorBase):
    """How many fields of a structured answer agree with the expected ones."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["field_accuracy"] = "field_accuracy"
    fields: Annotated[tuple[AccurateField, ...], Field(min_length=1)]
    aggregation: Literal["weighted_average", "all_or_nothing"] = "weighted_average"
