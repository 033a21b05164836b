"""Specs of evaluators that look at the final text."""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from farm.model.base import Flag, JsonValue, Model, NonEmptyText, NonNegativeNumber
from farm.model.evaluator.base import EvaluatorBase, OneOrMoreTexts, Regex


class ContainsSpec(EvaluatorBase):
    """The final text contains a text."""

    type: Literal["contains", "icontains"]
    value: NonEmptyText  # the text


class ContainsSeveralSpec(EvaluatorBase):
    """The final text contains any, or all, of several texts."""

    type: Literal["contains_any", "icontains_any", "contains_all", "icontains_all"]
    value: OneOrMoreTexts  # the texts


class EqualsSpec(EvaluatorBase):
    """The final text is this text, but for white space around it."""

    type: Literal["equals"] = "equals"
    value: str  # the text


class RegexSpec(EvaluatorBase):
    """A regular expression (RE2) is found in the final text."""

    type: Literal["regex"] = "regex"
    value: Regex  # the expression


class AffixSpec(EvaluatorBase):
    """The final text starts, or ends, with a text."""

    type: Literal["starts_with", "ends_with"]
    value: NonEmptyText  # the text


class IsJsonSpec(EvaluatorBase):
    """The final text is JSON, and valid against a JSON Schema if one is given."""

    type: Literal["is_json"] = "is_json"
    model_config = ConfigDict(populate_by_name=True)

    # A JSON Schema, or the path of one.
    json_schema: dict[str, JsonValue] | bool | None = Field(default=None, alias="schema")


class AccurateField(Model):
    """One field of a structured answer."""

    path: NonEmptyText  # invoice.lines[0].amount
    match: Literal["exact", "numeric_tolerance", "date"] = "exact"  # how values are compared
    required: Flag = False  # the score is 0 if the answer lacks this field
    weight: NonNegativeNumber = 1.0  # share in the score
    tolerance: NonNegativeNumber = 0.0  # how far numbers may be apart
    relative: Flag = False  # the tolerance is a share of the expected number
    formats: tuple[NonEmptyText, ...] = ()  # how the answer writes dates, such as DD/MM/YYYY


class FieldAccuracySpec(EvaluatorBase):
    """How many fields of a structured answer agree with the expected ones."""

    passing_score: ClassVar[float] = 0.8

    type: Literal["field_accuracy"] = "field_accuracy"
    # What is compared with the expected answer.
    fields: Annotated[tuple[AccurateField, ...], Field(min_length=1)]
    # How the fields become a score.
    aggregation: Literal["weighted_average", "all_or_nothing"] = "weighted_average"
