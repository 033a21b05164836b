"""Turn what `codex exec --json` printed into a Transcript, if the session succeeded."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from farm.agents.api_errors import api_error
from farm.agents.records import Record
from farm.agents.timestamps import milliseconds_between
from farm.agents.tool_dialect import said_and_done
from farm.agents.wire import WireError, as_text, count
from farm.errors import SessionError
from farm.model.messages import Message, ToolCall, last_assistant_text
from farm.model.transcript import Transcript, Usage

_ENDS = ("turn.completed", "turn.failed")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
# What the agent says, thinks, or is warned of: all other items are things that it does.
_NO_CALLS = frozenset({"agent_message", "reasoning", "error"})
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
# How the CLI words errors of the API for which it tells no status.
_ERRORS_BY_WORDS = (
    ("Quota exceeded", "authentication", False),  # no money, as opposed to too much at once
    ("Missing environment variable", "authentication", False),
    ("context window", "model_context_window_exceeded", False),
    ("rate limit", "rate_limited", True),
    ("usage limit", "rate_limited", True),
    ("high demand", "api_overloaded", True),
)


class CodexStream:
    """How Codex writes down a session."""

    call_mark = b'"item.'

    def is_stream(self, records: Iterable[Record]) -> bool:
        """Say whether these are lines of Codex."""
        return any(_type(record.data) in ("thread.started", "turn.started", *_ENDS) for record in records)

    def has_end(self, records: Sequence[Record]) -> bool:
        """Say whether the lines tell how the session ended; some errors come before there is a turn."""
        if any(_type(record.data) in _ENDS for record in records):
            return True
        return bool(records) and _type(records[-1].data) == "error"

    def text_in_pieces(self, _content: bytes) -> str:
        """Give nothing: every text stands whole in one line."""
        return ""

    def transcript(self, records: Sequence[Record], *, cut_off: bool = False) -> Transcript:
        """Turn the lines into a transcript; raise SessionError if the session did not end with success."""
        if cut_off or not self.has_end(records):
            raise SessionError("no_result", "the session was killed: its stream has no end", retryable=True)
        end = next((record for record in reversed(records) if _type(record.data) in _ENDS), records[-1])
        if _type(end.data) != "turn.completed":
            raise _error(end.data)
        messages = _messages(records)
        try:
            usage = _usage(end.data.get("usage"))
        except WireError as error:
            raise end.problem(str(error)) from None
        return Transcript(
            agent="codex",
            output_messages=messages,
            final_text=last_assistant_text(messages),
            usage=usage,
            duration_ms=milliseconds_between(
                as_text(records[0].data.get("timestamp")), as_text(end.data.get("timestamp"))
            ),
        )

    def tool_calls_of_line(self, data: Any) -> Iterator[ToolCall]:
        """Give the calls that a line tells of, while the session goes on. No line makes it fail."""
        item = data.get("item") if isinstance(data, Mapping) else None
        if isinstance(item, Mapping) and as_text(item.get("id")) and as_text(item.get("type")):
            for call, _ in _calls(item, None, None):
                yield call


def _messages(records: Sequence[Record]) -> tuple[Message, ...]:
    """Put items together: what is done belongs to what was said before it."""
    items: dict[str, tuple[Mapping[str, Any], str | None, str | None]] = {}
    for record in records:
        if not str(_type(record.data)).startswith("item."):
            continue
        item = record.data.get("item")
        if not isinstance(item, Mapping) or not as_text(item.get("id")) or not as_text(item.get("type")):
            raise record.problem("item without an id and a type")
        when = as_text(record.data.get("timestamp"))
        # An item begins, changes and ends: its place is where it began, the rest is what it was last.
        began = items[item["id"]][1] if item["id"] in items else when
        items[item["id"]] = (item, began, when)
    messages: list[Message] = []
    said: str | None = None
    since: str | None = None
    calls: list[tuple[ToolCall, str]] = []
    for item, began, ended in items.values():
        if item["type"] == "agent_message":
            if said is not None or calls:
                messages.append(said_and_done(said, calls, since))
            said, since, calls = as_text(item.get("text")) or "", began, []
        else:
            since = since or began
            calls += _calls(item, began, ended)
    if said is not None or calls:
        messages.append(said_and_done(said, calls, since))
    return tuple(messages)


def _calls(item: Mapping[str, Any], began: str | None, ended: str | None) -> Iterator[tuple[ToolCall, str]]:
    """Give an item's tool calls, with the item's own name; a change of files is one for each file."""
    kind = item["type"]
    if kind in _NO_CALLS:
        return
    for index, (tool, tool_input, output) in enumerate(_uses(item)):
        exit_code = item.get("exit_code")
        failed = item.get("status") in ("failed", "declined") or item.get("error") is not None
        yield (
            ToolCall(
                tool=tool,
                input=tool_input,
                output=output,
                id=item["id"] if index == 0 else f"{item['id']}.{index}",
                timestamp=began,
                duration_ms=milliseconds_between(began, ended),
                is_error=failed or (exit_code is not None and exit_code != 0),
            ),
            kind,
        )


def _uses(item: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    kind = item["type"]
    if kind == "command_execution":
        yield "Bash", {"command": _command(item.get("command"))}, item.get("aggregated_output")
    elif kind == "file_change" and isinstance(item.get("changes"), list):
        for change in item["changes"]:
            if isinstance(change, Mapping):
                rest = {name: value for name, value in change.items() if name != "path"}
                tool = "Write" if change.get("kind") == "add" else "Edit"
                yield tool, {"file_path": change.get("path"), **rest}, None
    elif kind == "mcp_tool_call":
        output = item.get("result") if item.get("error") is None else item.get("error")
        yield f"mcp__{item.get('server')}__{item.get('tool')}", item.get("arguments"), output
    elif kind == "web_search":
        yield "WebSearch", _rest(item), None
    elif kind == "todo_list":
        yield "TodoWrite", {"todos": item.get("items")}, None
    else:  # one that we do not know is no reason to think that nothing was done
        yield kind, _rest(item), None


def _rest(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in ("id", "type", "status")}


def _command(command: Any) -> Any:
    """Give what the model wrote: the CLI says `/bin/bash -lc '…'` of everything that it runs."""
    try:
        words = shlex.split(command)
    except (ValueError, TypeError, AttributeError):
        return command
    if len(words) == 3 and PurePosixPath(words[0]).name in _SHELLS and words[1] in ("-lc", "-c"):
        return words[2]
    return command


def _error(end: Mapping[str, Any]) -> SessionError:
    error = end.get("error") if _type(end) == "turn.failed" else end
    message = as_text(error.get("message")) if isinstance(error, Mapping) else None
    if not message:
        return SessionError("crashed", "the session failed, and says not why", retryable=True)
    if status := _STATUS.search(message):
        return api_error(int(status[1]), message)
    for words, kind, retryable in _ERRORS_BY_WORDS:
        if words in message:
            return SessionError(kind, message, retryable=retryable)
    # Of a request that the API did not understand, the answer's body is all that it tells.
    return api_error(400 if _is_object(message) else None, message)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _usage(data: Any) -> Usage | None:
    """Read the tokens; cached ones are counted within those that went in."""
    if not isinstance(data, Mapping):
        return None
    read, cached, written, output = (
        count(data.get(name), f"usage.{name}") or 0
        for name in ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens")
    )
    return Usage(
        input_tokens=max(read - cached - written, 0),
        output_tokens=output,
        cache_read_tokens=cached,
        cache_creation_tokens=written,
    )


def _type(data: Mapping[str, Any]) -> str | None:
    return as_text(data.get("type"))
