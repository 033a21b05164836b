"""Kombu's way to Redis, for workers that survive what is no message.

Kombu's own ends the worker, with all its sessions, as soon as a queue holds something that it can't read.
"""

from __future__ import annotations

import logging
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis

_log = logging.getLogger(__name__)


class Channel(redis.Channel):
    """Drops what can't be read as a message."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            # Should it have been one of ours, the janitor queues it again.
            _log.warning("dropped what is no message: %r", error)
            raise Empty from None


class Transport(redis.Transport):
    """Makes such channels."""

    Channel = Channel


def use_for_redis() -> None:
    """Have Kombu take this one for the URLs of Redis; it has no other place to say so."""
    TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), f"{__name__}:Transport"))
