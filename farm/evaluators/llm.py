"""Judge by an LLM: ask a judge, once or several times, and make one Judgement of what it answers."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from farm.errors import EvaluatorError, SessionError
from farm.evaluators.base import Answer, EvaluationContext, Judgement, Question
from farm.evaluators.judge_answers import (
    GRADE_SCHEMA,
    REVIEW_SCALE,
    REVIEW_SCHEMA,
    UnusableAnswerError,
    read_grade,
    read_review,
    read_rubrics,
    rubrics_schema,
)
from farm.evaluators.judge_prompt import Fence, judge_prompt, put_together, review_prompt
from farm.evaluators.wording import printable, quoted, shortened
from farm.model.base import JsonValue
from farm.model.evaluator import LlmJudgeSpec, StdoutReviewSpec
from farm.model.verdict import Verdict

# A judge that fails is asked again so often; its own program may have tried more than once each time.
ATTEMPTS = 3
# More often if it is its service that fails: a pause costs less than to run the whole session again.
SERVICE_ATTEMPTS = 5
_SERVICE_ERRORS = ("api_error", "api_overloaded", "rate_limited")
FIRST_PAUSE_SECONDS = 1.0
PAUSE_FACTOR = 4.0
LONGEST_PAUSE_SECONDS = 60.0

_TOLERANCE = 1e-9


def evaluate_review(spec: StdoutReviewSpec, context: EvaluationContext) -> Judgement:
    """Let a judge grade the agent's final text from 1 to 10; it passes at the threshold."""
    review = spec.stdout
    panel = _Panel(
        context,
        write=lambda fence: review_prompt(review, context, fence),
        schema=REVIEW_SCHEMA,
        read=read_review,
        agent=review.agent,
        model=review.model,
    )
    judgement = panel.judge(review.samples)
    passed = judgement.score >= review.threshold / REVIEW_SCALE - _TOLERANCE
    graded = f"{judgement.score * REVIEW_SCALE:.3g} of 10 (minimum: {review.threshold:g})"
    if passed:
        return replace(judgement, passed=True, hits=(graded,))
    return replace(
        judgement, passed=False, misses=(f"{graded}: {shortened(judgement.reasoning or '', 400)}",)
    )


def evaluate_judge(
    spec: LlmJudgeSpec, context: EvaluationContext, results: Sequence[Verdict] | None = None
) -> Judgement:
    """Let a judge grade by a prompt and rubrics; `results` are a composite's members to aggregate."""
    rubrics = spec.rubrics
    panel = _Panel(
        context,
        write=lambda fence: judge_prompt(spec, context, fence, results),
        schema=rubrics_schema(rubrics) if rubrics else GRADE_SCHEMA,
        read=(lambda text: read_rubrics(text, rubrics)) if rubrics else read_grade,
        agent=spec.agent,
        model=spec.model,
    )
    return panel.judge(spec.samples)


@dataclass(frozen=True)
class _Panel:
    """Asks one judge one thing, as often as it is told to."""

    context: EvaluationContext
    write: Callable[[Fence], list[str]]
    schema: dict[str, JsonValue]
    read: Callable[[str], Judgement]
    agent: str | None
    model: str | None

    def judge(self, samples: int) -> Judgement:
        """Give the median of several judgements, in the words of the one nearest to it."""
        judgements: list[Judgement] = []
        failures: list[EvaluatorError] = []
        while len(judgements) + len(failures) < samples:
            try:
                judgements.append(self._judge_once())
            except EvaluatorError as error:
                failures.append(error)
                if 2 * len(failures) >= samples:  # no majority can come through any more
                    raise
        if samples == 1:
            return judgements[0]
        scores = [judgement.score for judgement in judgements]
        median = statistics.median(scores)
        nearest = min(judgements, key=lambda judgement: abs(judgement.score - median))
        spread: dict[str, JsonValue] = {
            "asked": samples,
            "scores": list(scores),
            "min": min(scores),
            "max": max(scores),
            "stdev": statistics.pstdev(scores),
            "errors": [printable(str(failure)) for failure in failures],
        }
        return replace(nearest, score=median, details={**(nearest.details or {}), "samples": spread})

    def _judge_once(self) -> Judgement:
        complaint: str | None = None
        unusable = unanswered = 0
        while True:
            fence = Fence()  # another for each prompt: what one judge repeated tells the next agent nothing
            question = Question(
                put_together(self.write(fence), self.schema, complaint), self.schema, self.agent, self.model
            )
            try:
                answer = self.context.ask(question)
                return _with_judge(self.read(answer.text), answer, fence)
            except UnusableAnswerError as error:
                complaint = str(error)
                failure = EvaluatorError(
                    f"the judge's answer can't be used: {error}; it was {quoted(answer.text, 200)}"
                )
                unusable += 1
            except SessionError as error:
                failure = EvaluatorError(f"the judge's session failed ({error.kind}): {error}")
                if not error.retryable:
                    raise failure from error
                if error.kind == "bad_output":
                    # Not in its words: they may quote the judge, who may quote the agent.
                    complaint = "it is not as the JSON Schema asks"
                    unusable += 1
                else:
                    unanswered += 1
                    most = SERVICE_ATTEMPTS if error.kind in _SERVICE_ERRORS else ATTEMPTS
                    if unanswered >= most or self.context.stop.wait(_pause_seconds(unanswered, error)):
                        raise failure from error
            if unusable >= ATTEMPTS:
                raise failure


def _with_judge(judgement: Judgement, answer: Answer, fence: Fence) -> Judgement:
    """Note who judged, and whether it saw all that there was."""
    details: dict[str, JsonValue] = {"judge": {"agent": answer.agent, "model": answer.model}}
    if fence.left_out_characters:
        details["left_out_characters"] = fence.left_out_characters
    return replace(judgement, details={**details, **(judgement.details or {})})


def _pause_seconds(attempt: int, error: SessionError) -> float:
    """Wait longer each time, and as long as the service asks for, within reason."""
    longest = min(FIRST_PAUSE_SECONDS * PAUSE_FACTOR ** (attempt - 1), LONGEST_PAUSE_SECONDS)
    asked_for = min(error.retry_after_seconds or 0.0, LONGEST_PAUSE_SECONDS)
    return max(asked_for, random.uniform(longest / 2, longest))  # noqa: S311 — no secret
