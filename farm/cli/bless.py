"""`farm bless`: mark a run as the one that others of its suite are compared with."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from farm.cli.options import complain, echo, given
from farm.errors import UsageError
from farm.model.report import SuiteReport
from farm.queue.baselines import bless, blessed_runs, opened_report
from farm.queue.history import known_archive
from farm.reporting.summarize import is_incomplete
from farm.reporting.terminal import safe_line, totals_text


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run",
        nargs="?",
        type=given,
        metavar="RUN",
        help="the id of a run, a report.json, or its directory",
    )
    parser.add_argument("--show", action="store_true", help="list the blessed runs, one a suite")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """Mark a run as the baseline of its suite, for `--baseline blessed`.

    Its report is kept once more, for good: in the store that FARM_STORE_URL names, else in the broker, else
    in .farm/blessed of this directory. The run that was blessed before no longer is.
    """
    if (arguments.run is None) != arguments.show:
        raise UsageError("say which run, or --show; see farm bless --help")
    archive = known_archive()
    if arguments.show:
        return _show(list(blessed_runs(archive, complain)), as_json=arguments.json)
    with opened_report(arguments.run, archive, complain) as file:
        head = bless(archive, file)
    if arguments.json:
        echo(json.dumps(_as_json(head), indent=2))
    else:
        run = f"run {safe_line(head.run_id)} is blessed for {safe_line(head.suite)}"
        echo(f"{run}: {totals_text(head.totals)}")
    if is_incomplete(head):
        retry = f"`farm retry {safe_line(head.run_id)} --errored` and bless it again"
        echo(f"some of its cases were not judged, so nothing can be compared with them; {retry}", err=True)
    return 0


def _show(heads: list[SuiteReport], *, as_json: bool) -> int:
    if as_json:
        echo(json.dumps([_as_json(head) for head in heads], indent=2))
        return 0
    for head in heads:
        echo(f"{safe_line(head.suite)}  {safe_line(head.run_id)}  {totals_text(head.totals)}")
    if not heads:
        echo("no run is blessed; `farm bless RUN` does that", err=True)
    return 0


def _as_json(head: SuiteReport) -> dict[str, object]:
    return {
        "suite": head.suite,
        "run_id": head.run_id,
        "started_at": head.started_at,
        "totals": head.totals.model_dump(mode="json"),
    }
