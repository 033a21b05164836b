"""Write moments as transcripts have them, and read those that CLIs write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def timestamp_of(moment: datetime) -> str:
    """Write a moment in UTC, to the microsecond."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def timestamp_now() -> str:
    """Write down this moment."""
    return timestamp_of(datetime.now(UTC))


def parse_timestamp(text: Any) -> datetime | None:
    """Read an ISO 8601 time; None if it is none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def milliseconds_between(start: str | None, end: str | None) -> float | None:
    """Give the time from one time stamp to a later one, if both can be read."""
    begun, ended = parse_timestamp(start), parse_timestamp(end)
    if begun is None or ended is None or ended < begun:
        return None
    return (ended - begun).total_seconds() * 1000
