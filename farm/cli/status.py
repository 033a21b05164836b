"""`farm status`: list the runs, or tell how one stands."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime

from farm.cli.options import add_limit_option, echo, given, painter
from farm.errors import FarmError
from farm.model.report import Totals
from farm.model.verdict import Outcome
from farm.queue.archive import REPORT
from farm.queue.broker import Broker
from farm.queue.embedded import has_report, is_carried_out, local_broker, local_runs, run_directory
from farm.queue.finding import (
    NOT_LOOKED_INTO,
    FoundRun,
    find_run,
    kept_report,
    reachable_broker,
    shown_state,
)
from farm.queue.following import pauses_of, trial_outcomes, unserved_kinds
from farm.queue.ledger import Running, RunStatus, WorkerRecord
from farm.reporting.json import read_head
from farm.reporting.terminal import Paint, age, clock, dollars, outcomes_text, safe_line

_COLORS = {
    "running": "cyan",
    "aggregating": "cyan",
    "complete": "green",
    "cancelled": "magenta",
    "interrupted": "yellow",
    "over_budget": "yellow",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run", nargs="?", type=given, metavar="RUN", help="the id of a run, or `latest`; else all are listed"
    )
    add_limit_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """List the runs, newest first, or tell how one stands and how to go on with it.

    The runs are those of the broker that FARM_BROKER_URL names, else those of this directory.
    """
    if arguments.run is not None:
        return _tell(arguments.run, as_json=arguments.json)
    return _list(arguments.limit, as_json=arguments.json)


@dataclass(frozen=True)
class Row:
    """A run in a line."""

    run_id: str
    state: str
    suite: str | None = None
    started_at_ms: int | None = None
    done: int | None = None  # trials
    total: int | None = None
    cases: Totals | None = None  # once it is over


def _list(limit: int, *, as_json: bool) -> int:
    broker = reachable_broker()
    run_ids = broker.ledger.runs() if broker is not None else local_runs()
    rows = list(_fleet_rows(broker, run_ids[:limit]) if broker else map(_local_row, run_ids[:limit]))
    if as_json:
        echo(json.dumps([_row_as_json(row) for row in rows], indent=2))
    elif rows:
        paint = painter()
        for row in rows:
            echo(_row_line(row, paint))
    else:
        echo("no runs " + ("on this broker" if broker is not None else "in this directory"), err=True)
    if len(run_ids) > limit:
        echo(f"… and {len(run_ids) - limit} older; --limit shows more", err=True)
    return 0


def _fleet_rows(broker: Broker, run_ids: list[str]) -> Iterator[Row]:
    for run_id in run_ids:
        status = broker.ledger.status(run_id)
        if status is not None:  # it may have been forgotten meanwhile
            yield _row(status, shown_state(status))


def _row(status: RunStatus, state: str) -> Row:
    totals = status.fields.get("totals") if status.is_over else None
    return Row(
        run_id=status.run_id,
        state=state,
        suite=status.fields.get("suite"),
        started_at_ms=status.created_at_ms,
        done=status.done,
        total=status.total,
        cases=Totals.model_validate_json(totals) if totals else None,
    )


def _local_row(run_id: str) -> Row:
    """Look at a run of this directory: at its report if it has one, for that is cheaper than its ledger."""
    is_alive = is_carried_out(run_id)
    try:
        if has_report(run_id) and not is_alive:
            return _report_row(run_id)
        with local_broker(run_id) as broker:
            status = broker.ledger.status(run_id) if broker is not None else None
            if status is not None:
                return _row(status, shown_state(status, is_alive=is_alive))
    except (FarmError, ValueError) as error:
        return Row(run_id, "unreadable", suite=str(error))
    return Row(run_id, "interrupted")


def _report_row(run_id: str) -> Row:
    path = run_directory(run_id) / REPORT
    head = read_head(path)
    try:
        started_at_ms = round(datetime.fromisoformat(head.started_at).timestamp() * 1000)
    except ValueError:
        started_at_ms = None
    return Row(run_id, head.state, head.suite, started_at_ms, cases=head.totals)


def _row_as_json(row: Row) -> dict[str, object]:
    return {**asdict(row), "cases": row.cases.model_dump(mode="json") if row.cases else None}


def _row_line(row: Row, paint: Paint) -> str:
    ago = "" if row.started_at_ms is None else f"{age(time.time() - row.started_at_ms / 1000)} ago"
    state = paint(f"{row.state:<11}", _COLORS.get(row.state, "red"))
    if row.cases is not None:
        came_of_it = outcomes_text(_case_outcomes(row.cases), paint)
    else:
        came_of_it = "" if row.total is None else f"{row.done}/{row.total} trials"
    suite = safe_line(row.suite or "")
    return f"{row.run_id}  {state}  {ago:>10}  {suite}  {came_of_it}".rstrip()


def _case_outcomes(totals: Totals) -> dict[Outcome, int]:
    return {
        "passed": totals.passed,
        "failed": totals.failed,
        "errored": totals.errored,
        "skipped": totals.skipped,
        "cancelled": totals.cancelled,
    }


@dataclass(frozen=True)
class Facts:
    """What can be said of a run."""

    status: RunStatus
    state: str
    outcomes: Counter[Outcome]  # of trials
    sessions: list[Running]
    workers: list[WorkerRecord]
    unserved: tuple[str, ...]
    pauses: dict[str, int]  # ms, by the service that is busy


def _tell(run_id: str, *, as_json: bool) -> int:
    try:
        with find_run(run_id) as found:
            facts = _facts(found)
    except NOT_LOOKED_INTO:
        if kept_report(run_id) is None:
            raise
        return _tell_of_report(run_id, as_json=as_json)
    if as_json:
        echo(json.dumps(_facts_as_json(facts), indent=2))
        return 0
    for line in _lines(facts, painter(), time.time()):
        echo(line)
    return 0


def _tell_of_report(run_id: str, *, as_json: bool) -> int:
    """Tell of a run of which nothing but its report can be looked at."""
    row = _report_row(run_id)
    if as_json:
        echo(json.dumps(_row_as_json(row), indent=2))
        return 0
    echo(_row_line(row, painter()))
    echo(f"`farm report {run_id}` shows its results; nothing else of it can be looked at")
    return 0


def _facts(found: FoundRun) -> Facts:
    ledger, status = found.broker.ledger, found.status()
    goes_on = not status.is_over and found.is_alive
    return Facts(
        status=status,
        state=shown_state(status, is_alive=found.is_alive),
        outcomes=Counter(outcome for _, outcome in trial_outcomes(found.broker, found.run_id)),
        sessions=ledger.running(found.run_id) if goes_on else [],
        workers=ledger.workers() if found.is_alive else [],
        unserved=unserved_kinds(found.broker, status) if goes_on else (),
        pauses=pauses_of(found.broker, status) if goes_on else {},
    )


def _facts_as_json(facts: Facts) -> dict[str, object]:
    status = facts.status
    return {
        "run_id": status.run_id,
        "suite": status.fields.get("suite"),
        "state": facts.state,
        "started_at_ms": status.created_at_ms,
        "finished_at_ms": status.closed_at_ms,
        "done": status.done,
        "total": status.total,
        "outcomes": dict(facts.outcomes),
        "executions": status.executions,
        "retries": status.retries,
        "duplicate_executions": status.duplicate_executions,
        "spent_usd": status.spent_usd,
        "reserved_usd": status.reserved_usd,
        "budget_usd": status.budget_usd,
        "unknown_costs": status.unknown_costs,
        "trouble": status.trouble,
        "sessions": [
            {
                "case_id": session.job.case_id,
                "trial": session.job.trial,
                "worker": session.worker,
                "last_tool_call": session.note or None,
                "started_at_ms": session.started_at_ms,
            }
            for session in facts.sessions
        ],
        "workers": [asdict(worker) for worker in facts.workers],
        "unserved": facts.unserved,
        "pauses": facts.pauses,
    }


def _lines(facts: Facts, paint: Paint, now: float) -> Iterator[str]:
    """Show how a run stands."""
    status = facts.status
    until = (status.closed_at_ms / 1000) if status.closed_at_ms else now
    took = clock(until - status.created_at_ms / 1000)
    state = paint(facts.state, _COLORS.get(facts.state, "red"))
    yield f"run {status.run_id} of {safe_line(status.fields.get('suite', ''))}: {state}, {took}"
    ended = outcomes_text(facts.outcomes, paint)
    waiting = status.total - status.done - len(facts.sessions)
    more = [f"{len(facts.sessions)} running"] if facts.sessions else []
    more += [f"{waiting} waiting" if facts.state == "running" else f"{waiting} not begun"] if waiting else []
    yield f"trials: {status.done}/{status.total} done" + "".join(
        f"; {part}" for part in (ended, *more) if part
    )
    yield from _effort_lines(status)
    for session in facts.sessions:
        trial = f" #{session.job.trial}" if session.job.trial > 1 else ""
        since = clock(now - session.started_at_ms / 1000)
        doing = f"  {safe_line(session.note)}" if session.note else ""
        yield f"  {safe_line(session.job.case_id)}{trial}  {since}{doing}  on {safe_line(session.worker)}"
    if status.trouble:
        yield paint(f"its report can't be written: {safe_line(status.trouble)}", "yellow")
    if facts.workers:
        yield "workers:"
    for worker in facts.workers:
        agents = safe_line(", ".join(worker.agents))
        yield f"  {safe_line(worker.name)}: {worker.concurrency} at once; {agents}"
    if facts.unserved:
        kinds = ",".join(facts.unserved)
        yield (
            paint(f"no living worker serves {safe_line(kinds)}", "yellow")
            + f": `farm worker --agents {kinds}`"
        )
    for service, wait_ms in facts.pauses.items():
        wait = f"nobody starts a session of it for {clock(wait_ms / 1000)}"
        yield paint(f"{safe_line(service)} is busy", "yellow") + f": {wait}"
    yield _how_to_go_on(facts)


def _effort_lines(status: RunStatus) -> Iterator[str]:
    extra = [
        f"{count} {one if count == 1 else more}"
        for count, one, more in (
            (status.retries, "retry", "retries"),
            (status.duplicate_executions, "duplicate", "duplicates"),
        )
        if count
    ]
    if extra:
        yield f"executions: {status.executions}, {', '.join(extra)}"
    if status.spent_usd or status.reserved_usd or status.budget_usd is not None:
        budget = "" if status.budget_usd is None else f" of {dollars(status.budget_usd)}"
        reserved = f", {dollars(status.reserved_usd)} reserved by what runs" if status.reserved_usd else ""
        unknown = (
            f", {status.unknown_costs} of unknown cost counted as reserved" if status.unknown_costs else ""
        )
        yield f"cost: {dollars(status.spent_usd)}{budget}{reserved}{unknown}"


def _how_to_go_on(facts: Facts) -> str:
    run_id = facts.status.run_id
    match facts.state:
        case "running" | "aggregating":
            return f"`farm watch {run_id}` follows it; `farm cancel {run_id}` ends it"
        case "over_budget":
            return f"`farm resume {run_id} --max-cost USD` carries out the rest"
        case "interrupted" | "cancelled":
            return f"`farm resume {run_id}` carries out the rest"
    retry = [f"--{outcome}" for outcome in ("errored", "failed") if facts.outcomes.get(outcome)]
    again = f"; `farm retry {run_id} {' '.join(retry)}` tries again" if retry else ""
    return f"`farm report {run_id}` shows its results{again}"
