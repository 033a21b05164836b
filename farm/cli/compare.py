"""`farm compare`: what has changed between two runs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from io import BytesIO

from farm.cli.options import complain, echo, given, painter
from farm.errors import UsageError
from farm.queue.baselines import BLESSED, LATEST, opened_report, read_standing
from farm.queue.history import known_archive
from farm.reporting.changes import comparison_lines, dump_comparison
from farm.reporting.compare import compare, comparison_exit_code
from farm.reporting.markdown import write_markdown


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    what = "the id of a run, a report.json, or its directory"
    parser.add_argument(
        "before", type=given, metavar="A", help=f"{what}; or `latest` or `blessed` of B's suite"
    )
    parser.add_argument("after", type=given, metavar="B", help=what)
    parser.add_argument(
        "--format", choices=("text", "json", "markdown"), default="text", help="default: text"
    )


def run(arguments: Namespace) -> int:
    """Say case by case what has changed from one run to another.

    Exit codes: 1 something regressed (it passed and fails now, or is missing); 3 nothing did, but of some
    case nobody can say so, because it was not judged; 0 else.
    """
    archive = known_archive()
    if arguments.after in (LATEST, BLESSED):
        raise UsageError(f'"{arguments.after}" can only stand for the first of the two runs')
    with opened_report(arguments.after, archive, complain) as after:
        now, _ = read_standing(after)
        run = now.run
        with opened_report(
            arguments.before,
            archive,
            complain,
            suite=run.suite,
            before=run.run_id,
            case_ids=now.cases.keys(),
        ) as before:
            then, _ = read_standing(before)
        comparison = compare(then, now)
        if arguments.format == "markdown":
            page = BytesIO()
            write_markdown(after, page, comparison)
            echo(page.getvalue().decode().rstrip("\n"))
    if arguments.format == "json":
        echo(dump_comparison(comparison).decode().rstrip("\n"))
    elif arguments.format == "text":
        for line in comparison_lines(comparison, painter()):
            echo(line)
    return comparison_exit_code(comparison)
