"""`farm history`: the runs that are over, or what became of one case in them."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from itertools import islice

from farm.cli.options import add_limit_option, complain, echo, given, painter
from farm.errors import UsageError
from farm.model.report import SuiteReport, Totals
from farm.model.verdict import Outcome
from farm.queue.history import PastCase, known_archive, past_cases, past_runs
from farm.reporting.terminal import Paint, clock, dollars, safe_line, totals_text

_COLORS: dict[Outcome, str] = {"passed": "green", "failed": "red"}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("case", nargs="?", type=given, metavar="CASE", help="the id of a case; else all runs")
    parser.add_argument("--suite", type=given, metavar="NAME", help="only runs of this suite")
    add_limit_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """List the runs that are over, newest first, or what became of one case in each of them.

    The rate of a run is the share of its judged cases that passed. A case whose outcome is another than the
    last time that it was judged is marked. What is listed is in the store that FARM_STORE_URL names, else in
    the broker, and in .farm/runs of this directory.
    """
    return _show_runs(arguments) if arguments.case is None else _show_case(arguments)


def _show_runs(arguments: Namespace) -> int:
    heads = list(islice(past_runs(known_archive(), complain, suite=arguments.suite), arguments.limit))
    if arguments.json:
        echo(json.dumps([_run_as_json(head) for head in heads], indent=2))
        return 0
    paint = painter()
    for line in _aligned([_run_cells(head, paint) for head in heads]):
        echo(line)
    if not heads:
        of_suite = f" of {safe_line(arguments.suite)}" if arguments.suite else ""
        echo(f"no run{of_suite} is over", err=True)
    return 0


def _run_as_json(head: SuiteReport) -> dict[str, object]:
    return {
        "run_id": head.run_id,
        "suite": head.suite,
        "state": head.state,
        "started_at": head.started_at,
        "duration_ms": head.duration_ms,
        "pass_rate": _rate(head.totals),
        "totals": head.totals.model_dump(mode="json"),
    }


def _run_cells(head: SuiteReport, paint: Paint) -> list[str]:
    totals = head.totals
    rate = _rate(totals)
    state = "" if head.state == "complete" else f" ({head.state.replace('_', ' ')})"
    return [
        _moment(head),
        safe_line(head.run_id),
        safe_line(head.suite),
        "-" if rate is None else f"{rate:.0%}",
        _cost(totals),
        "-" if head.duration_ms is None else clock(head.duration_ms / 1000),
        totals_text(totals, paint) + state,
    ]


def _cost(totals: Totals) -> str:
    """Show what a run cost, its judges included."""
    known = [usd for usd in (totals.cost_usd, totals.judge_cost_usd) if usd is not None]
    return dollars(sum(known)) if known else "-"


def _rate(totals: Totals) -> float | None:
    judged = totals.passed + totals.failed
    return totals.passed / judged if judged else None


def _show_case(arguments: Namespace) -> int:
    found = past_cases(known_archive(), arguments.case, complain, suite=arguments.suite)
    # One more than is shown: the oldest that is shown may differ from it.
    cases = list(islice(found, arguments.limit + 1))
    if not cases:
        raise UsageError(
            f'no run that is over has a case "{arguments.case}"; `farm report RUN` names the cases'
        )
    flips = _flips(cases)
    shown = list(zip(cases, flips, strict=True))[: arguments.limit]
    if arguments.json:
        echo(json.dumps([_case_as_json(past, flip) for past, flip in shown], indent=2))
        return 0
    paint = painter()
    for line in _aligned([_case_cells(past, flip, paint) for past, flip in shown]):
        echo(line)
    return 0


def _flips(cases: Sequence[PastCase]) -> list[Outcome | None]:
    """Give for each case, newest first, the outcome that it had before if it is judged otherwise now."""
    flips: list[Outcome | None] = []
    earlier: Outcome | None = None
    for past in reversed(cases):
        outcome = past.case.outcome
        judged = outcome in ("passed", "failed")
        flips.append(earlier if judged and earlier not in (None, outcome) else None)
        earlier = outcome if judged else earlier
    return flips[::-1]


def _case_as_json(past: PastCase, flip: Outcome | None) -> dict[str, object]:
    case = past.case
    return {
        "run_id": past.run.run_id,
        "suite": past.run.suite,
        "started_at": past.run.started_at,
        "outcome": case.outcome,
        "flipped_from": flip,
        "flaky": case.flaky,
        "score": case.score,
        "agent": case.agent,
        "model": case.model,
        "trials": len(case.trials),
        "passed_trials": sum(trial.outcome == "passed" for trial in case.trials),
    }


def _case_cells(past: PastCase, flip: Outcome | None, paint: Paint) -> list[str]:
    case = past.case
    passed = sum(trial.outcome == "passed" for trial in case.trials)
    notes = [f"{passed}/{len(case.trials)} trials passed"] if len(case.trials) > 1 else []
    notes += ["flaky"] if case.flaky else []
    notes += [paint(f"was {flip}", "yellow")] if flip else []
    outcome = case.outcome
    return [
        _moment(past.run),
        safe_line(past.run.run_id),
        "-" if case.score is None else f"{case.score:.2f}",
        safe_line(case.agent),
        safe_line(case.model or "-"),
        paint(outcome, _COLORS.get(outcome, "yellow")) + "".join(f", {note}" for note in notes),
    ]


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Put rows under each other; the last cell may be painted, so nothing comes after it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for *cells, last in rows:
        yield "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=False)), last])


def _moment(head: SuiteReport) -> str:
    return safe_line(head.started_at[:16].replace("T", " "))
