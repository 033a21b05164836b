"""Decide what is to be told of a scheduled run, by its report and its baseline, and leave it to be told."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from farm.errors import FarmError
from farm.model.report import SuiteReport
from farm.queue.archive import REPORT, Archive
from farm.queue.baselines import BLESSED, LATEST, NoEarlierRunError, opened_report, read_standing
from farm.queue.broker import Broker
from farm.queue.connection import shown
from farm.queue.history import brought_report, past_runs
from farm.queue.ledger import RunStatus
from farm.queue.notices import Notices, target_of
from farm.queue.schedules import Schedule
from farm.reporting.compare import Comparison, Standing, compare
from farm.reporting.notification import (
    Notification,
    dump_notification,
    events_of,
    one_line,
    unclear_failures,
    with_outcome,
    with_text,
)
from farm.reporting.report_file import ReportFile
from farm.reporting.terminal import totals_text

NO_REPORT = "no report"

_log = logging.getLogger(__name__)


def settle_run(schedule: Schedule, broker: Broker, status: RunStatus, now: datetime) -> None:
    """Leave to be told all that there is to tell of a run that is over, unless that has been done."""
    run_id, archive = status.run_id, broker.archive
    notices = Notices(broker.client)
    if notices.is_marked(f"settled:{run_id}"):
        return
    with brought_report(archive, run_id) as file:
        head = file.head
        comparison, trouble = _compared(schedule, archive, file)
    past = past_runs(archive, _log.warning, suite=schedule.suite, schedule=schedule.name)
    earlier = next((run for run in past if run.run_id < run_id), None)
    told = with_outcome(_notification(schedule, broker, status), head, comparison)
    events = list(events_of(head, earlier, comparison))
    if trouble is not None and "errors" not in events:
        events.append("errors")
    for event in events:
        reason = trouble or _why(head, comparison) if event == "errors" else None
        leave_notice(schedule, broker, told.model_copy(update={"event": event, "reason": reason}), now)
    notices.mark(f"settled:{run_id}")
    figures = f"{totals_text(head.totals)}; {', '.join(events) or 'nothing to tell'}"
    _log.info("%s: run %s is over (%s): %s", schedule.name, run_id, head.state, figures)


def tell_overdue(schedule: Schedule, broker: Broker, status: RunStatus, now: datetime) -> bool:
    """Leave to be told that a run is not over by its deadline; False if that is no news."""
    done = f"{status.done} of {status.total} trials are done" + (
        f"; {status.trouble}" if status.trouble else ""
    )
    told = _notification(schedule, broker, status)
    return leave_notice(
        schedule, broker, told.model_copy(update={"event": "overdue", "reason": one_line(done)}), now
    )


def tell_errors(
    schedule: Schedule,
    broker: Broker,
    run_id: str,
    reason: str,
    now: datetime,
    *,
    state: str,
    occurrence: datetime | None = None,
) -> bool:
    """Leave to be told that there is no run, or no report of it; False if that is no news."""
    told = Notification(
        event="errors",
        schedule=schedule.name,
        suite=one_line(schedule.suite),
        run_id=run_id,
        scheduled_for=occurrence.isoformat(timespec="seconds") if occurrence else None,
        state=state,
        reason=one_line(reason),
        report=NO_REPORT,
    )
    return leave_notice(schedule, broker, told, now)


def leave_notice(schedule: Schedule, broker: Broker, told: Notification, now: datetime) -> bool:
    """Have all be told who want to know of an event; False if that has been done already."""
    news = False
    notices = Notices(broker.client)
    for spec in schedule.spec.notify:
        if told.event in spec.on:
            target = target_of(spec)
            # Of a run that could not be submitted, and is made up for, there may be more to tell.
            what = told.event if told.report != NO_REPORT else f"{told.event}-{told.state}"
            record = dump_notification(with_text(told))
            signed = broker.signer.sign(record, "notice", told.run_id, what, target)
            news |= notices.add(schedule.suite, told.run_id, what, target, signed, now)
    return news


def baseline_of(
    schedule: Schedule, archive: Archive, before: str | None = None
) -> tuple[Standing, int] | None:
    """Give what a schedule's run is held against, and how many of its cases are not of this schedule.

    None if there was no run yet; FarmError if what the schedule names is not there.
    """
    reference = schedule.spec.baseline
    if reference not in (LATEST, BLESSED) and (schedule.root / reference).exists():
        reference = str(schedule.root / reference)
    try:
        with opened_report(
            reference,
            archive,
            _log.warning,
            suite=schedule.suite,
            schedule=schedule.name if reference == LATEST else None,
            before=before,
        ) as file:
            return read_standing(file, schedule.scope.covers)
    except NoEarlierRunError:
        return None


def _compared(schedule: Schedule, archive: Archive, file: ReportFile) -> tuple[Comparison | None, str | None]:
    """Hold a run against its baseline; if that can't be done, say why."""
    try:
        found = baseline_of(schedule, archive, file.head.run_id)
    except FarmError as error:
        return None, f"nothing to compare with: {one_line(str(error))}"
    if found is None:
        return None, None
    now, _ = read_standing(file)
    return compare(found[0], now, not_selected=found[1]), None


def _why(head: SuiteReport, comparison: Comparison | None) -> str:
    reasons = {"cancelled": "the run was cancelled", "over_budget": "what the run may cost is used up"}
    counts: Iterable[tuple[int, str]] = (
        (head.totals.errored, "errored"),
        (head.totals.cancelled, "cancelled"),
        (unclear_failures(comparison), "that fail, and were not judged in the baseline"),
    )
    said = [reasons[head.state]] if head.state in reasons else []
    return "; ".join([*said, *(f"cases {word}: {count}" for count, word in counts if count)])


def _notification(schedule: Schedule, broker: Broker, status: RunStatus) -> Notification:
    return Notification(
        event="errors",
        schedule=schedule.name,
        suite=one_line(schedule.suite),
        run_id=status.run_id,
        scheduled_for=one_line(status.fields.get("scheduled_for", "")) or None,
        state=status.state,
        report=_report_place(broker, status.run_id),
    )


def _report_place(broker: Broker, run_id: str) -> str:
    if broker.store_url is None:
        return f"farm report {run_id}"
    return f"{shown(broker.store_url).rstrip('/')}/{Path('runs', run_id, REPORT)}"
