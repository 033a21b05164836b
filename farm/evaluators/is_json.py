"""Judge whether the session's final text is JSON, and of the right shape."""

from __future__ import annotations

from itertools import islice
from typing import Any

from pydantic_core import from_json

from farm.errors import EvaluatorError
from farm.evaluators.base import EvaluationContext, Judgement
from farm.evaluators.wording import printable, quoted, shortened
from farm.model.evaluator import IsJsonSpec

ERRORS_SHOWN = 10
FENCE = "```"


class NotJsonError(ValueError):
    """A text is not JSON; says why."""


def evaluate(spec: IsJsonSpec, context: EvaluationContext) -> Judgement:
    """The text as a whole is JSON: what would break its consumer, such as a code fence, fails."""
    validator = None if spec.json_schema is None else _validator(spec.json_schema)
    text = context.transcript.final_text
    try:
        value = parse_json(text)
    except NotJsonError as error:
        fenced = ": it is wrapped in a code fence" if text.strip().startswith(FENCE) else ""
        return Judgement(0.0, misses=(f"not JSON{fenced}: {error}", f"seen: {quoted(text.strip(), 120)}"))
    if validator is None:
        return Judgement(1.0, hits=("is JSON",))
    errors = list(islice(validator.iter_errors(value), ERRORS_SHOWN + 1))
    if not errors:
        return Judgement(1.0, hits=("is JSON", "valid against the schema"))
    misses = [
        f"{_pointer(error.instance_path)}: {shortened(error.message)}" for error in errors[:ERRORS_SHOWN]
    ]
    if len(errors) > ERRORS_SHOWN:
        misses.append("and more")
    return Judgement(0.0, hits=("is JSON",), misses=tuple(misses))


def parse_json(text: str | bytes) -> Any:
    """Parse strict JSON (no NaN, no lone surrogates, nested at most 200 deep), or raise NotJsonError."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        # Not json.loads: it takes NaN, and a hostile `[[[[…` ends in a RecursionError.
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise NotJsonError(printable(str(error))) from None


def _validator(schema: dict[str, Any] | bool) -> Any:
    import jsonschema_rs  # not at the top: a session without schemas need not pay for it

    try:
        # A schema must not reach for the network, and its patterns must not hang a worker.
        return jsonschema_rs.validator_for(
            schema, offline=True, pattern_options=jsonschema_rs.RegexOptions(), validate_formats=True
        )
    except ValueError as error:
        reason = getattr(error, "message", None) or str(error)
        raise EvaluatorError(f"the schema is no valid JSON Schema: {shortened(reason, 300)}") from None


def _pointer(path: list[str | int]) -> str:
    if not path:
        return "the whole value"
    return shortened("".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path))
