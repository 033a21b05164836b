"""Let a model behind the Messages API answer and use tools in turns, until it is done or may not go on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from farm.agents.anthropic_api import API_KEY, sdk_version
from farm.agents.anthropic_client import AnthropicClient
from farm.agents.anthropic_request import attachments_directory, make_request
from farm.agents.anthropic_tools import tool_definitions
from farm.agents.api_errors import BUSY_ERRORS
from farm.agents.base import Session
from farm.agents.prices import cost_usd, is_priced
from farm.agents.redaction import redaction_of, secrets_of
from farm.agents.timestamps import timestamp_now
from farm.agents.wire import WireError, usage_of
from farm.agents.workspace_tools import ToolResult, ToolUse, run_workspace_tool
from farm.errors import SessionError
from farm.model.agent import AnthropicSpec
from farm.model.messages import Message, ToolCall, last_assistant_text
from farm.model.transcript import Transcript, Usage

# Where nobody names one. Not the newest, which would change under everybody's tests: this one.
DEFAULT_MODEL = "claude-sonnet-5-5"

# Ends that leave the answer other than it would have been.
_CUT_OFF = {
    "max_tokens": "the answer was cut off after {max_tokens} tokens; `max_tokens` on the agent allows more",
    "model_context_window_exceeded": "the conversation became longer than the model can read",
    "refusal": "the model refused to answer",
}
_QUOTED_CHARACTERS = 200
# Ends by which the model says that it is done.
_ENDS = ("end_turn", "stop_sequence")
# What the API turned away costs nothing.
_UNPAID = ("bad_request", "authentication", *BUSY_ERRORS)


@dataclass
class Loop:
    """One session: the conversation so far, and what it has cost."""

    session: Session
    started: float = field(default_factory=time.monotonic)
    messages: list[Message] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    answered_by: str | None = None
    is_charged: bool = True  # False: there is a request of which nobody knows what it cost
    is_counted: bool = True  # False: there is an answer that did not tell its tokens

    def __post_init__(self) -> None:
        session = self.session
        assert isinstance(session.spec, AnthropicSpec)
        self.spec = session.spec
        self.model = session.model or DEFAULT_MODEL
        self.secrets = {name: value for name, value in secrets_of(self.spec, session.case).items() if value}
        self.redaction = redaction_of(self.spec, session.case)
        self.max_turns = session.case.max_turns or self.spec.max_turns
        self.budget_usd = session.case.max_cost_usd or self.spec.max_budget_usd

    def run(self) -> Transcript:
        """Take turns with the model."""
        try:
            self._check_before()
            self._take_turns()
            return self._transcript()
        except SessionError as error:
            error.cost_usd = self.cost_usd
            error.cost_is_partial = not self.is_charged and error.kind not in _UNPAID
            raise

    def _take_turns(self) -> None:
        request = make_request(self.session, self.spec, self.model)
        with AnthropicClient(self.session, self.secrets, self.redaction) as client:
            while True:
                self.is_charged = False
                answer = client.ask(request)
                uses = self._take(answer)
                if not uses and answer.get("stop_reason") in _ENDS:
                    break
                self._check_limits()
                request["messages"].append({"role": "assistant", "content": answer["content"]})
                if uses:
                    results = self._use_tools(uses, client)
                    request["messages"].append({"role": "user", "content": results})

    def _check_before(self) -> None:
        if not self.secrets:
            names = " or ".join(self.spec.secrets) or API_KEY
            message = f"{names} is not set in the worker's environment, and the API wants a key"
            raise SessionError("authentication", message, retryable=False)
        if self.budget_usd is not None and not is_priced(self.model, self.session.prices):
            message = (
                f'the price of the model "{self.model}" is not known, so no budget can be kept; '
                "write it under `prices` in farm.yaml"
            )
            raise SessionError("unknown_price", message, retryable=False)

    def _take(self, answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Take in an answer; give the tools that it asks for."""
        blocks = answer.get("content")
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise _bad_answer("its content is no list of blocks")
        self._charge(answer)
        reason = answer.get("stop_reason")
        if isinstance(reason, str) and reason in _CUT_OFF:
            message = _CUT_OFF[reason].format(max_tokens=self.spec.max_tokens)
            raise SessionError(reason, message, retryable=False)
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        if reason not in (*_ENDS, "pause_turn", "tool_use") or (reason == "tool_use" and not uses):
            raise _bad_answer(
                f"its stop_reason is {reason!r}" + (", and it uses no tool" if reason == "tool_use" else "")
            )
        if not all(isinstance(use.get(key), str) for use in uses for key in ("id", "name")):
            raise _bad_answer("it has a tool_use without an id and a name")
        texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
        self.messages.append(
            Message(role="assistant", content="\n".join(texts) if texts else None, timestamp=timestamp_now())
        )
        return uses

    def _charge(self, answer: Mapping[str, Any]) -> None:
        try:
            used = usage_of(answer.get("usage"), "usage")
        except WireError as error:
            raise _bad_answer(str(error)) from None
        self.is_charged = True
        if used is None:
            self.is_counted, self.cost_usd = False, None
            if self.budget_usd is not None:
                raise _bad_answer("it tells no usage, so no budget can be kept")
            return
        self.usage += used
        named = answer.get("model")
        self.answered_by = named if isinstance(named, str) else self.answered_by
        cost = cost_usd(used, self.model, self.session.prices)
        if cost is None and self.answered_by is not None:  # it was asked for by another name
            cost = cost_usd(used, self.answered_by, self.session.prices)
        self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost

    def _check_limits(self) -> None:
        """End a session that would go on beyond what it may take."""
        if self.max_turns is not None and len(self.messages) >= self.max_turns:
            message = f"the session was not done after {self.max_turns} turns, the most that it may take"
            raise SessionError("max_turns", message, retryable=False)
        if self.budget_usd is not None and self.cost_usd is not None and self.cost_usd >= self.budget_usd:
            message = f"the session has cost ${self.cost_usd:.4f} of ${self.budget_usd:g}, and was not done"
            raise SessionError("max_budget", message, retryable=False)

    def _use_tools(self, uses: list[Mapping[str, Any]], client: AnthropicClient) -> list[dict[str, Any]]:
        """Carry out an answer's tools one after the other, as it names them; give what goes back for each."""
        offered = {tool["name"] for tool in tool_definitions(self.spec)} if self.session.tools else set()
        calls, results = [], []
        for use in uses:
            call = self._use_tool(use, offered, client.remaining_seconds())
            client.remaining_seconds()  # what was ended for lack of time says nothing of the agent
            calls.append(call)
            self.session.on_tool_call(call)
            results.append(
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": call.output,
                    "is_error": call.is_error,
                }
            )
        self.messages[-1] = self.messages[-1].model_copy(update={"tool_calls": tuple(calls)})
        return results

    def _use_tool(self, use: Mapping[str, Any], offered: set[str], remaining_seconds: float) -> ToolCall:
        session, tool, given = self.session, use["name"], use.get("input")
        timestamp, started = timestamp_now(), time.monotonic()
        if tool not in offered:
            result = ToolResult(f"there is no tool {tool}", is_error=True)
        elif not isinstance(given, dict):
            result = ToolResult("the input must be an object", is_error=True)
        else:
            env = {**session.spec.env, **session.case.env}
            own = {name: value for name, value in env.items() if name not in self.spec.secrets}
            asked = ToolUse(
                session.workspace,
                given,
                own,
                remaining_seconds,
                session.stop,
                session.sandbox,
                readable=attachments_directory(session),
                redact=self._redacted,
            )
            result = run_workspace_tool(tool, asked)
        return ToolCall(
            tool=tool,
            input=given,
            output=self._redacted(result.output),
            id=use["id"],
            timestamp=timestamp,
            duration_ms=round((time.monotonic() - started) * 1000, 3),
            is_error=result.is_error,
        )

    def _redacted(self, text: str) -> str:
        return self.redaction(text.encode()).decode()

    def _transcript(self) -> Transcript:
        session = self.session
        text = last_assistant_text(self.messages)
        if session.answer_schema is not None:
            _check_answer(text, session.answer_schema)
        return Transcript(
            agent=session.agent,
            agent_version=sdk_version(),
            model=self.answered_by or self.model,
            output_messages=tuple(self.messages),
            final_text=text,
            usage=self.usage if self.is_counted else None,
            cost_usd=self.cost_usd,
            duration_ms=round((time.monotonic() - self.started) * 1000, 1),
            num_turns=len(self.messages),
            warnings=tuple(self._warnings()),
        )

    def _warnings(self) -> Iterator[str]:
        if not self.is_counted:
            yield "the API told no usage, so neither tokens nor cost are known"
        elif self.cost_usd is None:
            yield (
                f'the price of the model "{self.answered_by or self.model}" is not known, so the cost is not '
                "either; write it under `prices` in farm.yaml"
            )


def _check_answer(text: str, schema: Mapping[str, Any]) -> None:
    """Make sure that the answer is what was asked for: not all of a schema can be asked for."""
    import jsonschema_rs  # not at the top: only judges ask for a form

    try:
        jsonschema_rs.validator_for(dict(schema), offline=True).validate(json.loads(text))
    except (ValueError, RecursionError) as error:  # a ValidationError is a ValueError
        began = json.dumps(text[:_QUOTED_CHARACTERS], ensure_ascii=False)
        told = f"the answer is not as asked for: {error}; it begins {began}"
        raise SessionError("bad_output", told, retryable=True) from None


def _bad_answer(why: str) -> SessionError:
    return SessionError("bad_output", f"the API's answer can't be used: {why}", retryable=True)
