"""Turn a cron line in a time zone into moments. Pure: the caller says what time it is.

Clocks are put forward and back. A local time that does not exist comes once, at the moment when the clock is
put forward; one that exists twice comes the first time only. So what is to be done daily is done once a day.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from farm.model.cron import Cron


def next_occurrence(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime:
    """Give the first occurrence after a moment."""
    return next(at for local in cron.after(_wall(after, zone)) if (at := _moment(local, zone)) > after)


def last_occurrence(cron: Cron, zone: ZoneInfo, until: datetime) -> datetime:
    """Give the last occurrence up to a moment, this moment included."""
    local = until.astimezone(zone)
    # While the clock shows an hour for the second time, all of that hour has been already.
    repeated = _offset(local.replace(fold=0)) - _offset(local.replace(fold=1)) if local.fold else timedelta()
    walls = cron.until(_wall(until, zone) + repeated)
    return next(at for wall in walls if (at := _moment(wall, zone)) <= until)


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _moment(wall: datetime, zone: ZoneInfo) -> datetime:
    """Say when a clock on the wall shows this, for the first time."""
    moment = wall.replace(tzinfo=zone).astimezone(UTC)
    return moment if _wall(moment, zone) == wall else _shift(wall, zone)


def _shift(wall: datetime, zone: ZoneInfo) -> datetime:
    """Say when the clock was put forward over a time that it never shows."""
    # By the offset of before the shift this moment lies after it, by that of after it before.
    after = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    new = _offset(after.astimezone(zone))
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if _offset(middle.astimezone(zone)) == new:
            after = middle
        else:
            before = middle
    return after


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta()
