"""`farm schedule`: list the schedules of farm.yaml, or run one now."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from farm.cli.following import FollowOptions, follow_to_the_end
from farm.cli.options import add_follow_options, add_waiting_options, complain, echo, given
from farm.cli.yardstick import Yardstick
from farm.errors import UsageError
from farm.model.report import Totals
from farm.queue.archive import Archive
from farm.queue.broker import Broker
from farm.queue.delivery import deliver_notices
from farm.queue.embedded import Embedded, embedded_engine, has_broker, run_directory
from farm.queue.finding import reachable_broker, shown_state
from farm.queue.history import known_archive, past_runs
from farm.queue.report_directory import check_out
from farm.queue.schedules import Schedule, find_schedule, load_scheduled, schedules_of, submit_scheduled
from farm.queue.settling import baseline_of, settle_run
from farm.queue.submit import new_run_id
from farm.reporting.terminal import safe, totals_text
from farm.settings import FARM_FILE, Settings, find_root, load_settings

_RUNS_LOOKED_AT = 500


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("what", choices=("list", "run"), help="list the schedules, or run one now")
    parser.add_argument("name", nargs="?", type=given, metavar="NAME", help="the schedule to run")
    parser.add_argument(
        "--at",
        type=_moment,
        metavar="TIME",
        help="submit the run of this occurrence, such as one that was missed, unless there is one",
    )
    add_waiting_options(parser)
    add_follow_options(parser)


def run(arguments: Namespace) -> int:
    """List the schedules of farm.yaml (`farm schedule list`), or run one now (`farm schedule run NAME`).

    A run is submitted as `farm beat` would do it, from the directory of farm.yaml. With FARM_BROKER_URL set
    it is queued, and a beat tells what came of it; `--wait` follows it and tells itself. Without, it is
    carried out on this machine.
    """
    root = find_root([Path.cwd()])
    if arguments.what == "list":
        return _list(root, as_json=arguments.json)
    if arguments.name is None:
        raise UsageError("which schedule? `farm schedule list` names them")
    if arguments.detach and not has_broker():
        raise UsageError("--detach needs workers that go on without this command: set FARM_BROKER_URL")
    schedule, settings = find_schedule(root, arguments.name)
    _check_occurrence(schedule, arguments.at)
    os.chdir(root)  # where a beat would be: workspaces are relative to it
    with ExitStack() as stack:
        engine = None if has_broker() else stack.enter_context(embedded_engine(arguments.concurrency))
        return _submit(schedule, settings, arguments, engine)


def _check_occurrence(schedule: Schedule, at: datetime | None) -> None:
    if at is None:
        return
    if at > datetime.now(UTC):
        raise UsageError("--at: that is yet to come; a beat will submit it")
    if (last := schedule.last(at)) != at:
        near = last.astimezone(ZoneInfo(schedule.spec.timezone)).isoformat(timespec="minutes")
        raise UsageError(f"--at: {schedule.name} does not come at that time; before it, it came at {near}")


def _submit(schedule: Schedule, settings: Settings, arguments: Namespace, engine: Embedded | None) -> int:
    now = datetime.now(UTC)
    suite = load_scheduled(schedule, settings)
    broker = engine.broker if engine is not None else reachable_broker()
    assert broker is not None
    run_id = new_run_id(now) if arguments.at is None else schedule.run_id(arguments.at)
    waits = engine is not None or arguments.wait
    if arguments.out and not waits:
        raise UsageError("--out needs --wait: who only queues a run does not bring its report")
    out = arguments.out or run_directory(run_id)
    standing, not_selected = (baseline_of(schedule, known_archive()) if waits else None) or (None, 0)
    yardstick = Yardstick(baseline=standing, not_selected=not_selected)
    earlier = check_out(out) if waits else None
    yardstick.check(out)
    if engine is not None:
        engine.remember(run_directory(run_id))
    # Before anything can be told.
    news = broker.listen(run_id) if earlier is not None and arguments.verbose else None
    is_new = submit_scheduled(
        schedule, settings, suite, broker, run_id, now=now, occurrence=arguments.at, out=out
    )
    if not is_new:
        echo("there is a run of this occurrence already; it is not run again", err=True)
    if earlier is None:
        echo(json.dumps({"run_id": run_id}) if arguments.json else run_id)
        echo(f"queued; `farm watch {run_id}` follows it", err=True)
        return 0
    earlier.remove()
    options = FollowOptions(out, verbose=arguments.verbose, as_json=arguments.json, yardstick=yardstick)
    told = suite if is_new else None
    code = follow_to_the_end(broker, run_id, options, engine=engine, suite=told, news=news)
    _tell(schedule, settings, broker, run_id)
    return code


def _tell(schedule: Schedule, settings: Settings, broker: Broker, run_id: str) -> None:
    """Tell who wants to know, unless a beat has."""
    status = broker.ledger.status(run_id)
    if status is None or not status.is_over:
        return  # we were interrupted
    settle_run(schedule, broker, status, datetime.now(UTC))
    all_schedules = schedules_of(schedule.root, settings).values()
    for failed in deliver_notices(broker, schedule.suite, all_schedules, lambda: datetime.now(UTC)):
        echo(f"not delivered: {failed}", err=True)


@dataclass(frozen=True)
class Row:
    """A schedule in a line."""

    schedule: Schedule
    next: datetime
    last: datetime
    run_id: str | None = None  # its newest run
    state: str | None = None
    totals: Totals | None = None


def _list(root: Path, *, as_json: bool) -> int:
    schedules = schedules_of(root, load_settings(root))
    now = datetime.now(UTC)
    rows = list(_rows(schedules, now)) if schedules else []
    if as_json:
        echo(json.dumps([_row_as_json(row) for row in rows], indent=2, ensure_ascii=False))
    elif rows:
        width = max(len(row.schedule.name) for row in rows)
        for row in rows:
            echo(_row_line(row, width))
    else:
        echo(f'{os.path.relpath(root / FARM_FILE)} has no "schedules"', err=True)
    return 0


def _rows(schedules: dict[str, Schedule], now: datetime) -> list[Row]:
    newest = {**_over(schedules, known_archive()), **_going_on(schedules, reachable_broker())}
    return [
        Row(schedule, schedule.next(now), schedule.last(now), *newest.get(name, (None, None, None)))
        for name, schedule in schedules.items()
    ]


def _over(schedules: dict[str, Schedule], archive: Archive) -> dict[str, tuple[str, str, Totals | None]]:
    found: dict[str, tuple[str, str, Totals | None]] = {}
    suite = next(iter(schedules.values())).suite
    for head in islice(past_runs(archive, complain, suite=suite), _RUNS_LOOKED_AT):
        if head.schedule in schedules and head.schedule not in found:
            found[head.schedule] = (head.run_id, head.state, head.totals)
        if len(found) == len(schedules):
            break
    return found


def _going_on(
    schedules: dict[str, Schedule], broker: Broker | None
) -> dict[str, tuple[str, str, Totals | None]]:
    found: dict[str, tuple[str, str, Totals | None]] = {}
    for run_id in broker.ledger.active_runs() if broker is not None else ():
        status = broker.ledger.status(run_id) if broker is not None else None
        name = status.fields.get("schedule", "") if status is not None else ""
        if status is not None and name in schedules and status.fields.get("suite") == schedules[name].suite:
            found[name] = (run_id, shown_state(status), None)
    return found


def _row_line(row: Row, width: int) -> str:
    spec = row.schedule.spec
    zone = ZoneInfo(spec.timezone)
    when = f"next {row.next.astimezone(zone):%Y-%m-%d %H:%M}, last {row.last.astimezone(zone):%Y-%m-%d %H:%M}"
    outcome = "never run"
    if row.run_id is not None:
        totals = f", {totals_text(row.totals)}" if row.totals is not None else ""
        outcome = f"{row.run_id} {row.state}{totals}"
    return safe(f"{row.schedule.name:<{width}}  {spec.cron} {spec.timezone}  {when}  {outcome}")


def _row_as_json(row: Row) -> dict[str, object]:
    spec = row.schedule.spec
    return {
        "name": row.schedule.name,
        "cron": spec.cron,
        "timezone": spec.timezone,
        "next": row.next.isoformat(),
        "last": row.last.isoformat(),
        "run_id": row.run_id,
        "state": row.state,
        "totals": row.totals.model_dump() if row.totals is not None else None,
    }


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text} is no time; write it like 2026-03-01T02:30+01:00") from None
    if moment.tzinfo is None:
        raise ArgumentTypeError(f"{text} is in no time zone; write it like {text}+01:00")
    return moment.astimezone(UTC)
