"""What an agent is to the farm: something that turns a Session into a Transcript."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from farm.model.agent import AgentBase
from farm.model.base import JsonValue
from farm.model.messages import ToolCall
from farm.model.prices import Price
from farm.model.suite import Case
from farm.model.transcript import LogName, Transcript
from farm.sessions.process import DEFAULT_OUTPUT_LIMIT_BYTES, ProcessResult, check_not_stopped, run_process
from farm.sessions.sandbox import Sandbox
from farm.sessions.workspace import Workspace


def ignore_tool_call(_call: ToolCall) -> None:
    """Nobody watches this session."""


def keep_no_log(_name: LogName, _content: bytes) -> None:
    """Nobody will look into this session's logs."""


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
    keep_log: Callable[[LogName, bytes], None] = keep_no_log  # without secrets, however the session ended
    # Set by anybody: the session must end at once, with SessionError("stopped").
    stop: threading.Event = field(default_factory=threading.Event)
    sandbox: Sandbox | None = None  # what confines every process of the session; None: nothing does
    tools: bool = True  # False: it may only answer, as a judge does
    answer_schema: dict[str, JsonValue] | None = None  # what its final text must be, where it can be made to
    prices: Mapping[str, Price] = field(default_factory=dict)  # farm.yaml's own, by model

    def run_command(
        self,
        command: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
        author: str | Sequence[str] = (),
        on_line: Callable[[bytes], None] | None = None,
        sealed: bool = False,
    ) -> ProcessResult:
        """Run a program of the session: in its workspace, sandbox and environment, for no longer than it.

        `env` is what the agent adds; agent and case in the files win over it. `author` is the command as the
        author wrote it, without what the case puts in: what it names by an absolute path is shown.
        `on_line` is told each line of stdout as it comes. `sealed`: nothing that it starts can write to it.
        """
        result = run_process(
            command,
            cwd=self.workspace.directory,
            env=self.workspace.environment({**(env or {}), **self.spec.env, **self.case.env}),
            timeout_seconds=self.timeout_seconds,
            stdin=stdin,
            output_limit_bytes=output_limit_bytes,
            stop=self.stop,
            sandbox=self.sandbox and self.sandbox.for_command(author),
            on_line=on_line,
            sealed=sealed,
        )
        check_not_stopped(self.stop)
        return result


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
