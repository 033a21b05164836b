"""Turn the lines that Claude Code writes, one content block each, into whole messages with tool calls.

Knows the lines that its stream-json output and its session log have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from farm.agents.records import Record
from farm.agents.timestamps import milliseconds_between
from farm.agents.wire import as_text
from farm.model.base import JsonValue
from farm.model.messages import Message, ToolCall


@dataclass(frozen=True)
class _Use:
    """A tool_use block. What came of it stands in another line."""

    id: str
    tool: str
    input: JsonValue
    timestamp: str | None

    def is_same_as(self, other: _Use) -> bool:
        """Say whether this is the same call, told once more."""
        return (self.id, self.tool) == (other.id, other.tool) and self.input == other.input


@dataclass(frozen=True)
class _Result:
    """A tool_result block."""

    output: JsonValue
    is_error: bool
    timestamp: str | None


@dataclass
class _Draft:
    """A message of which more lines may come."""

    record: Record
    by_subagent: bool
    parent_id: str | None
    timestamp: str | None
    texts: list[str] = field(default_factory=list)
    uses: list[_Use] = field(default_factory=list)


class Conversation:
    """What was said and done in a session, put together line by line.

    Lines with the same message id are one message, and a call that stands in two of them is one. Results are
    paired with their calls by the call's id: parallel calls come first, all their results later. Where calls
    of several messages have the same id, as some gateways number them, each has its own result.
    """

    def __init__(self) -> None:
        self._drafts: dict[str, _Draft] = {}
        self._results: dict[str, list[_Result]] = {}

    def add(self, record: Record, *, by_subagent: bool = False, parent_id: str | None = None) -> None:
        """Take in one line; `parent_id` is the call that started the subagent whose line it is."""
        kind = record.data.get("type")
        if kind not in ("assistant", "user"):
            return
        message = record.data.get("message")
        if not isinstance(message, dict):
            raise record.problem(f"{kind} line without a message")
        timestamp = as_text(record.data.get("timestamp"))
        if kind == "user":
            for block in _blocks(record, message):
                self._add_result(record, block, timestamp)
            return
        key = as_text(message.get("id")) or f"line {len(self._drafts)}"
        draft = self._drafts.setdefault(key, _Draft(record, by_subagent, parent_id, timestamp))
        self._add_blocks(draft, record, message, timestamp)

    def messages(self) -> tuple[Message, ...]:
        """Give the agent's messages, in the order in which they began."""
        results = {use_id: iter(found) for use_id, found in self._results.items()}
        return tuple(self._message(draft, results) for draft in self._drafts.values())

    def final_text(self) -> str:
        """Give the last thing that the agent itself said; its subagents speak to it, not to the user."""
        drafts = [draft for draft in self._drafts.values() if draft.texts and not draft.by_subagent]
        return "\n".join(drafts[-1].texts) if drafts else ""

    def _add_blocks(
        self, draft: _Draft, record: Record, message: dict[str, Any], timestamp: str | None
    ) -> None:
        for block in _blocks(record, message):
            kind = block["type"]
            if kind == "text" and isinstance(block.get("text"), str):
                draft.texts.append(block["text"])
            elif kind.endswith("tool_use"):  # server_tool_use and mcp_tool_use too
                use = _use(record, block, timestamp)
                if not any(known.is_same_as(use) for known in draft.uses):
                    draft.uses.append(use)
            else:
                self._add_result(record, block, timestamp)

    def _add_result(self, record: Record, block: dict[str, Any], timestamp: str | None) -> None:
        if not block["type"].endswith("tool_result"):
            return
        use_id = block.get("tool_use_id")
        if not isinstance(use_id, str):
            raise record.problem(f"{block['type']} without a tool_use_id")
        result = _Result(_plain(block.get("content")), block.get("is_error") is True, timestamp)
        self._results.setdefault(use_id, []).append(result)

    def _message(self, draft: _Draft, results: Mapping[str, Iterator[_Result]]) -> Message:
        try:
            return Message(
                role="assistant",
                content="\n".join(draft.texts) if draft.texts else None,
                tool_calls=tuple(
                    _tool_call(use, draft.parent_id, next(results.get(use.id, iter(())), None))
                    for use in draft.uses
                ),
                timestamp=draft.timestamp,
                metadata={"parent_id": draft.parent_id} if draft.by_subagent else None,
            )
        except ValidationError as error:
            raise draft.record.problem(f"unusable message: {error.errors()[0]['msg']}") from None


def _tool_call(use: _Use, parent_id: str | None, result: _Result | None) -> ToolCall:
    return ToolCall(
        tool=use.tool,
        input=use.input,
        output=result.output if result else None,
        id=use.id,
        timestamp=use.timestamp,
        duration_ms=milliseconds_between(use.timestamp, result.timestamp) if result else None,
        is_error=result.is_error if result else False,
        parent_id=parent_id,
    )


def _blocks(record: Record, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    if not isinstance(content, list):
        raise record.problem("message content is neither text nor a list of blocks")
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise record.problem("content block without a type")
        yield block


def _use(record: Record, block: dict[str, Any], timestamp: str | None) -> _Use:
    use_id, tool = block.get("id"), block.get("name")
    if not isinstance(use_id, str) or not isinstance(tool, str):
        raise record.problem(f"{block['type']} without an id and a name")
    return _Use(use_id, tool, block.get("input"), timestamp)


def _plain(content: Any) -> Any:
    """Give a tool's output as text if it is nothing but text."""
    if isinstance(content, list) and content and all(_is_text_block(block) for block in content):
        return "\n".join(block["text"] for block in content)
    return content


def _is_text_block(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
