"""Ask an agent for a judgement: a session of its own, without tools, in an empty workspace.

A judge is an agent like any other, and so is kept apart like any other. It sees what its prompt shows it and
nothing else: neither the case's workspace with the agent's files, nor the instructions that lie in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from farm.agents.base import Session
from farm.agents.registry import AGENTS
from farm.errors import EvaluatorError, FarmError, SessionError
from farm.evaluators.base import Answer, Question
from farm.model.evaluator import CompositeSpec, EvaluatorBase, LlmJudgeSpec, StdoutReviewSpec
from farm.model.evaluator.judges import StdoutReview
from farm.model.job import JudgePlan
from farm.model.messages import Message
from farm.model.prices import Price
from farm.model.suite import Case
from farm.model.transcript import Transcript, Usage
from farm.sessions.process import check_not_stopped
from farm.sessions.sandbox import Sandbox, choose_sandbox
from farm.sessions.trial_directories import TrialDirectories
from farm.sessions.workspace import Workspace, open_workspace

_NO_FILES = Path("/nonexistent")

# What holds a judge's session: it may have to wait for its turn, and others may hear how it ended.
JudgeTurn: TypeAlias = Callable[[JudgePlan, str | None], AbstractContextManager[None]]


def at_any_time(_plan: JudgePlan, _model: str | None) -> AbstractContextManager[None]:
    """Let a judge begin at once: nobody else is known to ask the same service."""
    return nullcontext()


@dataclass
class JudgeCosts:
    """What the sessions of a trial's judges took, apart from the agent's own."""

    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    unknown_costs: int = 0

    def add(self, cost_usd: float | None, usage: Usage | None, *, is_partial: bool = False) -> None:
        """Count one session; None: nobody knows. If it is partial, there is more that nobody knows."""
        if cost_usd is None or is_partial:
            self.unknown_costs += 1
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd
        if usage is not None:
            self.input_tokens = (self.input_tokens or 0) + usage.total_input_tokens
            self.output_tokens = (self.output_tokens or 0) + usage.output_tokens

    def figures(self) -> dict[str, object]:
        """Give what a trial's report shows of it."""
        return {
            "judge_cost_usd": self.cost_usd,
            "judge_input_tokens": self.input_tokens,
            "judge_output_tokens": self.output_tokens,
            "judge_unknown_costs": self.unknown_costs,
        }


@dataclass(frozen=True)
class Judges:
    """The agents that the LLM evaluators of one trial ask."""

    case_id: str
    plans: Mapping[str, JudgePlan]  # by the agent that an evaluator names; "" for those that name none
    stop: threading.Event = field(default_factory=threading.Event)
    directories: TrialDirectories = field(default_factory=TrialDirectories)
    hidden: tuple[Path, ...] = ()  # the suite: no sandbox shows it
    files: Path = _NO_FILES  # where the files that travel with the case lie
    prices: Mapping[str, Price] = field(default_factory=dict)
    turn: JudgeTurn = at_any_time
    costs: JudgeCosts = field(default_factory=JudgeCosts)

    def ask(self, question: Question) -> Answer:
        """Let a judge answer a question; raise SessionError if its session does not end properly."""
        plan = self.plans.get(question.agent or "")
        if plan is None:
            raise EvaluatorError(f'the plan of this trial has no judge "{question.agent or "by default"}"')
        check_not_stopped(self.stop)
        model = question.model or plan.model
        with self.turn(plan, model):
            transcript = self._hold_session(plan, question, model)
        check_not_stopped(self.stop)
        return Answer(transcript.final_text, plan.agent, transcript.model)

    def _hold_session(self, plan: JudgePlan, question: Question, model: str | None) -> Transcript:
        cost_usd: float | None = None
        is_partial = False
        usage: Usage | None = None
        try:
            with open_workspace(directories=self.directories) as workspace:
                transcript = AGENTS[plan.spec.kind].run(self._session(plan, question, model, workspace))
            cost_usd, usage = transcript.cost_usd, transcript.usage
        except SessionError as error:
            cost_usd, is_partial = error.cost_usd, error.cost_is_partial
            raise SessionError(
                error.kind,
                f'agent "{plan.agent}": {error}',
                retryable=error.retryable,
                retry_after_seconds=error.retry_after_seconds,
            ) from error
        except FarmError as error:
            raise SessionError("workspace_failed", str(error), retryable=False) from error
        finally:
            self.costs.add(cost_usd, usage, is_partial=is_partial)
        return transcript

    def _session(
        self, plan: JudgePlan, question: Question, model: str | None, workspace: Workspace
    ) -> Session:
        wanted = Sandbox(
            writable=(workspace.root,), tmp=workspace.tmp, hidden=self.hidden, network=plan.network
        )
        return Session(
            case=Case(
                id=self.case_id,
                name=self.case_id,
                file="",
                input_messages=(Message(role="user", content=question.prompt),),
                evaluators=(),
            ),
            agent=plan.agent,
            spec=plan.spec,
            workspace=workspace,
            files=self.files,
            timeout_seconds=plan.timeout_seconds,
            model=model,
            stop=self.stop,
            sandbox=choose_sandbox(plan.isolation, wanted),
            tools=False,
            answer_schema=dict(question.answer_schema),
            prices=self.prices,
        )


def questions_of(evaluators: Iterable[EvaluatorBase]) -> Iterator[StdoutReview | LlmJudgeSpec]:
    """Give what of these evaluators asks a judge, members and aggregators included."""
    for spec in evaluators:
        if isinstance(spec, StdoutReviewSpec):
            yield spec.stdout
        elif isinstance(spec, LlmJudgeSpec):
            yield spec
        elif isinstance(spec, CompositeSpec):
            yield from questions_of(spec.evaluators)
            if isinstance(spec.aggregator, LlmJudgeSpec):
                yield spec.aggregator
