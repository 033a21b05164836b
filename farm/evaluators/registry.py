"""Turn an evaluator's spec and a session's record into a Verdict, whatever happens on the way."""

from __future__ import annotations

import logging

from farm.errors import EvaluatorError, FarmError
from farm.evaluators import (
    budgets,
    code_judge,
    composite,
    field_accuracy,
    files,
    is_json,
    llm,
    text,
    tool_calls,
    tool_trajectory,
)
from farm.evaluators.base import Evaluate, EvaluationContext, Judgement
from farm.evaluators.wording import listed, printable, quoted
from farm.model.evaluator import EvaluatorSpec, ToolCallSpec
from farm.model.verdict import Verdict

EVALUATORS: dict[str, Evaluate] = {
    "tool_call": tool_calls.evaluate,
    "stdout_review": llm.evaluate_review,
    "tool_trajectory": tool_trajectory.evaluate,
    "llm_judge": llm.evaluate_judge,
    "code_judge": code_judge.evaluate,
    "composite": composite.evaluate,
    "field_accuracy": field_accuracy.evaluate,
    "contains": text.evaluate_contains,
    "icontains": text.evaluate_contains,
    "contains_any": text.evaluate_contains_several,
    "icontains_any": text.evaluate_contains_several,
    "contains_all": text.evaluate_contains_several,
    "icontains_all": text.evaluate_contains_several,
    "equals": text.evaluate_equals,
    "regex": text.evaluate_regex,
    "starts_with": text.evaluate_affix,
    "ends_with": text.evaluate_affix,
    "is_json": is_json.evaluate,
    "file_exists": files.evaluate_exists,
    "file_contains": files.evaluate_contains,
    "files_changed": files.evaluate_changed,
    "latency": budgets.evaluate_latency,
    "cost": budgets.evaluate_cost,
    "token_usage": budgets.evaluate_token_usage,
    "execution_metrics": budgets.evaluate_execution_metrics,
}

# 0.8 summed up from tenths is 0.7999999999999999: rounding must not fail a case.
TOLERANCE = 1e-9

logger = logging.getLogger("farm.evaluators")


def judge(spec: EvaluatorSpec, context: EvaluationContext) -> Verdict:
    """Give the evaluator's verdict. One that could not be reached is errored, never failed."""
    try:
        judgement = EVALUATORS[spec.type](spec, context)
        score = _checked_score(judgement.score)
    except FarmError as error:
        return _errored(spec, str(error))
    except Exception as error:
        logger.exception("evaluator %s broke on case %s", spec.type, context.case.id)
        return _errored(spec, printable(f"a bug in the evaluator: {type(error).__name__}: {error}"))
    return _judged(spec, judgement, score)


def _checked_score(score: float) -> float:
    # Not `score < 0 or score > 1`: NaN must not get through.
    if not -TOLERANCE <= score <= 1 + TOLERANCE:
        raise EvaluatorError(f"the evaluator gave the score {score}, which is not between 0 and 1")
    return min(max(score, 0.0), 1.0)


def _judged(spec: EvaluatorSpec, judgement: Judgement, score: float) -> Verdict:
    passed = judgement.passed if judgement.passed is not None else score >= spec.passing_score - TOLERANCE
    hits, misses = judgement.hits, judgement.misses
    if spec.negate:
        passed, score, hits, misses = not passed, 1 - score, misses, hits
    if isinstance(spec.required, float):
        passed = score >= spec.required - TOLERANCE
    return Verdict(
        name=_name(spec),
        type=spec.type,
        outcome="passed" if passed else "failed",
        score=score,
        weight=spec.weight,
        required=spec.required is not False,
        hits=hits,
        misses=misses,
        reasoning=judgement.reasoning,
        details=judgement.details,
    )


def _errored(spec: EvaluatorSpec, reasoning: str) -> Verdict:
    return Verdict(
        name=_name(spec),
        type=spec.type,
        outcome="errored",
        weight=spec.weight,
        required=spec.required is not False,
        reasoning=reasoning,
    )


def _name(spec: EvaluatorSpec) -> str:
    if spec.name is not None:
        return spec.name
    return f"not: {_default_name(spec)}" if spec.negate else _default_name(spec)


def _default_name(spec: EvaluatorSpec) -> str:
    if isinstance(spec, ToolCallSpec):
        return tool_calls.default_name(spec)
    # What it looks for tells two evaluators of one kind apart.
    about = getattr(spec, "path", None) or getattr(spec, "value", None)
    if about is None:
        return spec.type
    return f"{spec.type} {quoted(about, 40) if isinstance(about, str) else listed(about, quoted, 3)}"
