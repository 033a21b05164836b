"""Judge a structured answer field by field against the expected one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from farm.errors import EvaluatorError
from farm.evaluators.base import EvaluationContext, Judgement
from farm.evaluators.dates import parse_date
from farm.evaluators.is_json import FENCE, NotJsonError, parse_json
from farm.evaluators.wording import quoted, value_text
from farm.model.evaluator import AccurateField, FieldAccuracySpec
from farm.model.messages import content_text, is_content_part
from farm.model.patterns import same_json
from farm.model.suite import Case

_PATH_PART = re.compile(r"(?:^|(?<=.)\.)([^.\[\]]+)|\[(\d{1,9})\]")
_NUMBER = re.compile(r"[+-]?[0-9]{1,100}(\.[0-9]{1,100})?([eE][+-]?[0-9]{1,3})?")

ABSENT = object()


def evaluate(spec: FieldAccuracySpec, context: EvaluationContext) -> Judgement:
    """Compare each field; the score is the weighted share that agrees, or all or nothing."""
    expected = _expected_value(context.case)
    wanted = [(field, _wanted(field, expected)) for field in spec.fields]
    total_weight = sum(field.weight for field in spec.fields)
    if not total_weight:
        raise EvaluatorError("no field has a weight")
    try:
        candidate = _candidate_value(context.transcript.final_text)
    except NotJsonError as error:
        return Judgement(0.0, misses=(f"the answer is not JSON: {error}",))

    hits: list[str] = []
    misses: list[str] = []
    agreed = 0.0
    lacks_required = False
    for field, value in wanted:
        found = value_at(field.path, candidate)
        if found is ABSENT:
            lacks_required = lacks_required or field.required
            misses.append(f"{field.path}: missing{' (required)' if field.required else ''}")
        elif _agrees(field, value, found):
            agreed += field.weight
            hits.append(f"{field.path}: {value_text(found)}")
        else:
            misses.append(f"{field.path}: {value_text(found)}, expected {value_text(value)}")
    none = lacks_required or (spec.aggregation == "all_or_nothing" and bool(misses))
    return Judgement(0.0 if none else agreed / total_weight, tuple(hits), tuple(misses))


def value_at(path: str, value: Any) -> Any:
    """Follow `invoice.lines[0].amount` into a value; ABSENT if it leads nowhere."""
    for part in _path_parts(path):
        if isinstance(part, str):
            value = value.get(part, ABSENT) if isinstance(value, Mapping) else ABSENT
        else:
            value = value[part] if isinstance(value, list) and part < len(value) else ABSENT
    return value


def _path_parts(path: str) -> list[str | int]:
    parts: list[str | int] = []
    at = 0
    while at < len(path):
        found = _PATH_PART.match(path, at)
        if found is None:
            raise EvaluatorError(f"field path {quoted(path)} is not like invoice.lines[0].amount")
        name, index = found.groups()
        parts.append(name if index is None else int(index))
        at = found.end()
    return parts


def _expected_value(case: Case) -> Any:
    if not case.expected_messages:
        raise EvaluatorError("the case has no expected_messages to compare the fields with")
    content = case.expected_messages[-1].content
    if isinstance(content, list) and content and all(map(is_content_part, content)):
        content = content_text(content)
    if isinstance(content, str):
        try:
            return parse_json(content)
        except NotJsonError as error:
            raise EvaluatorError(f"the expected message is not JSON: {error}") from None
    if content is None:
        raise EvaluatorError("the expected message has no content to compare the fields with")
    return content


def _candidate_value(text: str) -> Any:
    """Read the answer: as a whole JSON, else prose around a single code block of JSON."""
    try:
        return parse_json(text)
    except NotJsonError:
        blocks = list(_json_blocks(text))
        if len(blocks) == 1:
            return parse_json(blocks[0])
        raise


def _json_blocks(text: str) -> Iterator[str]:
    """Give the contents of the code blocks that are marked as JSON, or not marked."""
    # By line, not by a regular expression: that takes quadratic time on fences that are never closed.
    language: str | None = None
    block: list[str] = []
    for line in text.split("\n"):
        if not line.lstrip().startswith(FENCE):
            block.append(line)
        elif language is None:
            language, block = line.strip()[len(FENCE) :].casefold(), []
        else:
            if language in ("", "json"):
                yield "\n".join(block)
            language = None


def _wanted(field: AccurateField, expected: Any) -> Any:
    """Give the expected value, after checking that it can be compared: a typo must not pass, or fail."""
    value = value_at(field.path, expected)
    if value is ABSENT:
        raise EvaluatorError(f"field {quoted(field.path)} is not in the expected message")
    if field.match == "numeric_tolerance" and _number(value) is None:
        raise EvaluatorError(f"field {quoted(field.path)}: expected {value_text(value)} is not a number")
    if field.match == "date" and parse_date(value, field.formats, or_default=True) is None:
        raise EvaluatorError(f"field {quoted(field.path)}: expected {value_text(value)} is not a date")
    return value


def _agrees(field: AccurateField, expected: Any, found: Any) -> bool:
    if field.match == "date":
        day = parse_date(found, field.formats)
        return day is not None and day == parse_date(expected, field.formats, or_default=True)
    if field.match == "exact":
        return same_json(expected, found)
    target, number = _number(expected), _number(found)
    if target is None or number is None:
        return False
    tolerance = Decimal(repr(field.tolerance)) * (abs(target) if field.relative else 1)
    return abs(number - target) <= tolerance


def _number(value: Any) -> Decimal | None:
    """Give a number, or a text that is plainly one, in decimal: 10.3 and 10.2 are 0.1 apart, not more."""
    if isinstance(value, str):
        return Decimal(value.strip()) if _NUMBER.fullmatch(value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
    return number if number.is_finite() else None
