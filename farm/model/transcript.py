"""The record of a session, and all that evaluators see of it."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from farm.model.base import JsonValue, Model
from farm.model.messages import Message, ToolCall

# What an agent's program wrote down of a session itself: what it printed, and the log that it kept.
LogName: TypeAlias = Literal["stream.jsonl", "session.jsonl"]
LOG_NAMES: tuple[LogName, ...] = get_args(LogName)


class TraceEvent(Model):
    """One event of a trace. Deprecated with `Transcript.trace`."""

    type: Literal["model_step", "tool_call", "tool_result", "message", "error"]
    timestamp: str | None = None
    id: str | None = None
    name: str | None = None
    input: JsonValue = None
    output: JsonValue = None
    text: str | None = None
    metadata: dict[str, JsonValue] | None = None


class TraceSummary(Model):
    """A session's tool use in four figures; `model_dump(by_alias=True)` gives the camelCase wire form."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    event_count: int = 0
    tool_names: tuple[str, ...] = ()
    tool_calls_by_name: dict[str, int] = {}
    error_count: int = 0

    @classmethod
    def of_trace(cls, trace: tuple[TraceEvent, ...]) -> Self:
        """Summarize a trace: every event counts."""
        calls = Counter(event.name or "" for event in trace if event.type == "tool_call")
        errors = sum(event.type == "error" for event in trace)
        return cls._of(len(trace), calls, errors)

    @classmethod
    def of_messages(cls, messages: tuple[Message, ...]) -> Self:
        """Summarize messages: every tool call is an event."""
        calls = [call for message in messages for call in message.tool_calls]
        errors = sum(call.is_error for call in calls)
        return cls._of(len(calls), Counter(call.tool for call in calls), errors)

    @classmethod
    def _of(cls, events: int, calls: Counter[str], errors: int) -> Self:
        by_name = dict(sorted(calls.items()))
        return cls(
            event_count=events, tool_names=tuple(by_name), tool_calls_by_name=by_name, error_count=errors
        )


class Usage(Model):
    """Tokens that a session used; cached ones are part of what went in."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0

    @property
    def total_input_tokens(self) -> int:
        """Everything the model read, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_creation_tokens

    def __add__(self, other: Self) -> Self:
        """Give the tokens of both."""
        names = type(self).model_fields
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})


class WorkspaceChanges(Model):
    """What the session did to its workspace's files."""

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Every changed file, once, sorted."""
        return tuple(sorted({*self.added, *self.modified, *self.deleted}))


class FileDiff(Model):
    """What the session did to one file, as far as it can be shown."""

    path: str
    change: Literal["added", "modified", "deleted"]
    patch: str | None = None  # unified, without a head
    note: str | None = None  # why there is no patch, or how much of it is missing


class PermissionDenial(Model):
    """A tool call that the agent was not allowed to make."""

    tool: str
    input: JsonValue = None
    id: str | None = None


class Transcript(Model):
    """The record of one session."""

    agent: str
    agent_version: str | None = None
    model: str | None = None
    output_messages: tuple[Message, ...] | None = None
    trace: Annotated[tuple[TraceEvent, ...] | None, Field(deprecated="use output_messages")] = None
    final_text: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    exit_code: int | None = None
    num_turns: int | None = None
    permission_denials: tuple[PermissionDenial, ...] = ()
    warnings: tuple[str, ...] = ()  # what a reader should know of the record itself
    workspace_changes: WorkspaceChanges | None = None
    workspace_diff: tuple[FileDiff, ...] | None = None
    input_messages: tuple[Message, ...] | None = None  # what the session was asked

    def tool_calls(self) -> Iterator[ToolCall]:
        """Give the session's tool calls in order, from the messages, else from the trace."""
        if self.output_messages is not None:
            for message in self.output_messages:
                yield from message.tool_calls
            return
        for event in self.events() or ():
            if event.type == "tool_call":
                yield ToolCall(tool=event.name or "", input=event.input, output=event.output, id=event.id)

    def events(self) -> tuple[TraceEvent, ...] | None:
        """Give the deprecated trace to the few who must still read it."""
        # Field(deprecated) warns at every access, ours included.
        events: tuple[TraceEvent, ...] | None = self.__dict__["trace"]
        return events

    def summary(self) -> TraceSummary | None:
        """Summarize the messages, else the trace; None if the session left neither."""
        if self.output_messages is not None:
            return TraceSummary.of_messages(self.output_messages)
        events = self.events()
        return None if events is None else TraceSummary.of_trace(events)
