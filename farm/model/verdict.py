"""What evaluators say, and what follows from it for a trial."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from farm.model.base import JsonValue, Model

Outcome: TypeAlias = Literal["passed", "failed", "errored", "skipped", "cancelled"]


class Verdict(Model):
    """What one evaluator says of one session."""

    name: str
    type: str
    outcome: Literal["passed", "failed", "errored", "skipped"]
    score: float | None = None  # 0..1; None where no judgement was reached
    weight: float = 1.0
    required: bool = True  # an advisory verdict is shown, and can't fail the case
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None
    details: dict[str, JsonValue] | None = None


def outcome_of(verdicts: Iterable[Verdict]) -> Outcome:
    """Give a trial's outcome: a failed verdict decides; else one that was not reached leaves it open."""
    verdicts = tuple(verdicts)
    outcomes = {verdict.outcome for verdict in verdicts if verdict.required}
    if "failed" in outcomes:
        return "failed"
    # Without any verdict nothing was looked at. No file leads here; if one did, it must not pass.
    return "errored" if "errored" in outcomes or not verdicts else "passed"


def mean_score(scores_and_weights: Iterable[tuple[float | None, float]]) -> float | None:
    """Give the weighted mean of the scores that there are; None if nothing with a weight was scored."""
    scored = [(score, weight) for score, weight in scores_and_weights if score is not None and weight > 0]
    if not scored:
        return None
    return sum(score * weight for score, weight in scored) / sum(weight for _, weight in scored)
