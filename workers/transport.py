"""Kombu's way to Redis, for workers that take messages as hints.

Kombu's own keeps a copy of every message until it is acknowledged, in two transactions that cost more than
all else it does; and it ends the worker, with all its sessions, as soon as a queue holds something that it
can't read. Here what is lost is found by the janitor.
"""

from __future__ import annotations

import logging
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis

_log = logging.getLogger(__name__)


class Channel(redis.Channel):
    """Keeps no copies, and drops what can't be read as a message."""

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Forget the copy of a message: there is none, as no queue of ours asks for one (`no_ack`)."""

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
