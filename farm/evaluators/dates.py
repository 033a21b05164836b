"""Read a day from a text in one of several formats, made of the tokens YYYY MMMM MMM MM M DD D HH mm ss."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Any

from farm.errors import EvaluatorError
from farm.evaluators.wording import quoted

# Without DD/MM/YYYY and MM/DD/YYYY: nobody can tell 03/04/2025. An author who can says so in `formats`.
DEFAULT_FORMATS = (
    "YYYY-MM-DD",
    "YYYY/MM/DD",
    "YYYYMMDD",
    "D-MMM-YYYY",
    "D MMM YYYY",
    "D MMMM YYYY",
    "MMM D, YYYY",
    "MMMM D, YYYY",
)

# A moment, ISO 8601: its day counts, as it is written.
_MOMENT = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"[T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)

# Long months first: `MMM` must not take the `Jan` of `January` where the format goes on.
_TOKENS = {
    "YYYY": r"(?P<year>\d{4})",
    "MMMM": r"(?P<long_month>[A-Za-z]{3,9})",
    "MMM": r"(?P<short_month>[A-Za-z]{3})",
    "MM": r"(?P<month>\d{2})",
    "M": r"(?P<month>\d{1,2})",
    "DD": r"(?P<day>\d{2})",
    "D": r"(?P<day>\d{1,2})",
    "HH": r"\d{2}",
    "mm": r"\d{2}",
    "ss": r"\d{2}",
}
_TOKEN = re.compile("|".join(_TOKENS))

_MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)


def parse_date(value: Any, formats: tuple[str, ...], *, or_default: bool = False) -> date | None:
    """Give the day that a text names in the first of the formats that fits; no formats: the default ones."""
    patterns = [_compiled(form) for form in formats]
    if or_default or not formats:
        patterns += [*map(_compiled, DEFAULT_FORMATS), _MOMENT]
    if not isinstance(value, str):
        return None
    for pattern in patterns:
        if (found := pattern.fullmatch(value.strip())) and (day := _day(found)):
            return day
    return None


@lru_cache(maxsize=256)
def _compiled(form: str) -> re.Pattern[str]:
    regex = []
    at = 0
    while at < len(form):
        if token := _TOKEN.match(form, at):
            regex.append(_TOKENS[token[0]])
            at = token.end()
        elif form[at].isalpha() and form[at] not in "TZ":
            raise EvaluatorError(
                f"date format {quoted(form)}: unknown {quoted(form[at])}; known are {' '.join(_TOKENS)}"
            )
        else:
            regex.append(re.escape(form[at]))
            at += 1
    try:
        pattern = re.compile("".join(regex), re.ASCII)
    except re.error:
        raise EvaluatorError(f"date format {quoted(form)} names a part twice") from None
    months = {"month", "short_month", "long_month"} & pattern.groupindex.keys()
    if len(months) != 1 or not {"year", "day"} <= pattern.groupindex.keys():
        raise EvaluatorError(f"date format {quoted(form)} must have a year, a month and a day, each once")
    return pattern


def _day(found: re.Match[str]) -> date | None:
    parts = found.groupdict()
    month = parts.get("month")
    number = int(month) if month else _month_number(parts.get("long_month") or parts.get("short_month") or "")
    try:
        return date(int(parts["year"]), number, int(parts["day"]))
    except ValueError:
        return None


def _month_number(name: str) -> int:
    """Give 1 to 12 for a month's name or its first three letters; 0 for any other word."""
    for number, month in enumerate(_MONTHS, 1):
        if name.casefold() in (month, month[:3]):
            return number
    return 0
