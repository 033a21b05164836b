"""What an evaluator is to the farm: a function from a spec and a session's record to a Judgement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from farm.errors import EvaluatorError
from farm.model.base import JsonValue
from farm.model.suite import Case
from farm.model.transcript import Transcript
from farm.sessions.sandbox import Sandbox


@dataclass(frozen=True)
class Question:
    """What an evaluator asks a judge."""

    prompt: str
    answer_schema: Mapping[str, JsonValue]
    agent: str | None = None  # the judge that the author named
    model: str | None = None


@dataclass(frozen=True)
class Answer:
    """What the judge said, and who it was."""

    text: str
    agent: str
    model: str | None = None


def nobody_to_ask(_question: Question) -> Answer:
    """Stand in where no agent can be asked."""
    raise EvaluatorError("there is no agent here that could judge")


@dataclass(frozen=True)
class EvaluationContext:
    """All that an evaluator may look at."""

    case: Case
    transcript: Transcript
    files: Path  # the directory in which the case's file names resolve
    workspace: Path | None = None  # as the session left it; None for a stored transcript
    stop: threading.Event = field(default_factory=threading.Event)  # set: nobody wants the verdict any more
    sandbox: Sandbox | None = None  # what confined the session, and confines judges' programs likewise
    ask: Callable[[Question], Answer] = nobody_to_ask  # raises SessionError if the judge's session fails


@dataclass(frozen=True)
class Judgement:
    """What an evaluator found. `passed` overrides the comparison of score and passing score."""

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None
    details: dict[str, JsonValue] | None = None
    passed: bool | None = None


# Any: each evaluator takes its own spec; the registry pairs them, and a test checks that it is complete.
Evaluate: TypeAlias = Callable[[Any, EvaluationContext], Judgement]
