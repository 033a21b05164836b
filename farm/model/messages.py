"""Messages as they are written in cases and come back from agents: one shape for both."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from farm.model.base import JsonValue, Model
from farm.model.patterns import text_of

ROLES = ("system", "user", "assistant", "tool")


class ToolCall(Model):
    """One use of a tool, with what came back."""

    tool: str
    input: JsonValue = None
    output: JsonValue = None
    id: str | None = None
    timestamp: str | None = None
    duration_ms: float | None = None
    is_error: bool = False
    parent_id: str | None = None  # the Task call of the subagent that made this call


class Message(Model):
    """One message of a conversation; `content` is text, content parts, or structured data."""

    role: str
    content: JsonValue = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    timestamp: str | None = None
    metadata: dict[str, JsonValue] | None = None


def content_text(content: Any) -> str:
    """Give the text of a message's content: its text parts joined, structured data as JSON."""
    if content is None:
        return ""
    if isinstance(content, list | tuple) and all(is_content_part(part) for part in content):
        return "\n".join(part["value"] for part in content if part["type"] == "text")
    return text_of(content)


def is_content_part(part: Any) -> bool:
    """Say whether a value is one `{type: text|file, value}` part."""
    return (
        isinstance(part, Mapping)
        and part.get("type") in ("text", "file")
        and isinstance(part.get("value"), str)
        and part.keys() == {"type", "value"}
    )


def referenced_files(messages: Iterable[Message]) -> Iterator[str]:
    """Name the files that messages refer to by `{type: file}` parts, in order."""
    for message in messages:
        if isinstance(message.content, list):
            for part in message.content:
                if is_content_part(part) and isinstance(part, dict) and part["type"] == "file":
                    yield str(part["value"])


def last_assistant_text(messages: Sequence[Message]) -> str:
    """Give the answer of a conversation: the last assistant message that says something."""
    for message in reversed(messages):
        if message.role == "assistant" and (text := content_text(message.content)):
            return text
    return ""
