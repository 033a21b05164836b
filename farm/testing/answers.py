"""Turn a scenario's turn into what the Messages API sends: one JSON object, or events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from farm.testing.scenario import Turn

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error_body(status: int, message: str, kind: str | None = None) -> dict[str, Any]:
    """Give the body of an error response."""
    return {
        "type": "error",
        "error": {"type": kind or _ERROR_TYPES.get(status, "api_error"), "message": message},
    }


def first_prompt(request: Mapping[str, Any]) -> str:
    """Give the text of a conversation's first user message."""
    for message in _messages(request):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            blocks = content if isinstance(content, list) else []
            return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping))
    return ""


def count_answers(request: Mapping[str, Any]) -> int:
    """Say how many answers a conversation has: the index of the turn that comes next."""
    return sum(message.get("role") == "assistant" for message in _messages(request))


def message_of(turn: Turn, request: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """Give the whole answer; `mark` is what its ids have and no others."""
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.say}] if turn.say is not None else []
    content += [
        {"type": "tool_use", "id": f"toolu_{mark}_{number}", "name": use.tool, "input": use.input}
        for number, use in enumerate(turn.tools)
    ]
    return {
        "id": f"msg_{mark}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "scripted"),
        "content": content,
        "stop_reason": turn.stop_reason or ("tool_use" if turn.tools else "end_turn"),
        "stop_sequence": None,
        "usage": {
            **turn.usage.model_dump(),
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
    }


def stream_events(message: Mapping[str, Any]) -> Iterator[bytes]:
    """Give an answer as the server-sent events of a stream."""
    usage = message["usage"]
    started = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event({"type": "message_start", "message": started})
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            text = json.dumps(block["input"])
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": text}
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": end, "usage": {"output_tokens": usage["output_tokens"]}})
    yield _event({"type": "message_stop"})


def _event(data: Mapping[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def _messages(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    messages = request.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, Mapping):
            yield message
