"""Turn what `opencode run --format json` printed into a Transcript, if the session succeeded.

A tool call and its result are one line, printed when the tool is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from farm.agents.api_errors import api_error
from farm.agents.records import Record
from farm.agents.timestamps import timestamp_of
from farm.agents.tool_dialect import Dialect, OurName, our_tool, said_and_done
from farm.agents.wire import WireError, as_text, count, number
from farm.errors import SessionError
from farm.model.messages import Message, ToolCall, last_assistant_text
from farm.model.transcript import Transcript, Usage

DIALECT: Dialect = {
    "bash": OurName("Bash"),
    "read": OurName("Read", {"filePath": "file_path"}),
    "write": OurName("Write", {"filePath": "file_path"}),
    "edit": OurName(
        "Edit",
        {
            "filePath": "file_path",
            "oldString": "old_string",
            "newString": "new_string",
            "replaceAll": "replace_all",
        },
    ),
    "apply_patch": OurName("Edit"),
    "glob": OurName("Glob"),
    "grep": OurName("Grep", {"include": "glob"}),
    "list": OurName("LS"),
    "task": OurName("Task"),
    "skill": OurName("Skill", {"name": "skill"}),
    "todowrite": OurName("TodoWrite"),
    "webfetch": OurName("WebFetch"),
    "websearch": OurName("WebSearch"),
}

_LINES = frozenset({"step_start", "step_finish", "text", "tool_use", "reasoning", "error"})
_MORE_TO_COME = "tool-calls"
# Why a model stopped before it was done.
_CUT_OFF = {
    "length": ("max_tokens", "the answer was cut off: it is as long as the model may answer"),
    "content-filter": ("refusal", "the model refused to answer"),
}
_ERRORS_BY_NAME = {
    "ProviderAuthError": ("authentication", False),
    "ProviderModelNotFoundError": ("bad_request", False),
    "MessageOutputLengthError": ("max_tokens", False),
    "ContextOverflowError": ("model_context_window_exceeded", False),
    "MessageAbortedError": ("killed", True),
}


@dataclass
class _Step:
    timestamp: str | None
    texts: list[str] = field(default_factory=list)
    calls: list[tuple[float, ToolCall, str]] = field(default_factory=list)  # when begun, what, its own name


class OpencodeStream:
    """How OpenCode writes down a session."""

    call_mark = b'"tool_use"'

    def is_stream(self, records: Iterable[Record]) -> bool:
        """Say whether these are lines of OpenCode."""
        return any(
            "sessionID" in record.data and as_text(record.data.get("type")) in _LINES for record in records
        )

    def has_end(self, records: Sequence[Record]) -> bool:
        """Say whether the lines tell the end of the session: an error, or a step that asks for no tool."""
        return _end(records) is not None

    def text_in_pieces(self, _content: bytes) -> str:
        """Give nothing: every text stands whole in one line."""
        return ""

    def transcript(self, records: Sequence[Record], *, cut_off: bool = False) -> Transcript:
        """Turn the lines into a transcript; raise SessionError if the session did not end with success."""
        end = _end(records)
        if cut_off or end is None:
            raise SessionError("no_result", "the session was killed: its stream has no end", retryable=True)
        if end.data.get("type") == "error":
            raise _error(end.data.get("error"))
        reason = _part(end).get("reason")
        if reason != "stop":
            kind, message = _CUT_OFF.get(str(reason), ("no_result", f'the session ended with "{reason}"'))
            raise SessionError(kind, message, retryable=kind == "no_result")
        messages = _messages(records)
        finished = [record for record in records if record.data.get("type") == "step_finish"]
        usage, cost_usd = Usage(), 0.0
        for record in finished:
            try:
                usage += _usage(_part(record).get("tokens"))
                cost_usd += number(_part(record).get("cost"), "cost") or 0.0
            except WireError as error:
                raise record.problem(str(error)) from None
        began, ended = _milliseconds(records[0]), _milliseconds(end)
        return Transcript(
            agent="opencode",
            output_messages=messages,
            final_text=last_assistant_text(messages),
            usage=usage,
            # What it has no price for, it says costs nothing.
            cost_usd=round(cost_usd, 9) if cost_usd or not usage.output_tokens else None,
            duration_ms=None if began is None or ended is None else max(ended - began, 0.0),
            num_turns=len(finished),
        )

    def tool_calls_of_line(self, data: Any) -> Iterator[ToolCall]:
        """Give the calls that a line tells of, while the session goes on. No line makes it fail."""
        part = data.get("part") if isinstance(data, Mapping) and data.get("type") == "tool_use" else None
        if isinstance(part, Mapping) and as_text(part.get("tool")) and as_text(part.get("callID")):
            state = part.get("state")
            given = state.get("input") if isinstance(state, Mapping) else None
            tool, tool_input = our_tool(DIALECT, part["tool"], given)
            yield ToolCall(tool=tool, input=tool_input, id=part["callID"])


def _end(records: Sequence[Record]) -> Record | None:
    for record in reversed(records):
        if record.data.get("type") == "error":
            return record
        if record.data.get("type") in ("step_start", "step_finish", "tool_use"):
            part = record.data.get("part")
            reason = part.get("reason") if isinstance(part, Mapping) else None
            return record if record.data["type"] == "step_finish" and reason != _MORE_TO_COME else None
    return None


def _messages(records: Sequence[Record]) -> tuple[Message, ...]:
    steps: dict[str, _Step] = {}
    for record in records:
        if record.data.get("type") not in ("text", "tool_use"):
            continue
        part = _part(record)
        key = as_text(part.get("messageID"))
        if key is None:
            raise record.problem(f"{record.data['type']} without a messageID")
        step = steps.setdefault(key, _Step(_moment(_milliseconds(record))))
        if record.data["type"] == "text":
            step.texts.append(as_text(part.get("text")) or "")
        else:
            step.calls.append(_call(record, part))
    # The lines come in the order in which the tools were done; the model asked in that in which they began.
    return tuple(
        said_and_done(
            "\n".join(step.texts) if step.texts else None,
            [(call, own) for _, call, own in sorted(step.calls, key=lambda made: made[0])],
            step.timestamp,
        )
        for step in steps.values()
    )


def _call(record: Record, part: Mapping[str, Any]) -> tuple[float, ToolCall, str]:
    own, state = as_text(part.get("tool")), part.get("state")
    if own is None or not isinstance(state, Mapping):
        raise record.problem("tool_use without a tool and its state")
    tool, tool_input = our_tool(DIALECT, own, state.get("input"))
    told, times = state.get("metadata"), state.get("time")
    exit_code = told.get("exit") if isinstance(told, Mapping) else None
    began, ended = (
        _amount(times.get(name)) if isinstance(times, Mapping) else None for name in ("start", "end")
    )
    failed = state.get("status") == "error"
    call = ToolCall(
        tool=tool,
        input=tool_input,
        output=state.get("error") if failed else state.get("output"),
        id=as_text(part.get("callID")),
        timestamp=_moment(began),
        duration_ms=None if began is None or ended is None else max(ended - began, 0.0),
        # `invalid` is what it makes of a call of a tool that does not exist.
        is_error=failed or own == "invalid" or exit_code not in (None, 0),
    )
    return began or 0.0, call, own


def _error(error: Any) -> SessionError:
    error = error if isinstance(error, Mapping) else {}
    data = error.get("data")
    data = data if isinstance(data, Mapping) else {}
    message = (
        as_text(data.get("message")) or as_text(error.get("name")) or "the session failed, and says not why"
    )
    kind, retryable = _ERRORS_BY_NAME.get(str(error.get("name")), (None, True))
    if kind is not None:
        return SessionError(kind, message, retryable=retryable)
    if error.get("name") == "APIError":
        return api_error(data.get("statusCode"), message)
    return SessionError("crashed", message, retryable=True)


def _usage(tokens: Any) -> Usage:
    if not isinstance(tokens, Mapping):
        return Usage()
    cache = tokens.get("cache")
    cache = cache if isinstance(cache, Mapping) else {}
    return Usage(
        input_tokens=count(tokens.get("input"), "tokens.input") or 0,
        output_tokens=(count(tokens.get("output"), "tokens.output") or 0)
        + (count(tokens.get("reasoning"), "tokens.reasoning") or 0),
        cache_read_tokens=count(cache.get("read"), "tokens.cache.read") or 0,
        cache_creation_tokens=count(cache.get("write"), "tokens.cache.write") or 0,
    )


def _part(record: Record) -> Mapping[str, Any]:
    part = record.data.get("part")
    if not isinstance(part, Mapping):
        raise record.problem(f"{record.data.get('type')} without a part")
    return part


def _milliseconds(record: Record) -> float | None:
    """Say when a line came, in milliseconds since 1970; when it is read live, as text."""
    value = record.data.get("timestamp")
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp() * 1000
        except (ValueError, OverflowError):
            return None
    return _amount(value)


def _moment(milliseconds: float | None) -> str | None:
    if milliseconds is None:
        return None
    try:
        return timestamp_of(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _amount(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 2**53 else None
