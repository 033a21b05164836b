"""Turn what `claude --output-format stream-json` printed into a Transcript, if the session succeeded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from farm.agents.api_errors import api_error
from farm.agents.claude_costs import session_cost
from farm.agents.claude_messages import Conversation
from farm.agents.records import Record
from farm.agents.wire import WireError, as_text, count, number, usage_of
from farm.errors import SessionError
from farm.model.messages import ToolCall
from farm.model.prices import Price
from farm.model.transcript import PermissionDenial, Transcript, Usage

_LINE_TYPES = frozenset({"system", "assistant", "user", "result", "stream_event"})
# A line has one of these too: other programs have a `type` as well.
_STREAM_KEYS = frozenset({"session_id", "message", "subtype"})

# What the last line of the agent says where no request was made, or no status came back.
_ERRORS_BY_WORD = {
    "authentication_failed": ("authentication", False),
    "billing_error": ("authentication", False),
    "max_output_tokens": ("max_tokens", False),
    "invalid_request": ("bad_request", False),
    "rate_limit": ("rate_limited", True),
}
_ERRORS_BY_SUBTYPE = {"error_max_turns": "max_turns", "error_max_budget_usd": "max_budget"}


class ClaudeStream:
    """How Claude Code writes down a session."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        """Take the author's own prices, by model."""
        self._prices = prices

    call_mark = b'tool_use"'

    def has_end(self, records: Sequence[Record]) -> bool:
        """Say whether there is a result."""
        return any(record.data.get("type") == "result" for record in records)

    def text_in_pieces(self, _content: bytes) -> str:
        """Give nothing: every text stands whole in one line."""
        return ""

    def transcript(self, records: Sequence[Record], *, cut_off: bool = False) -> Transcript:
        """Turn the lines into a transcript; raise SessionError if the session did not end with success."""
        return transcript_of_stream(records, cut_off=cut_off, prices=self._prices)

    def tool_calls_of_line(self, data: Any) -> Iterator[ToolCall]:
        """Give the calls that a line tells of, while the session goes on."""
        return tool_calls_of_line(data)


def is_stream(records: Iterable[Record]) -> bool:
    """Say whether these are lines of a stream."""
    return any(
        as_text(record.data.get("type")) in _LINE_TYPES and not _STREAM_KEYS.isdisjoint(record.data)
        for record in records
    )


def transcript_of_stream(
    records: Sequence[Record], *, cut_off: bool = False, prices: Mapping[str, Price] | None = None
) -> Transcript:
    """Turn a session's lines into its transcript; raise SessionError if it did not end with success.

    There may be two result lines, the last of which counts: it sums up the whole session. Without `prices` it
    was recorded earlier, and cost what the CLI said then.
    """
    ends = [at for at, record in enumerate(records) if record.data.get("type") == "result"]
    if not ends or cut_off:
        raise SessionError(
            "no_result", "the session was killed: its stream ends without a result", retryable=True
        )
    end = records[ends[-1]]
    if _goes_on(records[ends[-1] + 1 :]):
        raise SessionError("no_result", "the session went on after its last result", retryable=True)
    if (failure := _failure(end.data, records)) is not None:
        with suppress(WireError):
            failure.cost_usd = session_cost(end.data, prices or {}).usd
        raise failure
    conversation = Conversation()
    for record in records:
        parent_id = as_text(record.data.get("parent_tool_use_id"))
        conversation.add(record, by_subagent=parent_id is not None, parent_id=parent_id)
    messages = conversation.messages()
    started = next((record.data for record in records if record.data.get("subtype") == "init"), {})
    text = end.data.get("result")
    try:
        cost = session_cost(end.data, prices or {})
        return Transcript(
            agent="claude",
            agent_version=as_text(started.get("claude_code_version")),
            model=as_text(started.get("model")),
            # `--output-format json` prints the result alone: what was called can't be told from it.
            output_messages=messages or None,
            final_text=_structured(end.data)
            or (text if isinstance(text, str) and text else conversation.final_text()),
            usage=_usage(end.data),
            cost_usd=cost.usd,
            warnings=() if prices is None else cost.doubts,
            duration_ms=number(end.data.get("duration_ms"), "duration_ms"),
            num_turns=count(end.data.get("num_turns"), "num_turns"),
            permission_denials=tuple(_denials(end)),
        )
    except WireError as error:
        raise end.problem(str(error)) from None
    except ValidationError as error:
        raise end.problem(f"unusable result: {error.errors()[0]['msg']}") from None


def tool_calls_of_line(data: Any) -> Iterator[ToolCall]:
    """Give the calls that a line of a stream tells of, while the session goes on. No line makes it fail."""
    message = data.get("message") if isinstance(data, Mapping) and data.get("type") == "assistant" else None
    content = message.get("content") if isinstance(message, Mapping) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and str(block.get("type")).endswith("tool_use"):
            tool, call_id = as_text(block.get("name")), as_text(block.get("id"))
            if tool is not None and call_id is not None:
                parent_id = as_text(data.get("parent_tool_use_id"))
                yield ToolCall(tool=tool, input=block.get("input"), id=call_id, parent_id=parent_id)


def _goes_on(records: Iterable[Record]) -> bool:
    """Say whether the agent itself calls tools in these lines; a subagent may outlive the answer."""
    return any(call.parent_id is None for record in records for call in tool_calls_of_line(record.data))


def _failure(end: Mapping[str, Any], records: Sequence[Record]) -> SessionError | None:
    subtype = end.get("subtype")
    if end.get("is_error") is False and subtype == "success":
        return None
    message = _reason(end)
    if end.get("stop_reason") == "refusal":
        return SessionError("refusal", message, retryable=False)
    if subtype == "success":
        status = end.get("api_error_status")
        word = next((word for record in reversed(records) if (word := as_text(record.data.get("error")))), "")
        if status is None and word in _ERRORS_BY_WORD:
            kind, retryable = _ERRORS_BY_WORD[word]
            return SessionError(kind, message, retryable=retryable)
        return api_error(status, message)
    limit = _ERRORS_BY_SUBTYPE.get(subtype) if isinstance(subtype, str) else None
    return SessionError(limit or "crashed", message, retryable=limit is None)


def _reason(end: Mapping[str, Any]) -> str:
    errors = end.get("errors")
    told = [error for error in errors if isinstance(error, str)] if isinstance(errors, list) else []
    return "; ".join(told) or as_text(end.get("result")) or f"the session ended with {end.get('subtype')}"


def _structured(end: Mapping[str, Any]) -> str | None:
    """Give the answer that a `--json-schema` asked for."""
    answer = end.get("structured_output")
    return None if answer is None else json.dumps(answer, ensure_ascii=False)


def _usage(end: Mapping[str, Any]) -> Usage | None:
    """Sum the models' tokens. `usage` leaves subagents out, and stands in only where there is no better."""
    models = end.get("modelUsage")
    if not isinstance(models, Mapping) or not models:
        return usage_of(end.get("usage"), "usage")
    total = Usage()
    for name, tokens in models.items():
        if (used := usage_of(tokens, f"modelUsage.{name}")) is not None:
            total += used
    return total


def _denials(end: Record) -> Iterable[PermissionDenial]:
    denials = end.data.get("permission_denials")
    for denial in denials if isinstance(denials, list) else ():
        if not isinstance(denial, Mapping) or not isinstance(denial.get("tool_name"), str):
            raise end.problem("permission denial without a tool_name")
        yield PermissionDenial(
            tool=denial["tool_name"],
            input=denial.get("tool_input"),
            id=as_text(denial.get("tool_use_id")),
        )
