"""Turn a schedule of farm.yaml into a run: one for each occurrence, whoever submits it, and how often."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from farm.authoring.load import load_suite
from farm.authoring.scope import Scope
from farm.authoring.select import select_cases
from farm.documents.checking import did_you_mean
from farm.errors import FarmError, UsageError
from farm.model.cron import parse_cron
from farm.model.occurrences import last_occurrence, next_occurrence
from farm.model.schedule import ScheduleSpec
from farm.model.suite import Suite
from farm.queue.broker import Broker
from farm.queue.planning import Planner, RunOptions
from farm.queue.submit import submit_planned
from farm.settings import FARM_FILE, Settings, load_settings


class TakenError(FarmError):
    """Another schedule has a run of the id that this one's would have."""


@dataclass(frozen=True)
class Schedule:
    """A schedule with the suite that it belongs to."""

    root: Path
    suite: str
    name: str
    spec: ScheduleSpec

    def last(self, now: datetime) -> datetime:
        """Give its last occurrence."""
        return last_occurrence(parse_cron(self.spec.cron), ZoneInfo(self.spec.timezone), now)

    def next(self, now: datetime) -> datetime:
        """Give its next occurrence."""
        return next_occurrence(parse_cron(self.spec.cron), ZoneInfo(self.spec.timezone), now)

    def run_id(self, occurrence: datetime) -> str:
        """Give the id of an occurrence's run: always the same, so that there is one run of it."""
        return f"{occurrence:%Y%m%d-%H%M%S}-{_hash(self.suite, self.name)[:6]}"

    @property
    def definition(self) -> str:
        """What is another one once the schedule comes at other times."""
        return _hash(self.suite, self.name, self.spec.cron, self.spec.timezone)

    @property
    def scope(self) -> Scope:
        """Which cases of an earlier run are its own."""
        return Scope(root=self.root, paths=self.paths, tags=self.spec.tags)

    @property
    def paths(self) -> list[Path]:
        """What it runs."""
        return [self.root / path for path in self.spec.paths]


def schedules_of(root: Path, settings: Settings) -> dict[str, Schedule]:
    """Give the schedules of a project by name."""
    return {
        name: Schedule(root, settings.name or "", name, spec) for name, spec in settings.schedules.items()
    }


def find_schedule(root: Path, name: str) -> tuple[Schedule, Settings]:
    """Read farm.yaml, and give the schedule of a name."""
    settings = load_settings(root)
    known = schedules_of(root, settings)
    if name not in known:
        meant = did_you_mean(name, known) or (f"known are {', '.join(known)}" if known else "it has none")
        raise UsageError(f'no schedule "{name}" in {os.path.relpath(root / FARM_FILE)}; {meant}')
    return known[name], settings


def load_scheduled(schedule: Schedule, settings: Settings) -> Suite:
    """Load what a schedule runs."""
    suite = load_suite(schedule.paths, settings=settings, root=schedule.root)
    return select_cases(suite, tags=schedule.spec.tags, trials=schedule.spec.trials)


def submit_scheduled(
    schedule: Schedule,
    settings: Settings,
    suite: Suite,
    broker: Broker,
    run_id: str,
    *,
    now: datetime,
    occurrence: datetime | None = None,
    out: Path | None = None,
) -> bool:
    """Submit a schedule's run; False if there is one of this id already."""
    spec = schedule.spec
    baseline = schedule.root / spec.baseline
    options = RunOptions(
        agent=spec.agent,
        model=spec.model,
        max_cost_usd=spec.max_cost_usd,
        out=out,
        # A report of an earlier run tells an agent what it is judged by.
        hidden=(baseline,) if os.path.exists(baseline) else (),  # noqa: PTH110 — any text may come
    )
    deadline = now + timedelta(minutes=spec.deadline_minutes)
    fields = {"schedule": schedule.name, "deadline": deadline.isoformat(timespec="seconds")}
    if occurrence is not None:
        fields["scheduled_for"] = occurrence.isoformat(timespec="seconds")
    planner = Planner(suite, settings, options, broker)
    created = submit_planned(suite, planner.plan, broker, run_id, budget_usd=spec.max_cost_usd, **fields)
    if created:
        broker.ledger.await_disk()
    else:
        check_not_taken(schedule, broker, run_id)
    return created


def check_not_taken(schedule: Schedule, broker: Broker, run_id: str) -> bool:
    """Say whether the ledger has a run of this id; TakenError if that is not this schedule's."""
    status = broker.ledger.status(run_id)
    if status is None:
        return False
    theirs = (status.fields.get("suite"), status.fields.get("schedule"))
    if theirs != (schedule.suite, schedule.name):
        # One in 16 million: rather told of than guarded against with ids that nobody can read.
        raise TakenError(f"another schedule has a run {run_id}; give this one another name or minute")
    return True


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
