"""Turn every way of writing input and expected output into messages.

The canonical names (`input_messages`, `expected_messages`) win over their aliases.
"""

from typing import Any

from farm.authoring.references import BrokenReferenceError, References
from farm.documents.checking import Problems, check, did_you_mean
from farm.documents.yaml import Document, KeyPath
from farm.model.base import Model, NonNegativeNumber
from farm.model.messages import ROLES, Message, ToolCall, is_content_part


class MessageEntry(Model):
    """A message as an author writes it."""

    role: str  # who speaks
    content: Any = None  # a text, data of any form, or a list of {type: text|file, value: …}
    name: str | None = None  # of who speaks
    tool_calls: list[Any] | None = None  # the tools that the message calls
    timestamp: str | None = None  # when, in ISO 8601
    metadata: dict[str, Any] | None = None  # for readers


class ToolCallEntry(Model):
    """A tool call as an author writes it."""

    tool: str  # its name
    input: Any = None  # what it was called with
    output: Any = None  # what it gave back
    id: str | None = None  # of the call
    timestamp: str | None = None  # when, in ISO 8601
    duration_ms: NonNegativeNumber | None = None  # how long it took


class MessageEntries:
    """Reads the messages of one document."""

    def __init__(self, document: Document, references: References, problems: Problems) -> None:
        self._document = document
        self._references = references
        self._problems = problems

    def read_input(self, entry: dict[str, Any], path: KeyPath) -> tuple[Message, ...]:
        """Read `input_messages`, else `input`: a text is one user message."""
        if entry.get("input_messages") is not None:
            return self._messages(entry["input_messages"], (*path, "input_messages"))
        raw, at = entry.get("input"), (*path, "input")
        if isinstance(raw, str):
            if not raw:
                self._problems.add(self._document, at, '"input" is empty')
            return (Message(role="user", content=raw),)
        if isinstance(raw, dict) and "role" in raw:
            message = self._message(raw, at)
            return () if message is None else (message,)
        if raw is not None and not isinstance(raw, list):
            self._problems.add(self._document, at, '"input" must be text or a list of messages')
            return ()
        return () if raw is None else self._messages(raw, at)

    def read_expected(self, entry: dict[str, Any], path: KeyPath) -> tuple[Message, ...]:
        """Read `expected_messages`, else `expected_output`: whatever has no role is an assistant's answer."""
        if entry.get("expected_messages") is not None:
            return self._messages(entry["expected_messages"], (*path, "expected_messages"))
        raw, at = entry.get("expected_output"), (*path, "expected_output")
        if raw is None:
            return ()
        if isinstance(raw, list) and raw and isinstance(raw[0], dict) and raw[0].get("role"):
            return self._messages(raw, at)
        if isinstance(raw, dict) and raw.get("role"):
            message = self._message(raw, at)
            return () if message is None else (message,)
        if isinstance(raw, list):  # an author's own data, but for the parts that are ours
            raw = [
                self._part(item, (*at, n)) if is_content_part(item) else item for n, item in enumerate(raw)
            ]
        return (Message(role="assistant", content=raw),)

    def _messages(self, raw: Any, path: KeyPath) -> tuple[Message, ...]:
        if not isinstance(raw, list) or not raw:
            self._problems.add(self._document, path, f'"{path[-1]}" must be a list of messages')
            return ()
        messages = (self._message(item, (*path, at)) for at, item in enumerate(raw))
        return tuple(message for message in messages if message is not None)

    def _message(self, raw: Any, path: KeyPath) -> Message | None:
        if not isinstance(raw, dict):
            self._problems.add(self._document, path, "a message must be a mapping with a role")
            return None
        entry = check(MessageEntry, raw, self._document, path, self._problems, "a message")
        if entry is None:
            return None
        if entry.role not in ROLES:
            meant = did_you_mean(entry.role, ROLES) or f"known are {', '.join(ROLES)}"
            self._problems.add(self._document, (*path, "role"), f'unknown role "{entry.role}"; {meant}')
            return None
        if entry.content is None and not raw.get("tool_calls"):
            self._problems.add(self._document, path, 'a message needs "content" or "tool_calls"')
            return None
        return Message(
            role=entry.role,
            content=self._content(entry.content, (*path, "content")),
            name=entry.name,
            tool_calls=self._tool_calls(entry.tool_calls, (*path, "tool_calls")),
            timestamp=entry.timestamp,
            metadata=entry.metadata,
        )

    def _content(self, content: Any, path: KeyPath) -> Any:
        if not isinstance(content, list) or not any(
            isinstance(part, dict) and "type" in part for part in content
        ):
            return content
        return [self._part(part, (*path, at)) for at, part in enumerate(content)]

    def _part(self, part: Any, path: KeyPath) -> Any:
        if (
            not isinstance(part, dict)
            or part.get("type") not in ("text", "file")
            or part.keys() != {"type", "value"}
        ):
            self._problems.add(self._document, path, "a content part must be {type: text|file, value: …}")
            return None
        value = part["value"]
        if not isinstance(value, str):
            self._problems.add(self._document, (*path, "value"), '"value" must be text')
            return None
        if part["type"] == "file":
            try:
                value = self._references.find(value)
            except BrokenReferenceError as error:
                self._problems.add(self._document, (*path, "value"), str(error))
        return {"type": part["type"], "value": value}

    def _tool_calls(self, raw: list[Any] | None, path: KeyPath) -> tuple[ToolCall, ...]:
        calls = []
        for at, item in enumerate(raw or ()):
            entry = check(ToolCallEntry, item, self._document, (*path, at), self._problems, "a tool call")
            if entry is not None:
                calls.append(ToolCall(**entry.model_dump()))
        return tuple(calls)
