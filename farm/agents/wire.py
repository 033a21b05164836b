"""Turn the JSON that a program prints about its session into messages, trace events and figures.

Knows seed 002's wire format. Structural keys are read in snake_case and camelCase; what lies inside `input`,
`output`, `content` and `metadata` is the user's data and is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from farm.errors import FarmError
from farm.model.base import Model
from farm.model.messages import Message, ToolCall, last_assistant_text
from farm.model.transcript import TraceEvent, Transcript, Usage

# What makes a JSON object a session's output.
OUTPUT_KEYS = ("text", "output_messages", "trace", "token_usage", "cost_usd", "duration_ms")

_TOKEN_KEYS = {
    "input_tokens": ("input", "input_tokens"),
    "output_tokens": ("output", "output_tokens"),
    "cache_read_tokens": ("cached", "cache_read_tokens", "cache_read_input_tokens"),
    "cache_creation_tokens": ("cache_creation_tokens", "cache_creation_input_tokens"),
}

_LARGEST = 2**53  # beyond it, JSON numbers are no longer exact

_Model = TypeVar("_Model", bound=Model)


class WireError(FarmError):
    """What a program printed about its session is not in the wire format; says where in the object."""


def has_output(data: Mapping[str, Any]) -> bool:
    """Say whether an object is a session's output."""
    return any(field(data, name) is not None for name in OUTPUT_KEYS)


def has_answer(data: Mapping[str, Any]) -> bool:
    """Say whether an object tells what the session did or said; figures alone don't."""
    return any(field(data, name) is not None for name in ("text", "output_messages", "trace"))


def field(data: Mapping[str, Any], name: str) -> Any:
    """Get a structural field in either spelling; None if it has none or null."""
    value = data.get(name)
    return data.get(to_camel(name)) if value is None else value


def transcript_of_output(data: Mapping[str, Any], *, agent: str) -> Transcript:
    """Turn a session's output into its transcript. Without messages or trace, it has neither."""
    messages = _each(data, "output_messages", "", _message)
    trace = _each(data, "trace", "", _trace_event)
    if not any(message.tool_calls for message in messages or ()):
        messages = _without_lost_calls(messages, trace)
    text = field(data, "text")
    if text is not None and not isinstance(text, str):
        raise WireError("text: must be a string")
    return Transcript(
        agent=agent,
        output_messages=messages,
        trace=trace,
        final_text=_last_text(messages, trace) if text is None else text,
        usage=usage_of(field(data, "token_usage")),
        cost_usd=number(field(data, "cost_usd"), "cost_usd"),
        duration_ms=number(field(data, "duration_ms"), "duration_ms"),
    )


def usage_of(data: Any, at: str = "token_usage") -> Usage | None:
    """Turn token counts, `{input, output, cached}` or `{input_tokens, …}`, into a Usage."""
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise WireError(f"{at}: must be an object")
    counts = {}
    for name, spellings in _TOKEN_KEYS.items():
        given = [(key, value) for key in spellings if (value := field(data, key)) is not None]
        counts[name] = count(given[0][1], f"{at}.{given[0][0]}") or 0 if given else 0
    return Usage(**counts)


def number(value: Any, at: str) -> float | None:
    """Check an amount: a number that is not negative, or nothing."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise WireError(f"{at}: must be a number that is not negative")
    return float(value)


def count(value: Any, at: str) -> int | None:
    """Check a count: a whole number that is not negative, or nothing."""
    amount = number(value, at)
    if amount is None:
        return None
    if not amount.is_integer():
        raise WireError(f"{at}: must be a whole number")
    return int(amount)


def as_text(value: Any) -> str | None:
    """Give a text; None for anything else that a program may have written in its place."""
    return value if isinstance(value, str) else None


def _without_lost_calls(
    messages: tuple[Message, ...] | None, trace: tuple[TraceEvent, ...] | None
) -> tuple[Message, ...] | None:
    """Let the trace speak where it has calls and the messages have none: they must not count as not made."""
    if not any(event.type == "tool_call" for event in trace or ()):
        return messages
    if messages:
        raise WireError("output_messages: has no tool_calls, but the trace has; write them in one of the two")
    return None


def _message(data: Mapping[str, Any], at: str) -> Message:
    calls = _each(data, "tool_calls", f"{at}.", _tool_call)
    if calls is None and (slip := next(filter(_is_slip_of_tool_calls, data), None)):
        raise WireError(f'{at}: unknown key "{slip}"; did you mean "tool_calls"?')
    if calls is None and any(map(_is_tool_use, _listed(data.get("content")))):
        raise WireError(
            f"{at}.content: has a tool_use block; write calls under tool_calls: [{{tool, input}}]"
        )
    return _build(Message, data, at, exclude="tool_calls", tool_calls=calls or ())


def _tool_call(data: Mapping[str, Any], at: str) -> ToolCall:
    duration_ms = number(field(data, "duration_ms"), f"{at}.duration_ms")
    return _build(ToolCall, data, at, exclude="duration_ms", duration_ms=duration_ms)


def _trace_event(data: Mapping[str, Any], at: str) -> TraceEvent:
    return _build(TraceEvent, data, at)


def _is_slip_of_tool_calls(key: str) -> bool:
    # Other keys may be anybody's; with this one lost, the calls would count as not made.
    return bool(get_close_matches(key.casefold(), ("tool_calls", "toolcalls"), cutoff=0.85))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _is_tool_use(block: Any) -> bool:
    return isinstance(block, Mapping) and str(block.get("type")).endswith("tool_use")


def _each(data: Mapping[str, Any], name: str, prefix: str, convert: Any) -> Any:
    """Convert a list field's objects; None if there is no such list."""
    items = field(data, name)
    if items is None:
        return None
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise WireError(f"{prefix}{name}: must be a list")
    converted = []
    for index, item in enumerate(items):
        at = f"{prefix}{name}[{index}]"
        if not isinstance(item, Mapping):
            raise WireError(f"{at}: must be an object")
        converted.append(convert(item, at))
    return tuple(converted)


def _build(
    model: type[_Model], data: Mapping[str, Any], at: str, *, exclude: str = "", **given: Any
) -> _Model:
    """Build a model from its fields in either spelling; keys it does not know are the program's own."""
    names = (name for name in model.model_fields if name != exclude)
    values = {name: value for name in names if (value := field(data, name)) is not None}
    try:
        return model(**values, **given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join((at, *map(str, first["loc"][:1])))
        raise WireError(f"{where}: {first['msg']}") from None


def _last_text(messages: tuple[Message, ...] | None, trace: tuple[TraceEvent, ...] | None) -> str:
    if messages is not None:
        return last_assistant_text(messages)
    said = (event.text for event in reversed(trace or ()) if event.type == "message" and event.text)
    return next(said, "")
