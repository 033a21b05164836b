"""Turn a scheduled run that is over, or in trouble, into what people are told of it. Pure.

Names of cases and messages of errors may be anything: they are shown, never obeyed, by a terminal or a chat.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from farm.model.base import Model
from farm.model.report import SuiteReport, Totals
from farm.model.schedule import Event
from farm.reporting.compare import Comparison, State
from farm.reporting.summarize import exit_code, is_incomplete
from farm.reporting.terminal import safe, totals_text

NOTIFICATION_SCHEMA = "farm.notification/1"

_MOST_CASES = 20
_MOST_CHARACTERS = 1000
# What chats take for a link, a mention or a call to everybody.
_DISARMED = str.maketrans({"<": "‹", ">": "›", "@": "＠"})  # noqa: RUF001


class Notification(Model):
    """What a webhook or a command is given, as JSON."""

    event: Event
    schedule: str
    suite: str
    run_id: str
    scheduled_for: str | None = None  # None: somebody has asked for it
    state: str  # of the run; "not_submitted", "missed" or "lost" if there is none
    totals: Totals | None = None  # once it is over
    baseline: str | None = None  # the run that it was compared with
    regressed_count: int = 0
    regressed: tuple[str, ...] = ()  # ids of cases, the first ones
    fixed_count: int = 0
    fixed: tuple[str, ...] = ()
    reason: str | None = None
    report: str  # where it is, or will be
    text: str = ""  # all of it in one line, as chats want it


def events_of(
    head: SuiteReport, earlier: SuiteReport | None, comparison: Comparison | None
) -> Iterator[Event]:
    """Say what there is to tell of a run that is over; `earlier` is the run of its schedule before it."""
    regressed = comparison is not None and comparison.regressions > 0
    if regressed:
        yield "regression"
    if head.totals.failed:
        yield "failure"
    if is_incomplete(head) or head.state != "complete" or unclear_failures(comparison):
        yield "errors"
    if earlier is not None and not is_well(earlier) and is_well(head) and not regressed:
        yield "recovery"


def unclear_failures(comparison: Comparison | None) -> int:
    """Count the cases that fail, and of which the baseline does not say whether they did before.

    They may have regressed the night before, when nobody could judge them, and nobody would hear of it.
    """
    changes = comparison.cases if comparison is not None else ()
    return sum(
        change.state == "inconclusive" and change.after is not None and change.after.outcome == "failed"
        for change in changes
    )


def is_well(head: SuiteReport) -> bool:
    """Say whether all of a run passed."""
    return exit_code(head) == 0 and head.state == "complete"


def with_outcome(told: Notification, head: SuiteReport, comparison: Comparison | None) -> Notification:
    """Add what came of a run."""
    found: dict[str, object] = {"state": head.state, "totals": head.totals}
    if comparison is not None:
        regressed = _cases(comparison, "regressed", "missing")
        fixed = _cases(comparison, "fixed")
        found |= {
            "baseline": comparison.before.run_id,
            "regressed_count": len(regressed),
            "regressed": tuple(map(one_line, regressed[:_MOST_CASES])),
            "fixed_count": len(fixed),
            "fixed": tuple(map(one_line, fixed[:_MOST_CASES])),
        }
    return told.model_copy(update=found)


def with_text(told: Notification) -> Notification:
    """Say it in one line."""
    parts = [f"{told.suite}, {told.schedule}: {_HEADLINES[told.event]}"]
    if told.event == "regression":
        more = told.regressed_count - 3
        parts.append(", ".join(told.regressed[:3]) + (f" and {more} more" if more > 0 else ""))
    if told.reason:
        parts.append(told.reason)
    if told.totals is not None:
        parts.append(totals_text(told.totals))
    parts.append(f"run {told.run_id}: {told.report}")
    text = one_line(" · ".join(parts)).translate(_DISARMED)
    return told.model_copy(update={"text": text})


_HEADLINES: dict[Event, str] = {
    "regression": "worse than before",
    "failure": "some cases failed",
    "recovery": "well again",
    "errors": "could not be judged in full",
    "overdue": "not over in time, and still running",
}


def dump_notification(told: Notification) -> bytes:
    """Write it as JSON."""
    data = {"schema": NOTIFICATION_SCHEMA, **told.model_dump(mode="json")}
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")


def one_line(text: str) -> str:
    """Show text in one line of bearable length."""
    line = safe(" ".join(text[: 2 * _MOST_CHARACTERS].split()))
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


def _cases(comparison: Comparison, *states: State) -> list[str]:
    return [change.id for change in comparison.cases if change.state in states]
