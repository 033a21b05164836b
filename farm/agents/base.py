"""What an agent is to the farm: something that turns a Session into a Transcript."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from farm.model.agent import AgentBase
from farm.model.messages import ToolCall
from farm.model.suite import Case
from farm.model.transcript import Transcript
from farm.sessions.workspace import Workspace


def ignore_tool_call(_call: ToolCall) -> None:
    """Nobody watches this session."""


@dataclass(frozen=True)
class Session:
    """One act of running an agent on a case."""

    case: Case
    agent: str  # the name that the case knows it by
    spec: AgentBase
    workspace: Workspace
    files: Path  # the directory in which the case's file names resolve
    timeout_seconds: float
    model: str | None = None
    trial: int = 1
    attempt: int = 1
    on_tool_call: Callable[[ToolCall], None] = ignore_tool_call


@dataclass(frozen=True)
class Availability:
    """Whether an agent can run on this machine, and if not, what is missing."""

    usable: bool
    version: str | None = None
    reason: str | None = None


class Agent(Protocol):
    """A kind of agent."""

    @property
    def acts(self) -> bool:
        """Whether a session works in its workspace now; a recorded one worked in another, long ago."""
        ...

    def availability(self) -> Availability:
        """Say whether this kind can run here."""
        ...

    def run(self, session: Session) -> Transcript:
        """Run the session to its proper end; raise SessionError if it ends in any other way."""
        ...
