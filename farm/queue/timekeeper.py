"""Have every schedule's runs submitted when it is time, and told of when they are over: what a beat does.

Nothing that matters is kept here. Which occurrences have been submitted, which runs are open and what has
been told lies in the ledger and the archive: a beat may be restarted at any moment, and there may be two.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from farm.errors import FarmError
from farm.queue.archive import REPORT, NotArchivedError
from farm.queue.broker import Broker
from farm.queue.delivery import deliver_notices, missing_variables
from farm.queue.ledger import RunStatus
from farm.queue.notices import Notices
from farm.queue.schedules import Schedule, TakenError, check_not_taken, schedules_of
from farm.queue.settling import settle_run, tell_errors, tell_overdue
from farm.reporting.notification import one_line
from farm.settings import FARM_FILE, load_settings

CATCH_UP = timedelta(hours=24)  # an occurrence that was missed, and is older, is told of, not run
LOOK_EVERY_SECONDS = 5.0

_SUBMIT_SECONDS = 900.0
_TRIES = 3
_TRY_AGAIN = timedelta(minutes=1)

_log = logging.getLogger(__name__)

Submit = Callable[[Schedule, datetime], None]  # FarmError if it can't be submitted; a second time is harmless


class Background(Protocol):
    """Does what may take long while the clock is watched."""

    def start(self, key: str, job: Callable[[], None]) -> None:
        """Begin a job, unless the last one of this key still goes on."""
        ...


class Threads:
    """A thread for each job; they end with the process."""

    def __init__(self) -> None:
        self._going_on: set[str] = set()

    def start(self, key: str, job: Callable[[], None]) -> None:
        """Begin a job."""
        if key in self._going_on:  # asked by one thread only
            return
        self._going_on.add(key)

        def run() -> None:
            try:
                job()
            finally:
                self._going_on.discard(key)

        threading.Thread(target=run, name=f"farm-{key}", daemon=True).start()


@dataclass
class _Failing:
    """An occurrence that could not be submitted."""

    tries: int
    again_at: datetime


class Timekeeper:
    """Looks after the schedules of one project."""

    def __init__(
        self,
        root: Path,
        broker: Broker,
        submit: Submit,
        *,
        background: Background | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.schedules: dict[str, Schedule] = {}
        self._root = root
        self._broker = broker
        self._submit = submit
        self._background = background or Threads()
        self._clock = clock
        self._environment = environment
        self._read: bytes | None = None  # the farm.yaml that the schedules are of
        self._complained_of: str | None = None
        self._handled: dict[str, str] = {}  # by schedule, the last occurrence that is nothing to do of
        self._failing: dict[str, _Failing] = {}  # by run
        self._seen_to: set[str] = set()  # runs that nothing will be to tell of any more
        self._open: dict[str, Schedule] = {}
        self._overdue: set[str] = set()
        self._unreadable: dict[str, str] = {}  # by run, why its report can't be read

    def look(self) -> float:
        """Do what is to be done now; give the seconds until there may be more."""
        self._read_schedules()
        now = self._clock()
        for schedule in self.schedules.values():
            with _going_on(f"schedule {schedule.name}"):
                self._see_to(schedule, now)
        if self.schedules:
            self._background.start("runs", self._see_to_runs)
            self._background.start("notices", self._deliver)
        waits = [(schedule.next(now) - now).total_seconds() for schedule in self.schedules.values()]
        return min([LOOK_EVERY_SECONDS, *waits])

    def _read_schedules(self) -> None:
        """Read farm.yaml if it has changed; while it is wrong, what it said before holds."""
        path = self._root / FARM_FILE
        try:
            data = path.read_bytes()
            if data == self._read:
                return
            found = schedules_of(self._root, load_settings(self._root))
        except (FarmError, OSError) as error:
            told = str(error) if isinstance(error, FarmError) else f"{path}: can't be read: {error.strerror}"
            if told != self._complained_of:
                self._complained_of = told
                _log.error("the schedules stay as they were (%s): %s", len(self.schedules), told)
            return
        self._read, self._complained_of = data, None
        self.schedules = found
        self._seen_to = set()  # another: whoever looks at runs now does so by the schedules of before
        if not found:
            _log.warning("%s has no schedules", path)
        for schedule in found.values():
            next_one = schedule.next(self._clock()).isoformat(timespec="minutes")
            _log.info(
                "%s: %s in %s, next at %s",
                schedule.name,
                schedule.spec.cron,
                schedule.spec.timezone,
                next_one,
            )
            if missing := missing_variables(schedule, self._environment):
                _log.error("%s: nobody can be told: %s is not set", schedule.name, ", ".join(missing))

    def _see_to(self, schedule: Schedule, now: datetime) -> None:
        occurrence = schedule.last(now)
        run_id = schedule.run_id(occurrence)
        since = Notices(self._broker.client).watched_since(schedule.definition, now)
        if self._handled.get(schedule.name) == run_id or occurrence < since:
            return
        if (failing := self._failing.get(run_id)) is not None and now < failing.again_at:
            return
        if self._is_submitted(schedule, run_id):
            self._handled[schedule.name] = run_id
        elif now - occurrence > CATCH_UP:
            self._handled[schedule.name] = run_id
            when = occurrence.isoformat(timespec="minutes")
            told = f"missed: no beat was running at {when}, nor for long after"
            self._tell(schedule, run_id, told, state="missed", occurrence=occurrence)
        else:
            if now - occurrence > timedelta(minutes=1) and failing is None:
                _log.warning(
                    "%s: catching up with %s", schedule.name, occurrence.isoformat(timespec="minutes")
                )
            self._background.start(f"submit-{run_id}", lambda: self._submit_run(schedule, occurrence, run_id))

    def _is_submitted(self, schedule: Schedule, run_id: str) -> bool:
        try:
            return check_not_taken(schedule, self._broker, run_id) or self._is_archived(run_id)
        except TakenError as error:
            self._tell(schedule, run_id, str(error))
            return True

    def _is_archived(self, run_id: str) -> bool:
        """Say whether there is a report: the broker may have forgotten the run."""
        with contextlib.suppress(NotArchivedError):
            return next(self._broker.archive.lines(run_id, REPORT), None) is not None
        return False

    def _submit_run(self, schedule: Schedule, occurrence: datetime, run_id: str) -> None:
        try:
            self._submit(schedule, occurrence)
        except FarmError as error:
            failing = self._failing.setdefault(run_id, _Failing(0, self._clock()))
            failing.tries += 1
            failing.again_at = self._clock() + _TRY_AGAIN
            _log.error(
                "%s: could not be submitted (%s of %s): %s", schedule.name, failing.tries, _TRIES, error
            )
            if failing.tries < _TRIES:
                return
            self._tell(schedule, run_id, f"could not be submitted: {error}", occurrence=occurrence)
        except Exception:  # noqa: BLE001 — a bug of ours in one schedule must not end the others
            _log.exception("%s: could not be submitted", schedule.name)
            self._tell(
                schedule, run_id, "could not be submitted: see the log of the beat", occurrence=occurrence
            )
        else:
            _log.info("%s: submitted as %s", schedule.name, run_id)
        self._failing.pop(run_id, None)
        self._handled[schedule.name] = run_id

    def _tell(
        self,
        schedule: Schedule,
        run_id: str,
        reason: str,
        *,
        state: str = "not_submitted",
        occurrence: datetime | None = None,
    ) -> None:
        _log.error("%s: run %s: %s", schedule.name, run_id, reason)
        with _going_on("telling of it"):
            now = self._clock()
            tell_errors(schedule, self._broker, run_id, reason, now, state=state, occurrence=occurrence)

    def _see_to_runs(self) -> None:
        with _going_on("the runs"):
            seen_to = self._seen_to
            known = self._broker.ledger.runs()
            for run_id in known:
                if run_id not in seen_to:
                    with _going_on(f"run {run_id}"):
                        if self._see_to_run(run_id):
                            seen_to.add(run_id)
            self._see_to_lost(set(known))
            seen_to &= set(known)

    def _see_to_run(self, run_id: str) -> bool:
        """Tell what is to be told of a run; True if nothing will be any more."""
        status = self._broker.ledger.status(run_id)
        schedule = self._schedule_of(status) if status is not None else None
        if status is None or schedule is None:
            return True
        if not status.is_over:
            self._open[run_id] = schedule
            if self._clock() > _deadline(status) and run_id not in self._overdue:
                tell_overdue(schedule, self._broker, status, self._clock())
                self._overdue.add(run_id)
                _log.error("%s: run %s is overdue", schedule.name, run_id)
            return False
        self._open.pop(run_id, None)
        return self._settle(schedule, status)

    def _settle(self, schedule: Schedule, status: RunStatus) -> bool:
        run_id = status.run_id
        try:
            settle_run(schedule, self._broker, status, self._clock())
        except FarmError as error:
            # The store may be away for a while; not for ever, or nobody would hear of the run.
            if self._clock() < _deadline(status):
                if self._unreadable.get(run_id) != str(error):
                    self._unreadable[run_id] = str(error)
                    _log.error("%s: run %s: its report can't be read: %s", schedule.name, run_id, error)
                return False
            self._tell(schedule, run_id, f"its report can't be read: {error}", state=status.state)
        self._unreadable.pop(run_id, None)
        return True

    def _schedule_of(self, status: RunStatus) -> Schedule | None:
        schedule = self.schedules.get(status.fields.get("schedule", ""))
        return schedule if schedule is not None and status.fields.get("suite") == schedule.suite else None

    def _see_to_lost(self, known: set[str]) -> None:
        """Tell of runs that were open at the last look, and of which the broker knows nothing now."""
        for run_id in self._open.keys() - known:
            if not self._is_archived(run_id):
                told = "the broker has lost it before it was over"
                self._tell(self._open[run_id], run_id, told, state="lost")
            del self._open[run_id]

    def _deliver(self) -> None:
        schedules = list(self.schedules.values())
        with _going_on("the notices"):
            deliver_notices(self._broker, schedules[0].suite, schedules, self._clock, self._environment)


def _deadline(status: RunStatus) -> datetime:
    """Read by when a run is to be over; what can't be read is over at once, so that somebody looks at it."""
    try:
        return datetime.fromisoformat(status.fields.get("deadline", "")).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.min.replace(tzinfo=UTC)


