"""What farm.yaml says of runs that come by the clock: when, what, and who is told of it."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field, field_validator, model_validator

from farm.model.base import Model, NonEmptyText, PositiveCount, PositiveNumber, wrong

Event: TypeAlias = Literal[
    "regression",  # a case is worse than in the baseline, or gone
    "failure",  # a case failed, as new as it may be
    "recovery",  # the run before was not well, and this one is
    # A case could not be judged, or fails and was not judged in the baseline; the run was ended early, or
    # could not be submitted.
    "errors",
    "overdue",  # not over by the deadline
]
EVENTS: tuple[Event, ...] = get_args(Event)
USUAL_EVENTS: tuple[Event, ...] = ("regression", "recovery", "errors", "overdue")
DEFAULT_DEADLINE_MINUTES = 240.0

SCHEDULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class NotifySpec(Model):
    """Who is told, and of what."""

    on: Annotated[tuple[Event, ...], Field(min_length=1)] = USUAL_EVENTS  # which events are told
    webhook: NonEmptyText | None = None  # a URL; ${NAME} stands for a variable of beat's environment
    command: NonEmptyText | None = None  # for the shell, in the suite root

    @field_validator("webhook")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if "${" in VARIABLE.sub("", url):
            raise wrong("a variable is written ${NAME}, with letters, digits and _ only")
        if not url.startswith(("http://", "https://")) and not VARIABLE.match(url):
            # Not quoted: it may be a secret that somebody wrote into the file.
            raise wrong('"webhook" must begin with https:// or http://, or be a ${NAME}')
        if not url.isprintable() or " " in url:
            raise wrong('"webhook" has a character that no URL has')
        return url

    @model_validator(mode="after")
    def _goes_somewhere(self) -> NotifySpec:
        if (self.webhook is None) == (self.command is None):
            raise wrong('give either "webhook" or "command"')
        return self


class ScheduleSpec(Model):
    """A run that comes by the clock."""

    cron: NonEmptyText  # minute, hour, day of the month, month, day of the week
    timezone: NonEmptyText = "UTC"  # of the times in cron
    paths: Annotated[tuple[NonEmptyText, ...], Field(min_length=1)]  # relative to farm.yaml
    agent: NonEmptyText | None = None  # as --agent
    model: NonEmptyText | None = None  # as --model
    trials: Annotated[PositiveCount, Field(le=1000)] | None = None  # as --trials
    tags: tuple[NonEmptyText, ...] = ()  # as --tag
    max_cost_usd: PositiveNumber | None = None  # as --max-cost
    baseline: NonEmptyText = "latest"  # `latest`, `blessed`, the id of a run, or a report
    # How long a run may take before somebody is told.
    deadline_minutes: PositiveNumber = DEFAULT_DEADLINE_MINUTES
    notify: tuple[NotifySpec, ...] = ()  # who is told, and of what

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, text: str) -> str:
        from farm.model.cron import parse_cron  # not at the top: only who has schedules needs it

        try:
            parse_cron(text)
        except ValueError as error:
            raise wrong(str(error)) from None
        return text

    @field_validator("timezone")
    @classmethod
    def _is_zone(cls, name: str) -> str:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # no such zone; no name that a zone could have; a directory
            raise wrong(_explain_zone(name)) from None
        return name


def _explain_zone(name: str) -> str:
    from zoneinfo import available_timezones

    from farm.documents.checking import did_you_mean

    known = {zone.casefold(): zone for zone in available_timezones()}
    if not known:
        return f'timezone "{name}" can\'t be looked up: this machine knows none; install its package "tzdata"'
    meant = re.sub('"(.+)"', lambda found: f'"{known[found[1]]}"', did_you_mean(name, known))
    return f'unknown timezone "{name}"; ' + (meant or "write it like Europe/Berlin")
