"""Turn the names that a CLI has for its tools and their parameters into ours: one test fits every agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from farm.model.base import JsonValue
from farm.model.messages import Message, ToolCall


@dataclass(frozen=True)
class OurName:
    """What we call a tool of theirs, and those of its parameters that differ; all others stay as they are."""

    tool: str
    parameters: Mapping[str, str] = field(default_factory=dict)  # theirs → ours


Dialect = Mapping[str, OurName]


def our_tool(dialect: Dialect, tool: str, tool_input: Any) -> tuple[str, JsonValue]:
    """Give a tool's name and input as we write them; what the dialect does not know is given as it is."""
    ours = dialect.get(tool)
    if ours is None:
        return tool, tool_input
    if not isinstance(tool_input, Mapping):
        return ours.tool, tool_input
    # A parameter that has our name already keeps its value, whatever else is there.
    taken = {name for name in tool_input if name not in ours.parameters}
    renamed = {name: ours.parameters.get(name, name) for name in tool_input}
    return ours.tool, {
        name if renamed[name] != name and renamed[name] in taken else renamed[name]: value
        for name, value in tool_input.items()
    }


def said_and_done(
    content: str | None, calls: Iterable[tuple[ToolCall, str]], timestamp: str | None
) -> Message:
    """Make a message of the agent's; calls come with the CLI's own names, kept where they are not ours."""
    made = tuple(calls)
    own_names = {call.id: name for call, name in made if name.casefold() != call.tool.casefold() and call.id}
    return Message(
        role="assistant",
        content=content,
        tool_calls=tuple(call for call, _ in made),
        timestamp=timestamp,
        metadata={"tool_names": own_names} if own_names else None,
    )