@contextlib.contextmanager
def _going_on(what: str) -> Iterator[None]:
    """Log what goes wrong, and go on: the rest is to be seen to, and this again at the next look."""
    try:
        yield
    except FarmError as error:
        _log.error("%s: %s", what, error)
    except Exception:  # noqa: BLE001
        _log.exception("%s", what)


class ChildSubmitter:
    """Submits in a process of its own: whatever is wrong with the tests, the beat goes on."""

    def __init__(self) -> None:
        self._children: set[subprocess.Popen[str]] = set()

    def __call__(self, schedule: Schedule, occurrence: datetime) -> None:
        """Submit an occurrence."""
        at = occurrence.isoformat(timespec="seconds")
        # -P: a directory "farm" in the user's project is not ours.
        command = [sys.executable, "-P", "-m", "farm", "schedule", "run", schedule.name]
        with subprocess.Popen(
            [*command, "--at", at, "--detach"],
            cwd=schedule.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as child:
            self._children.add(child)
            try:
                said = child.communicate(timeout=_SUBMIT_SECONDS)[1]
            except subprocess.TimeoutExpired:
                child.kill()
                raise FarmError(f"it took longer than {_SUBMIT_SECONDS:g} s") from None
            finally:
                self._children.discard(child)
        if child.returncode:
            raise FarmError(one_line(said[-1500:]) or f"exit code {child.returncode}")

    def end(self) -> None:
        """End those that still run: what they did not do will be caught up with."""
        for child in list(self._children):
            child.terminate()
