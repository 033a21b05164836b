"""Serve scenarios as a Messages API on loopback, and remember what was asked.

The path of the base URL says which scenario it is: `http://127.0.0.1:PORT/NAME`; what follows the name is the
caller's own. Which turn comes next is told from the conversation in the request, so any number of sessions
can share a scenario. Only faults with a count are remembered, by session.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from farm.testing.answers import count_answers, error_body, first_prompt, message_of, stream_events
from farm.testing.scenario import Fault, Scenario, Turn

HOST = "127.0.0.1"
MAX_BODY_BYTES = 64 * 2**20

_MESSAGES, _COUNT_TOKENS = "/v1/messages", "/v1/messages/count_tokens"
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "cookie"})
_SESSION_HEADER = "x-claude-code-session-id"
_REQUESTS_KEPT = 10_000


@dataclass(frozen=True)
class ReceivedRequest:
    """One request for a message, and what became of it."""

    scenario: str
    path: str
    headers: Mapping[str, str]  # names in lower case; without keys and tokens
    body: Mapping[str, Any]
    turn: int
    is_streamed: bool
    status: int  # of the answer; 200 also for one that was cut off

    @property
    def text(self) -> str:
        """All that was sent, to search in."""
        return json.dumps(self.body, ensure_ascii=False)


class ScriptedApi:
    """A Messages API that plays scenarios; a context manager, in threads of its own."""

    def __init__(self, scenarios: Mapping[str, Scenario], *, port: int = 0) -> None:
        self._scenarios = dict(scenarios)
        self._received: deque[ReceivedRequest] = deque(maxlen=_REQUESTS_KEPT)
        self._faults: Counter[tuple[str, str, int]] = Counter()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.closing = threading.Event()
        self._server = _Server((HOST, port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving; answers that are delayed are not given any more."""
        self.closing.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def base_url(self, name: str) -> str:
        """Give the base URL of a scenario; more may be added to its path."""
        if name not in self._scenarios:
            raise KeyError(name)
        return f"http://{HOST}:{self._server.server_port}/{name}"

    def received(self, name: str | None = None) -> tuple[ReceivedRequest, ...]:
        """Give the requests for messages so far (the last 10,000), of one scenario or of all."""
        with self._lock:
            return tuple(request for request in self._received if name in (None, request.scenario))

    def scenario(self, path: str) -> tuple[str, Scenario] | None:
        """Find the scenario that a path names."""
        name = path.strip("/").partition("/")[0]
        found = self._scenarios.get(name)
        return None if found is None else (name, found)

    def remember(self, request: ReceivedRequest) -> None:
        """Keep a request for `received`."""
        with self._lock:
            self._received.append(request)

    def next_mark(self) -> str:
        """Give what no other answer has in its ids, not even to a subagent that was asked the same."""
        return f"{next(self._numbers):06}"

    def fault(self, turn: Turn, session: tuple[str, str], index: int) -> Fault | None:
        """Give the fault that a turn has now: one with a count is used up."""
        fault = turn.fault
        if fault is None or fault.count is None:
            return fault
        with self._lock:
            self._faults[(*session, index)] += 1
            return fault if self._faults[(*session, index)] <= fault.count else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # an answer may be hours away
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], api: ScriptedApi) -> None:
        self.api = api
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that was killed is what tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        known = self.server.api.scenario(urlsplit(self.path).path) is not None
        self._send(HTTPStatus.OK if known else HTTPStatus.NOT_FOUND, b"")

    def do_GET(self) -> None:
        self._send_error(HTTPStatus.NOT_FOUND, "there are only messages here")

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        found = self.server.api.scenario(path)
        request = self._read_request()
        if request is None:
            self._send_error(HTTPStatus.BAD_REQUEST, "the body must be a JSON object with messages")
        elif found is None:
            self._send_error(HTTPStatus.NOT_FOUND, f"no scenario for {path}")
        elif path.endswith(_COUNT_TOKENS):
            self._send_json(HTTPStatus.OK, {"input_tokens": len(json.dumps(request)) // 4})
        elif path.endswith(_MESSAGES):
            self._answer(path, *found, request)
        else:
            self._send_error(HTTPStatus.NOT_FOUND, f"{path} is not served")

    def _answer(self, path: str, name: str, scenario: Scenario, request: Mapping[str, Any]) -> None:
        api, prompt, index = self.server.api, first_prompt(request), count_answers(request)
        headers = {key.lower(): value for key, value in self.headers.items()}
        turn = scenario.turn(prompt, index)
        session = f"{path} {headers.get(_SESSION_HEADER, '')}"
        fault = None if turn is None else api.fault(turn, (session, prompt), index)
        status = HTTPStatus.BAD_REQUEST if turn is None else (fault and fault.status) or HTTPStatus.OK
        api.remember(
            ReceivedRequest(
                scenario=name,
                path=path,
                headers={key: value for key, value in headers.items() if key not in _SECRET_HEADERS},
                body=request,
                turn=index,
                is_streamed=request.get("stream") is True,
                status=int(status),
            )
        )
        if turn is None:
            told = f'scenario "{name}" has no turn {index + 1} for this conversation'
            self._send_error(status, f"{told}; add one, or `repeat_last: true`")
        elif api.closing.wait(turn.delay_seconds) and turn.delay_seconds:
            self.close_connection = True
        else:
            self._play(turn, fault, request)

    def _play(self, turn: Turn, fault: Fault | None, request: Mapping[str, Any]) -> None:
        api = self.server.api
        is_streamed = request.get("stream") is True
        if fault is not None and fault.status is not None:
            again = fault.retry_after_seconds
            extra = {} if again is None else {"retry-after": f"{again:g}"}
            self._send_json(fault.status, error_body(fault.status, fault.message, fault.type), extra)
        elif fault is not None and fault.malformed is not None:
            kind = "text/event-stream" if is_streamed else "application/json"
            self._send(HTTPStatus.OK, fault.malformed.encode(), {"content-type": kind})
        else:
            message = message_of(turn, request, api.next_mark())
            cut = None if fault is None else fault.drop_after_events
            if is_streamed:
                self._stream(stream_events(message), cut)
            elif cut is None:
                self._send_json(HTTPStatus.OK, message)
            else:
                self._send_half(json.dumps(message).encode())

    def _stream(self, events: Iterable[bytes], cut: int | None) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for sent, event in enumerate(events):
            if sent == cut:
                self.close_connection = True  # without the last chunk: the client sees a broken connection
                return
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def _send_half(self, body: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        self.close_connection = True

    def _read_request(self) -> Mapping[str, Any] | None:
        """Read the body; None if it is no request for a message."""
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True  # what follows can't be told from the next request
            return None
        try:
            request = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return None
        return request if isinstance(request, dict) and isinstance(request.get("messages"), list) else None

    def _send_error(self, status: int, message: str) -> None:
        self._send_json(status, error_body(status, message))

    def _send_json(self, status: int, data: object, extra: Mapping[str, str] | None = None) -> None:
        body = json.dumps(data).encode()
        self._send(status, body, {"content-type": "application/json", **(extra or {})})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
