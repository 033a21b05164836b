"""Turn the five fields of a cron line into the local minutes that it means. Knows no time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LOOK_DAYS = 366 * 41  # a 29 February on one day of the week may not come for forty years

EXAMPLE = '"30 2 * * *" (at 02:30 every day)'


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()  # names of the numbers from `low` on


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _WEEKDAYS),  # both 0 and 7 are Sunday
)


@dataclass(frozen=True)
class Cron:
    """When something is to happen, by a clock on the wall."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either_day: bool  # both kinds of day are restricted: then one of them is enough

    def matches(self, moment: datetime) -> bool:
        """Say whether a local minute is meant."""
        return moment.minute in self.minutes and moment.hour in self.hours and self._has(moment.date())

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Give the local minutes after a local moment, in order."""
        for day in range(_LOOK_DAYS):
            yield from (at for at in self._times(moment.date() + timedelta(day)) if at > moment)

    def until(self, moment: datetime) -> Iterator[datetime]:
        """Give the local minutes up to a local moment, from the last one back."""
        for day in range(_LOOK_DAYS):
            times = reversed(self._times(moment.date() - timedelta(day)))
            yield from (at for at in times if at <= moment)

    def _times(self, day: date) -> list[datetime]:
        if not self._has(day):
            return []
        return [datetime.combine(day, time(hour, minute)) for hour in self.hours for minute in self.minutes]

    def _has(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_number, by_name = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_number or by_name if self.either_day else by_number and by_name


@lru_cache(maxsize=64)
def parse_cron(text: str) -> Cron:
    """Read a cron line; ValueError says what is wrong with it."""
    written = text.split()
    if len(written) != len(_FIELDS):
        names = ", ".join(field.name for field in _FIELDS)
        raise ValueError(f'"{text}" is no cron line: write five fields ({names}), such as {EXAMPLE}')
    minutes, hours, days, months, weekdays = (
        _read(field, part) for field, part in zip(_FIELDS, written, strict=True)
    )
    either_day = not written[2].startswith("*") and not written[4].startswith("*")
    if not either_day and not any(min(days) <= _LONGEST[month - 1] for month in months):
        raise ValueError(f'"{text}" never comes: no such month has so many days')
    return Cron(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=either_day,
    )


def _read(field: _Field, text: str) -> frozenset[int]:
    return frozenset(number for part in text.split(",") for number in _part(field, part))


def _part(field: _Field, text: str) -> range:
    what, slash, step_text = text.partition("/")
    first_text, dash, last_text = what.partition("-")
    if what == "*":
        # Not to 7, which is another word for 0: `*/2` would have Sunday twice, as an even and an odd day.
        first, last = field.low, min(field.high, 6) if field.words is _WEEKDAYS else field.high
    else:
        first = _number(field, first_text, text)
        last = _number(field, last_text, text) if dash else first
    if first > last:
        raise ValueError(f'{field.name} "{text}": {first_text} comes after {last_text}')
    if slash and (not step_text.isdecimal() or int(step_text) < 1):
        raise ValueError(f'{field.name} "{text}": after the slash stands a number from 1, such as "*/15"')
    if slash and what != "*" and not dash:
        raise ValueError(
            f'{field.name} "{text}": a step needs a range, such as "{what}-{field.high}/{step_text}"'
        )
    return range(first, last + 1, int(step_text) if slash else 1)


def _number(field: _Field, text: str, part: str) -> int:
    if text.lower() in field.words:
        return field.low + field.words.index(text.lower())
    if text.isdecimal() and text.isascii() and len(text) <= 3 and field.low <= int(text) <= field.high:
        return int(text)
    named = f", or {field.words[0]} to {field.words[-1]}" if field.words else ""
    raise ValueError(
        f'{field.name} "{part}": must be of numbers from {field.low} to {field.high}{named}, or "*"'
    )
