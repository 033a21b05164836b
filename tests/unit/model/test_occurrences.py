"""When a cron line comes, also where clocks are put forward and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.model.cron import Cron, parse_cron
from farm.model.occurrences import last_occurrence, next_occurrence

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = timedelta(minutes=1)
# By an hour and by half an hour, north and south, at midnight and over it, and not at all.
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "America/Nuuk",
    "Asia/Beirut",
    "Africa/Casablanca",
    "Asia/Kolkata",
    "Pacific/Apia",
    "UTC",
]
SHIFTS_AT_NIGHT = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]

moments = st.datetimes(datetime(2005, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def number_lists(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.lists(st.integers(low, high), min_size=1, max_size=3).map(
        lambda found: ",".join(map(str, found))
    )
    ranges = st.tuples(st.integers(low, high), st.integers(low, high), st.integers(1, 9)).map(
        lambda found: f"{min(found[:2])}-{max(found[:2])}/{found[2]}"
    )
    return st.one_of(st.just("*"), st.integers(1, 20).map("*/{}".format), numbers, ranges)


lines = st.tuples(
    number_lists(0, 59), number_lists(0, 23), number_lists(1, 28), number_lists(1, 12), number_lists(0, 7)
).map(" ".join)


def occurrences(cron: Cron, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """All from the start (not included) to the end (included)."""
    found = []
    while (start := next_occurrence(cron, zone, start)) <= end:
        found.append(start)
    return found


def by_the_minute(cron: Cron, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """The same by watching a clock on the wall: what it shows for the first time, and what it leaves out."""
    found = []
    moment = start.replace(second=0, microsecond=0)
    shown = moment.astimezone(zone)
    while (moment := moment + MINUTE) <= end:
        before, shown = shown, moment.astimezone(zone)
        left_out = shown.replace(tzinfo=None) - before.replace(tzinfo=None) - MINUTE
        skipped = (before.replace(tzinfo=None) + n * MINUTE for n in range(1, left_out // MINUTE + 1))
        if (shown.fold == 0 and cron.matches(shown)) or any(map(cron.matches, skipped)):
            found.append(moment)
    return found


@cache
def shifts(zone: ZoneInfo, year: int) -> list[datetime]:
    """The days of a year on which a zone's clocks are put forward or back."""
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(366)]
    return [a for a, b in pairwise(days) if a.astimezone(zone).utcoffset() != b.astimezone(zone).utcoffset()]


@settings(max_examples=8, deadline=None)
@given(line=lines, zone=st.sampled_from(ZONES), year=st.integers(2007, 2034), data=st.data())
def test_occurrences_are_what_a_clock_on_the_wall_shows(line: str, zone: str, year: int, data: st.DataObject):
    info = ZoneInfo(zone)
    changes = shifts(info, year) or [datetime(year, 2, 28, tzinfo=UTC)]
    start = data.draw(st.sampled_from(changes)) - timedelta(hours=data.draw(st.integers(0, 20)))
    end = start + timedelta(hours=36)
    cron = parse_cron(line)
    assert occurrences(cron, info, start, end) == by_the_minute(cron, info, start, end)


@settings(max_examples=50, deadline=None)
@given(line=lines, zone=st.sampled_from(ZONES), moment=moments)
def test_the_last_one_and_the_next_one_have_none_between_them(line: str, zone: str, moment: datetime):
    cron, info = parse_cron(line), ZoneInfo(zone)
    last, following = last_occurrence(cron, info, moment), next_occurrence(cron, info, moment)
    assert last <= moment < following
    assert next_occurrence(cron, info, last) == following
    assert last_occurrence(cron, info, following - timedelta(microseconds=1)) == last
    assert last_occurrence(cron, info, following) == following


@settings(max_examples=50, deadline=None)
@given(
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    zone=st.sampled_from(SHIFTS_AT_NIGHT),
    year=st.integers(2006, 2033),
    data=st.data(),
)
def test_what_is_daily_comes_once_on_every_day(
    hour: int, minute: int, zone: str, year: int, data: st.DataObject
):
    info = ZoneInfo(zone)
    day = data.draw(st.sampled_from(shifts(info, year))).date() - timedelta(days=3)
    start = datetime(day.year, day.month, day.day, 12, tzinfo=info).astimezone(UTC)
    found = occurrences(parse_cron(f"{minute} {hour} * * *"), info, start, start + timedelta(days=7))
    days = [at.astimezone(info).date() for at in found]
    assert days == [days[0] + timedelta(days=n) for n in range(len(days))]
    assert len(days) in (6, 7, 8)


@pytest.mark.parametrize(
    ("line", "after", "expected"),
    [
        ("30 2 * * *", "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),  # 02:30 is left out
        ("30 2 * * *", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"),
        ("30 2 * * *", "2026-10-24T12:00+02:00", "2026-10-25T02:30+02:00"),  # the first of two
        ("30 2 * * *", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"),
        ("*/30 * * * *", "2026-03-29T01:30+01:00", "2026-03-29T03:00+02:00"),
        ("0 12 1 * mon", "2026-06-02T00:00+02:00", "2026-06-08T12:00+02:00"),  # the first, or a Monday
        ("0 12 */31 * mon", "2026-06-02T00:00+02:00", "2027-02-01T12:00+01:00"),  # the first and a Monday
        ("0 0 29 2 *", "2096-03-01T00:00+01:00", "2104-02-29T00:00+01:00"),
        ("0 0 29 2 */7", "2088-03-01T00:00+01:00", "2128-02-29T00:00+01:00"),  # the next on a Sunday
        ("0 0 */31 1 */7", "2006-01-02T00:00+01:00", "2012-01-01T00:00+01:00"),
        ("0 9 * * MON-fri", "2026-06-05T09:00+02:00", "2026-06-08T09:00+02:00"),
        ("0 9 * * 7", "2026-06-01T00:00+02:00", "2026-06-07T09:00+02:00"),
        ("0 9 * jan,JUL *", "2026-06-01T00:00+02:00", "2026-07-01T09:00+02:00"),
    ],
)
def test_the_next_one_in_berlin(line: str, after: str, expected: str):
    found = next_occurrence(parse_cron(line), BERLIN, datetime.fromisoformat(after))
    assert found.astimezone(BERLIN).isoformat(timespec="minutes") == expected


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("@daily", "five fields"),
        ("60 * * * *", 'minute "60": must be of numbers from 0 to 59'),
        ("* 24 * * *", 'hour "24"'),
        ("* * 0 * *", 'day of the month "0": must be of numbers from 1 to 31'),
        ("* * * 13 *", 'month "13".*or jan to dec'),
        ("* * * * 8", 'day of the week "8".*or sun to sat'),
        ("* * * * mo", 'day of the week "mo"'),
        ("5-1 * * * *", "5 comes after 1"),
        ("*/0 * * * *", "a number from 1"),
        ("*/x * * * *", "a number from 1"),
        ("5/10 * * * *", 'a step needs a range, such as "5-59/10"'),
        ("1,,2 * * * *", 'minute ""'),
        ("-1 * * * *", 'minute "-1"'),
        ("² * * * *", "minute"),
        ("0 0 31 2,4 *", "never comes"),
    ],
)
def test_a_line_that_is_none_says_why(line: str, why: str):
    with pytest.raises(ValueError, match=why):
        parse_cron(line)
