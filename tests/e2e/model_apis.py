"""Play scenarios as the APIs that Codex and Gemini talk to: OpenAI's Responses, and Gemini's streamed content.

The path of a base URL is `/SCENARIO/SESSION`; the session's answers are counted by it.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from farm.testing import Scenario, Turn


class ModelApis:
    """A server on loopback; a context manager, in threads of its own."""

    def __init__(self, scenarios: Mapping[str, Scenario]) -> None:
        self.scenarios = scenarios
        self.requests: list[tuple[str, Mapping[str, str], Any]] = []  # path, headers, body
        self.answers: Counter[str] = Counter()
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def asked(self, session: str) -> list[Any]:
        """Give the bodies of a session's requests."""
        return [body for path, _, body in self.requests if path.startswith(f"{session}/")]


def _handler(api: ModelApis) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = self.path.partition("?")[0]
            session = "/".join(path.split("/")[:3])
            api.requests.append((path, dict(self.headers), body))
            turns = api.scenarios[path.split("/")[1]].turns
            index = api.answers[session]
            turn = turns[min(index, len(turns) - 1)]
            fault = turn.fault
            if fault is not None and fault.status is not None:
                error = {"code": fault.status, "message": fault.message, "status": "SCRIPTED"}
                self.send_whole(fault.status, json.dumps({"error": error}).encode())
            elif not (turn.delay_seconds and api.closing.wait(turn.delay_seconds)):
                api.answers[session] += fault is None
                events = _responses(turn, index) if path.endswith("/responses") else _contents(turn)
                self.stream(events, None if fault is None else fault.drop_after_events)

        def send_whole(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def stream(self, events: Iterator[bytes], cut: int | None) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for number, event in enumerate(events):
                if number == cut:
                    self.close_connection = True
                    return
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


def _responses(turn: Turn, index: int) -> Iterator[bytes]:
    """Give an answer as events of the Responses API; a tool with the one parameter `input` is a custom one."""
    items: list[dict[str, Any]] = []
    if turn.say is not None:
        content = [{"type": "output_text", "text": turn.say}]
        items.append({"type": "message", "role": "assistant", "id": f"msg_{index}", "content": content})
    for number, use in enumerate(turn.tools):
        call = {"call_id": f"call_{index}_{number}", "name": use.tool}
        if use.input.keys() == {"input"}:
            items.append({"type": "custom_tool_call", **call, "input": use.input["input"]})
        else:
            items.append({"type": "function_call", **call, "arguments": json.dumps(use.input)})
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    usage |= {"input_tokens_details": {"cached_tokens": 40}, "output_tokens_details": {"reasoning_tokens": 3}}  # type: ignore[dict-item]
    yield _event({"type": "response.created", "response": {"id": f"resp_{index}"}})
    for item in items:
        yield _event({"type": "response.output_item.done", "item": item})
    yield _event({"type": "response.completed", "response": {"id": f"resp_{index}", "usage": usage}})


def _event(data: Mapping[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def _contents(turn: Turn) -> Iterator[bytes]:
    """Give an answer as Gemini's pieces of content."""
    said = turn.say or ""
    parts: list[dict[str, Any]] = [{"text": piece} for piece in (said[:3], said[3:]) if piece]
    parts += [{"functionCall": {"name": use.tool, "args": use.input}} for use in turn.tools]
    for part in parts:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": [part]}, "index": 0}
        data: dict[str, Any] = {"candidates": [candidate]}
        if part is parts[-1]:
            candidate["finishReason"] = "STOP"
            data["usageMetadata"] = {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 40,
                "candidatesTokenCount": 10,
                "thoughtsTokenCount": 3,
                "totalTokenCount": 113,
            }
        yield f"data: {json.dumps(data)}\r\n\r\n".encode()
