"""Turn what `gemini -o stream-json` printed into a Transcript, if the session succeeded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from farm.agents.api_errors import api_error
from farm.agents.records import Record
from farm.agents.timestamps import milliseconds_between
from farm.agents.tool_dialect import Dialect, OurName, our_tool, said_and_done
from farm.agents.wire import WireError, as_text, count, number
from farm.errors import SessionError
from farm.model.messages import Message, ToolCall, last_assistant_text
from farm.model.transcript import Transcript, Usage

DIALECT: Dialect = {
    "run_shell_command": OurName("Bash"),
    "read_file": OurName("Read", {"absolute_path": "file_path"}),
    "write_file": OurName("Write"),
    "replace": OurName("Edit"),
    "glob": OurName("Glob", {"dir_path": "path"}),
    "grep_search": OurName("Grep", {"dir_path": "path", "include_pattern": "glob"}),
    "search_file_content": OurName("Grep", {"dir_path": "path", "include": "glob"}),
    "list_directory": OurName("LS", {"dir_path": "path"}),
    "web_fetch": OurName("WebFetch"),
    "google_web_search": OurName("WebSearch"),
    "write_todos": OurName("TodoWrite"),
    "activate_skill": OurName("Skill", {"name": "skill"}),
}

_CODE = re.compile(r'"code": ?(\d{3})\b')
_ERRORS_BY_TYPE = {
    "FatalTurnLimitedError": ("max_turns", False),
    "FatalAuthenticationError": ("authentication", False),
    "FatalInputError": ("bad_request", False),
    "FatalConfigError": ("bad_request", False),
}


@dataclass
class _Step:
    """What the model said at once, and the tools that it then asked for."""

    timestamp: str | None
    texts: list[str] = field(default_factory=list)
    uses: list[Record] = field(default_factory=list)


class GeminiStream:
    """How the Gemini CLI writes down a session."""

    call_mark = b'"tool_use"'

    def is_stream(self, records: Iterable[Record]) -> bool:
        """Say whether these are lines of Gemini."""
        return any(
            (record.data.get("type") == "init" and "session_id" in record.data)
            or (record.data.get("type") == "result" and "status" in record.data and "stats" in record.data)
            for record in records
        )

    def has_end(self, records: Sequence[Record]) -> bool:
        """Say whether the lines tell how the session ended."""
        return any(record.data.get("type") == "result" for record in records)

    def text_in_pieces(self, content: bytes) -> str:
        """Put together what the model says: each line has a few words of it."""
        pieces = []
        for line in content.split(b"\n"):
            with suppress(ValueError, RecursionError):  # what is no line of Gemini tells no piece
                data = json.loads(line)
                if isinstance(data, dict) and data.get("type") == "message":
                    pieces.append(as_text(data.get("content")) or "")
        return "".join(pieces)

    def transcript(self, records: Sequence[Record], *, cut_off: bool = False) -> Transcript:
        """Turn the lines into a transcript; raise SessionError if the session did not end with success."""
        if cut_off or not self.has_end(records):
            raise SessionError("no_result", "the session was killed: its stream has no end", retryable=True)
        end = next(record for record in reversed(records) if record.data.get("type") == "result")
        if end.data.get("status") != "success":
            raise _error(end.data)
        messages = _messages(records)
        started = next((record.data for record in records if record.data.get("type") == "init"), {})
        stats = end.data.get("stats")
        stats = stats if isinstance(stats, Mapping) else {}
        try:
            return Transcript(
                agent="gemini",
                model=as_text(started.get("model")),
                output_messages=messages,
                final_text=last_assistant_text(messages),
                usage=_usage(stats),
                duration_ms=number(stats.get("duration_ms"), "stats.duration_ms"),
                num_turns=len(messages),
            )
        except WireError as error:
            raise end.problem(str(error)) from None

    def tool_calls_of_line(self, data: Any) -> Iterator[ToolCall]:
        """Give the calls that a line tells of, while the session goes on. No line makes it fail."""
        if isinstance(data, Mapping) and data.get("type") == "tool_use":
            tool, call_id = as_text(data.get("tool_name")), as_text(data.get("tool_id"))
            if tool is not None and call_id is not None:
                tool, tool_input = our_tool(DIALECT, tool, data.get("parameters"))
                yield ToolCall(tool=tool, input=tool_input, id=call_id)


def _messages(records: Sequence[Record]) -> tuple[Message, ...]:
    """Put pieces of text and calls together: results part one step of the model from the next."""
    steps: list[_Step] = []
    results: dict[str, Record] = {}
    is_open = False
    for record in records:
        kind = record.data.get("type")
        if kind == "tool_result":
            results.setdefault(_id(record), record)
            is_open = False
        elif kind == "tool_use" or (kind == "message" and record.data.get("role") == "assistant"):
            if not is_open:
                steps.append(_Step(as_text(record.data.get("timestamp"))))
                is_open = True
            if kind == "tool_use":
                steps[-1].uses.append(record)
            else:
                steps[-1].texts.append(as_text(record.data.get("content")) or "")
    return tuple(
        said_and_done(
            "".join(step.texts) if step.texts else None,
            [_call(use, results.get(_id(use))) for use in step.uses],
            step.timestamp,
        )
        for step in steps
    )


def _call(use: Record, result: Record | None) -> tuple[ToolCall, str]:
    own = as_text(use.data.get("tool_name"))
    if own is None:
        raise use.problem("tool_use without a tool_name")
    tool, tool_input = our_tool(DIALECT, own, use.data.get("parameters"))
    done = result.data if result else {}
    error = done.get("error")
    said = error.get("message") if isinstance(error, Mapping) else None
    began, ended = as_text(use.data.get("timestamp")), as_text(done.get("timestamp"))
    return (
        ToolCall(
            tool=tool,
            input=tool_input,
            output=done.get("output") if said is None else said,
            id=_id(use),
            timestamp=began,
            duration_ms=milliseconds_between(began, ended),
            is_error=done.get("status") == "error",
        ),
        own,
    )


def _id(record: Record) -> str:
    value = as_text(record.data.get("tool_id"))
    if value is None:
        raise record.problem(f"{record.data.get('type')} without a tool_id")
    return value


def _error(end: Mapping[str, Any]) -> SessionError:
    error = end.get("error")
    error = error if isinstance(error, Mapping) else {}
    message = as_text(error.get("message")) or "the session failed, and says not why"
    kind, retryable = _ERRORS_BY_TYPE.get(str(error.get("type")), (None, True))
    if kind is not None:
        return SessionError(kind, message, retryable=retryable)
    if code := _CODE.search(message):
        return api_error(int(code[1]), message)
    # Of this one it tells no code, but what to do about it.
    return api_error(429 if "quota increase" in message else None, message)


def _usage(stats: Mapping[str, Any]) -> Usage | None:
    """Read the tokens. What was neither read nor said was thought, and is paid for as what was said."""
    if "total_tokens" not in stats:
        return None
    total, read, said, cached = (
        count(stats.get(name), f"stats.{name}") or 0
        for name in ("total_tokens", "input_tokens", "output_tokens", "cached")
    )
    return Usage(
        input_tokens=max(read - cached, 0),
        output_tokens=max(total - read, said),
        cache_read_tokens=cached,
    )
