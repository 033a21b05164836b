"""Kombu's way to Redis, for workers that take messages as hints.

Kombu's own keeps a copy of every message until it is acknowledged, in two transactions that cost more than
all else it does; and it ends the worker, with all its sessions, as soon as a queue holds something that it
can't read. Here what is lost is found by the janitor, and what is not one of our messages is dropped before
Celery sees it: Celery would log its content, or run what it asks for beside our tasks.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Container
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis

# One of ours has less than 2 KiB, beside the id of its case.
MAX_MESSAGE_BYTES = 64 * 2**10

# What reading something that is no message ends in, sooner or later; not that the connection is lost.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
# What Celery is to know of a message; the last is for Flower. More would only be a way to confuse it.
_HEADERS = ("lang", "task", "id", "kwargsrepr")
_TASK_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_SHOWN_CHARACTERS = 200

_log = logging.getLogger(__name__)


class _Client(redis.redis.Redis):
    """Takes nothing from a queue that is too large for a message of ours."""

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        answer = super().parse_response(connection, command_name, **options)
        if command_name == "BRPOP" and answer and len(answer[1]) > MAX_MESSAGE_BYTES:
            raise ValueError(f"it has {len(answer[1])} bytes")
        return answer


class Channel(redis.Channel):
    """Keeps no copies, and drops what can't be read as a message."""

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Forget the copy of a message: there is none, as no queue of ours asks for one (`no_ack`)."""

    def _get_client(self) -> Any:
        super()._get_client()  # it checks the version
        return _Client

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except _UNREADABLE as error:
            # Should it have been one of ours, the janitor queues it again.
            _log_dropped("a queue", error)
            raise Empty from None

    def _receive_one(self, c: Any) -> Any:
        try:
            return super()._receive_one(c)
        except _UNREADABLE as error:
            _log_dropped("a channel of all workers", error)
            return False


class Transport(redis.Transport):
    """Makes such channels, and delivers to our queues nothing but our tasks."""

    Channel = Channel
    queues: Container[str] = ()
    tasks: Container[str] = ()

    def _deliver(self, message: Any, queue: str) -> None:
        if queue in self.queues:
            message = _checked(message, self.tasks)
        super()._deliver(message, queue)


def _checked(message: Any, tasks: Container[str]) -> dict[str, Any]:
    """Give what we need of a message; raise one of _UNREADABLE unless it is such as the farm sends."""
    headers, properties = message["headers"], message["properties"]
    # Celery brings tasks of its own.
    if headers["task"] not in tasks or headers["task"].startswith("celery."):
        raise ValueError("it names no task of the farm")
    if message["content-type"] != "application/json" or properties["body_encoding"] != "base64":
        raise ValueError("its content is no JSON")
    if not _TASK_ID.fullmatch(headers["id"]):
        raise ValueError("its id is none")
    if any(headers.get(option) for option in ("eta", "expires", "compression")):
        raise ValueError("it has options that the farm does not use")
    arguments, named, beside = json.loads(base64.b64decode(message["body"], validate=True))
    if not isinstance(arguments, list) or not isinstance(named, dict) or any(beside.values()):
        raise ValueError("its arguments are not those of a task, or there is more than that")
    kept = {name: headers[name] for name in _HEADERS if isinstance(headers.get(name), str)}
    return {**message, "headers": kept}


def _log_dropped(where: str, error: Exception) -> None:
    # Not what it was: that may be anything, and much.
    _log.warning("dropped from %s what is no message of ours: %.*r", where, _SHOWN_CHARACTERS, str(error))


def use_for_redis() -> None:
    """Have Kombu take this one for the URLs of Redis; it has no other place to say so."""
    TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), f"{__name__}:Transport"))


def deliver_only(tasks: Container[str], queues: Container[str]) -> None:
    """Let nothing but these tasks come from these queues."""
    Transport.tasks, Transport.queues = tasks, queues
