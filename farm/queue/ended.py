"""What became of a trial that a message named, in words that may be shown anywhere.

For those who look on: names, kinds and numbers, nothing that an agent or a test file says. The ledger has the
truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from farm.model.job import CasePlan
from farm.model.report import TrialReport
from farm.queue.records import Completion, Refused

How: TypeAlias = Literal[
    "passed",
    "failed",
    "errored",
    "skipped",
    "again",  # it errored, and another attempt will be made
    "waits",  # it may not begin yet
    "handed_on",  # its worker ends
    "cancelled",  # its run was closed
    "not_ours",  # it is done, or somebody else is at it
]

_MAX_CHARACTERS = 200


@dataclass(frozen=True)
class Ended:
    """How the work on one message ended."""

    how: How
    why: str = ""
    agent: str = ""  # its kind; empty if no session was to begin
    seconds: float | None = None  # that the session took
    cost_usd: float = 0.0  # as far as it is known
    delay_seconds: float = 0.0  # before it is tried again


def refused(refusal: Refused) -> Ended:
    """Say why nothing was begun."""
    match refusal.reason:
        case "closed" | "over_budget":
            return Ended("cancelled", refusal.reason)
        case "early" | "limited":
            return Ended("waits", refusal.reason, delay_seconds=refusal.wait_ms / 1000)
        case "done" | "leased":
            return Ended("not_ours", refusal.reason)


def stopped(reason: Literal["lost", "closed", "draining"]) -> Ended:
    """Say why a session was not let to its end."""
    how: dict[str, How] = {"lost": "not_ours", "closed": "cancelled", "draining": "handed_on"}
    return Ended(how[reason], reason)


def written(completion: Completion, plan: CasePlan, report: TrialReport) -> Ended:
    """Say what the result is, if it was taken."""
    if completion == "duplicate":
        return Ended("not_ours", completion)
    if completion == "closed" or report.outcome == "cancelled":
        return Ended("cancelled", completion)
    return Ended(report.outcome, _why(plan, report))


def one_line(text: str) -> str:
    """Keep a name to one short line without control characters."""
    text = text[:_MAX_CHARACTERS]
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def _why(plan: CasePlan, report: TrialReport) -> str:
    if report.error is not None:
        return f"{one_line(report.error.kind)}, attempt {report.attempt}"
    if report.outcome not in ("failed", "errored"):
        return "" if report.score is None else f"score {report.score:.3g}"
    verdicts = [verdict for verdict in report.verdicts if verdict.required]
    # Those that their author did not name are named after what they look for.
    chosen = {spec.name for spec in plan.case.evaluators}
    names = [
        verdict.name if verdict.name in chosen else verdict.type
        for verdict in verdicts
        if verdict.outcome == report.outcome
    ]
    count = f"{len(names)} of {len(verdicts)} evaluators {report.outcome}"
    return one_line(f"{count}: {', '.join(names)}")
