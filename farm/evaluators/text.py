"""Judge the session's final text."""

from __future__ import annotations

from farm.evaluators.base import EvaluationContext, Judgement
from farm.evaluators.facts import Fact, all_must_hold
from farm.evaluators.wording import quoted, shortened
from farm.model.evaluator import AffixSpec, ContainsSeveralSpec, ContainsSpec, EqualsSpec, RegexSpec
from farm.model.patterns import regex_found

EXCERPT = 120


def evaluate_contains(spec: ContainsSpec, context: EvaluationContext) -> Judgement:
    """The text contains a text."""
    text = context.transcript.final_text
    found = _contains(text, spec.value, ignore_case=spec.type.startswith("i"))
    return _judged(found, f"contains {quoted(spec.value)}", f"does not contain {quoted(spec.value)}", text)


def evaluate_contains_several(spec: ContainsSeveralSpec, context: EvaluationContext) -> Judgement:
    """The text contains any, or all, of several texts."""
    text = context.transcript.final_text
    found = [_contains(text, value, ignore_case=spec.type.startswith("i")) for value in spec.value]
    if spec.type.endswith("_any"):
        hits = [f"contains {quoted(value)}" for value, holds in zip(spec.value, found, strict=True) if holds]
        several = ", ".join(quoted(value) for value in spec.value)
        return _judged(any(found), "; ".join(hits), f"contains none of {several}", text)
    judgement = all_must_hold(
        Fact(holds, f"{'contains' if holds else 'does not contain'} {quoted(value)}")
        for value, holds in zip(spec.value, found, strict=True)
    )
    return judgement if all(found) else _with_excerpt(judgement, text)


def evaluate_equals(spec: EqualsSpec, context: EvaluationContext) -> Judgement:
    """The text is this text, but for white space around it."""
    text = context.transcript.final_text
    equal = text.strip() == spec.value.strip()
    value = quoted(spec.value.strip())
    return _judged(equal, f"equals {value}", f"does not equal {value}", text)


def evaluate_regex(spec: RegexSpec, context: EvaluationContext) -> Judgement:
    """A regular expression is found in the text."""
    text = context.transcript.final_text
    found = regex_found(spec.value, text)
    return _judged(found, f"matches {quoted(spec.value)}", f"does not match {quoted(spec.value)}", text)


def evaluate_affix(spec: AffixSpec, context: EvaluationContext) -> Judgement:
    """The text, but for white space around it, starts or ends with a text."""
    # Only the outer side is stripped: "Hello " must not match "Hellos". And every text starts with
    # nothing: white space alone proves nothing, so it never holds.
    text, value = context.transcript.final_text, quoted(spec.value)
    if spec.type == "starts_with":
        start = spec.value.lstrip()
        holds = bool(start) and text.lstrip().startswith(start)
        return _judged(holds, f"starts with {value}", f"does not start with {value}", text)
    end = spec.value.rstrip()
    holds = bool(end) and text.rstrip().endswith(end)
    return _judged(holds, f"ends with {value}", f"does not end with {value}", text)


def _contains(text: str, value: str, *, ignore_case: bool) -> bool:
    return value.casefold() in text.casefold() if ignore_case else value in text


def _judged(holds: bool, hit: str, miss: str, text: str) -> Judgement:
    judgement = all_must_hold([Fact(holds, hit if holds else miss)])
    return judgement if holds else _with_excerpt(judgement, text)


def _with_excerpt(judgement: Judgement, text: str) -> Judgement:
    seen = f'seen: "{shortened(text.strip(), EXCERPT)}"' if text.strip() else "seen: an empty text"
    return Judgement(judgement.score, judgement.hits, (*judgement.misses, seen))
