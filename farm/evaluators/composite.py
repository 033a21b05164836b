"""Judge by several evaluators that count as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count

from farm.errors import EvaluatorError
from farm.evaluators import code_judge, llm
from farm.evaluators.base import EvaluationContext, Judgement
from farm.model.base import JsonValue
from farm.model.evaluator import CodeJudgeSpec, CompositeSpec, EvaluatorSpec, LlmJudgeSpec, Threshold
from farm.model.verdict import Verdict, mean_score


def evaluate(spec: CompositeSpec, context: EvaluationContext) -> Judgement:
    """Let every member judge, then aggregate their verdicts."""
    from farm.evaluators.registry import judge  # the registry lists this module

    verdicts = [judge(member, context) for member in spec.evaluators]
    broken = [verdict for verdict in verdicts if verdict.outcome == "errored" and verdict.required]
    if broken:
        raise EvaluatorError("; ".join(f"{verdict.name}: {verdict.reasoning}" for verdict in broken))
    judgement = _aggregate(spec, verdicts, context)
    gates = [
        verdict.name
        for member, verdict in zip(spec.evaluators, verdicts, strict=True)
        if _is_gate(member) and verdict.outcome == "failed"
    ]
    if gates:
        reason = f"required, and failed: {', '.join(gates)}"
        judgement = replace(judgement, score=0.0, passed=False, reasoning=reason)
    members: list[JsonValue] = [verdict.model_dump(mode="json") for verdict in verdicts]
    return replace(
        judgement,
        hits=(*_prefixed("hits", verdicts), *judgement.hits),
        misses=(*_prefixed("misses", verdicts), *judgement.misses),
        details={**(judgement.details or {}), "members": members},
    )


def _aggregate(spec: CompositeSpec, verdicts: Sequence[Verdict], context: EvaluationContext) -> Judgement:
    aggregator = spec.aggregator
    if isinstance(aggregator, LlmJudgeSpec):
        return llm.evaluate_judge(aggregator, context, verdicts)
    if isinstance(aggregator, CodeJudgeSpec):
        return code_judge.evaluate(aggregator, context, _by_name(verdicts))
    if isinstance(aggregator, Threshold):
        judged = [verdict for verdict in verdicts if verdict.outcome != "errored"]
        if not judged:
            raise EvaluatorError("no member reached a verdict")
        share = sum(verdict.outcome == "passed" for verdict in judged) / len(judged)
        return Judgement(share, passed=share >= aggregator.threshold - 1e-9)
    weights = [
        aggregator.weights.get(member.name or member.type, member.weight) for member in spec.evaluators
    ]
    mean = mean_score(zip((verdict.score for verdict in verdicts), weights, strict=True))
    if mean is None:
        raise EvaluatorError("no member with a weight reached a verdict")
    return Judgement(mean)


def _by_name(verdicts: Sequence[Verdict]) -> dict[str, JsonValue]:
    """Give the verdicts by name; a second of the same name is `name (2)`, so that none is lost."""
    results: dict[str, JsonValue] = {}
    for verdict in verdicts:
        names = chain([verdict.name], (f"{verdict.name} ({n})" for n in count(2)))
        results[next(name for name in names if name not in results)] = verdict.model_dump(mode="json")
    return results


def _is_gate(member: EvaluatorSpec) -> bool:
    """Say whether the author asked that this member alone can fail the composite."""
    return member.required is not None and member.required is not False


def _prefixed(field: str, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    return tuple(f"{verdict.name}: {words}" for verdict in verdicts for words in getattr(verdict, field))
