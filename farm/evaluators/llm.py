"""Refuse to judge by an LLM: no grader is wired up yet."""

from __future__ import annotations

from typing import NoReturn

from farm.errors import EvaluatorError
from farm.evaluators.base import EvaluationContext
from farm.model.evaluator import LlmJudgeSpec, StdoutReviewSpec


def evaluate(_spec: StdoutReviewSpec | LlmJudgeSpec, _context: EvaluationContext) -> NoReturn:
    """Say that there is no verdict: guessing one would be worse."""
    raise EvaluatorError("LLM evaluators are not available in this version")
