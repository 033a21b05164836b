"""Ask the Messages API with the SDK: one answer a request, and an end whenever the session has to end.

The SDK is imported with the first session: that takes more than a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from farm.agents.anthropic_api import API_KEY, AUTH_TOKEN
from farm.agents.api_errors import api_error
from farm.agents.base import Session
from farm.agents.program_end import timed_out
from farm.agents.proxies import is_local
from farm.agents.records import parse_records
from farm.agents.redaction import Redaction
from farm.errors import InputError, SessionError
from farm.model.agent import AnthropicSpec
from farm.sessions.process import check_not_stopped

MAX_ANSWER_BYTES = 16 * 2**20

_BASE_URL = "https://api.anthropic.com"
_LOOK_FOR_STOP_SECONDS = 0.1


class AnthropicClient:
    """The API for one session; a context manager.

    An event loop of its own waits for answers: a request in a thread could not be ended.
    """

    def __init__(self, session: Session, secrets: Mapping[str, str], redaction: Redaction) -> None:
        assert isinstance(session.spec, AnthropicSpec)
        self._session = session
        self._spec = session.spec
        self._redaction = redaction
        self._deadline = time.monotonic() + session.timeout_seconds
        self._secrets = secrets
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        with ExitStack() as undone:
            undone.callback(self._runner.close)
            self._client = self._runner.run(_connect(self._spec, self._secrets))
            undone.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._runner:
            self._runner.run(self._client.close())

    def remaining_seconds(self) -> float:
        """Give the session's time that is left; raise SessionError if none is, or if it was stopped."""
        check_not_stopped(self._session.stop)
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise timed_out(self._session, "")
        return remaining

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and give the answer, a message as the API writes it, without secrets."""
        content = self._runner.run(self._within_time(self._send(request)))
        try:
            (record,) = parse_records(content, "the API's answer").items
        except (InputError, ValueError) as error:
            raise _bad_answer(str(error)) from None
        if record.data.get("type") != "message":
            raise _bad_answer("it is no message")
        return dict(record.data)

    async def _within_time(self, coroutine: Coroutine[Any, Any, bytes]) -> bytes:
        task = asyncio.ensure_future(coroutine)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=min(_LOOK_FOR_STOP_SECONDS, self.remaining_seconds()))
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _send(self, request: Mapping[str, Any]) -> bytes:
        from anthropic import APIConnectionError, APIError, APIStatusError

        try:
            response = await self._client.messages.with_raw_response.create(
                **request, timeout=self._spec.api_timeout_seconds
            )
        except APIStatusError as error:
            said = self._clean(error.api_message or error.message)
            raise api_error(
                error.status_code,
                f"the API answered {error.status_code}: {said}{_advice(error.status_code)}",
                retry_after_seconds=_retry_after_seconds(error.response.headers),
            ) from None
        except APIConnectionError as error:
            why = error.__cause__ or error
            said = self._clean(f"{type(why).__name__}: {why}" if str(why) else type(why).__name__)
            message = f"the API at {self._spec.base_url or _BASE_URL} did not answer: {said}"
            raise api_error(None, message) from None
        except APIError as error:
            raise _bad_answer(self._clean(error.message)) from None
        content = response.http_response.content
        if len(content) > MAX_ANSWER_BYTES:
            raise _bad_answer(f"it is larger than {MAX_ANSWER_BYTES:,} bytes")
        return self._redaction(content)

    def _clean(self, text: str) -> str:
        return self._redaction(text.encode(errors="replace")).decode(errors="replace")


async def _connect(spec: AnthropicSpec, secrets: Mapping[str, str]) -> Any:
    """Make a client that takes nothing from the environment but the way through proxies."""
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

    base_url = spec.base_url or _BASE_URL
    # The names of secrets say what they are; the key is the usual one.
    name = API_KEY if API_KEY in secrets else AUTH_TOKEN
    credential = {"api_key" if name == API_KEY else "auth_token": secrets[name]}
    options: dict[str, Any] = {"base_url": base_url, "max_retries": spec.max_retries, **credential}
    if is_local(base_url):
        options["http_client"] = DefaultAsyncHttpxClient(trust_env=False, mounts={"all://": None})
    client: Any = AsyncAnthropic(**options)
    # ANTHROPIC_CUSTOM_HEADERS, which would go to whatever API an agent names. To omit them one by one, as the
    # SDK allows, would omit its own of the same names.
    client._custom_headers = {}
    return client


def _retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None  # a date, or nothing
    return seconds if 0 <= seconds < float("inf") else None


def _advice(status: int) -> str:
    if status in (401, 403):
        return f" (the worker's {API_KEY} is what it was asked with)"
    if status == 404:
        return " (is there such a model?)"
    return ""


def _bad_answer(why: str) -> SessionError:
    return SessionError("bad_output", f"the API's answer can't be read: {why}", retryable=True)
