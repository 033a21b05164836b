"""What is submitted: a suite of cases, the same for both file dialects."""

from typing import Annotated, Literal

from pydantic import Field

from farm.model.agent import DEFAULT_AGENT, Isolation, ScriptStep
from farm.model.base import JsonValue, Model, PositiveCount
from farm.model.evaluator import EvaluatorSpec
from farm.model.messages import Message, content_text


class Rate(Model):
    """The share of trials that must pass."""

    rate: Annotated[float, Field(strict=True, gt=0, le=1)]  # such as 0.8


class Trials(Model):
    """How often a case is repeated on purpose, and how many trials must pass."""

    count: Annotated[PositiveCount, Field(le=1000)] = 1  # how often
    policy: Literal["all", "any"] | Rate = "all"  # how many must pass


ONE_TRIAL = Trials.model_construct()


class Case(Model):
    """One thing to test. Portable: whatever it refers to by path is relative to the suite root."""

    id: str
    name: str
    file: str
    line: int = 1
    input_messages: tuple[Message, ...]
    expected_messages: tuple[Message, ...] = ()
    expected_outcome: str | None = None
    evaluators: tuple[EvaluatorSpec, ...]
    agent: str = DEFAULT_AGENT
    model: str | None = None
    workspace: str | None = None  # a directory relative to the suite root; may lie outside it
    setup: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    isolation: Isolation | None = None
    network: bool | None = None
    trials: Trials = ONE_TRIAL
    tags: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    weight: float = 1.0
    skip: str | None = None
    max_cost_usd: float | None = None
    max_turns: int | None = None
    replay: str | None = None
    script: tuple[ScriptStep, ...] | None = None
    conversation_id: str | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    files: tuple[str, ...] = ()  # all that it refers to by path, under the suite root

    @property
    def question(self) -> str:
        """What the agent is asked: the text of the user's messages."""
        return "\n\n".join(
            content_text(message.content) for message in self.input_messages if message.role == "user"
        )

    @property
    def reference_answer(self) -> str | None:
        """What the agent should answer: the text of the last expected message."""
        if not self.expected_messages:
            return None
        return content_text(self.expected_messages[-1].content)


class SkippedFile(Model):
    """A file that discovery looked into and left out, and why."""

    file: str
    reason: str


class Suite(Model):
    """All that was submitted together."""

    name: str
    root: str  # absolute, on the machine that loaded it
    cases: tuple[Case, ...]
    test_files: tuple[str, ...] = ()  # relative to the root: kept out of workspaces
    skipped_files: tuple[SkippedFile, ...] = ()
