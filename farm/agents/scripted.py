"""The `scripted` agent: does what the case's script says. The test double that the farm ships."""

from __future__ import annotations

import time

from farm.agents.base import Availability, Session
from farm.agents.timestamps import timestamp_now
from farm.agents.workspace_tools import WORKSPACE_TOOLS, ToolResult, ToolUse, run_workspace_tool
from farm.errors import SessionError
from farm.model.agent import CallTool, Crash, Say, ScriptStep, Sleep
from farm.model.messages import Message, ToolCall, last_assistant_text
from farm.model.tool_names import canonical_tool_name
from farm.model.transcript import Transcript
from farm.sessions.process import check_not_stopped


class ScriptedAgent:
    """Plays an agent: its words are made up, its tool calls are real."""

    acts = True

    def availability(self) -> Availability:
        """Say that it can run anywhere."""
        return Availability(usable=True)

    def run(self, session: Session) -> Transcript:
        """Carry out the script's steps, one assistant message each."""
        if session.case.script is None:
            raise SessionError(
                "no_script", f"{session.case.id}: the scripted agent needs `script: […]`", retryable=False
            )
        started = time.monotonic()
        clock = _Clock(session.timeout_seconds)
        messages = [
            message
            for step in session.case.script
            if (message := _carry_out(step, session, clock)) is not None
        ]
        return Transcript(
            agent=session.agent,
            model=session.model,
            output_messages=tuple(messages),
            final_text=last_assistant_text(messages),
            duration_ms=(time.monotonic() - started) * 1000,
        )


class _Clock:
    """How much of the session's time is left."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._deadline = time.monotonic() + timeout_seconds

    def remaining_seconds(self) -> float:
        """Give the time that is left, or end the session if none is."""
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise SessionError(
                "timeout", f"the session took longer than {self._timeout_seconds:g} s", retryable=True
            )
        return remaining


def _carry_out(step: ScriptStep, session: Session, clock: _Clock) -> Message | None:
    check_not_stopped(session.stop)
    remaining_seconds = clock.remaining_seconds()
    timestamp = timestamp_now()
    match step:
        case CallTool():
            call = _call_tool(step, session, remaining_seconds, timestamp)
            clock.remaining_seconds()
            session.on_tool_call(call)
            return Message(role="assistant", tool_calls=(call,), timestamp=timestamp)
        case Say():
            return Message(role="assistant", content=step.say, timestamp=timestamp)
        case Sleep():
            session.stop.wait(min(step.sleep, remaining_seconds))
            check_not_stopped(session.stop)
            clock.remaining_seconds()
            return None
        case Crash():
            raise SessionError("crashed", step.crash, retryable=True)


def _call_tool(step: CallTool, session: Session, timeout_seconds: float, timestamp: str) -> ToolCall:
    started = time.monotonic()
    tool = canonical_tool_name(step.tool)
    if tool in WORKSPACE_TOOLS:
        env = {**session.spec.env, **session.case.env}
        use = ToolUse(session.workspace, step.input, env, timeout_seconds, session.stop, session.sandbox)
        result = run_workspace_tool(tool, use)
    else:
        result = ToolResult(step.output or "")
    return ToolCall(
        tool=step.tool,
        input=step.input,
        output=result.output,
        timestamp=timestamp,
        duration_ms=(time.monotonic() - started) * 1000,
        is_error=result.is_error,
    )
