"""`farm report`: print what came of a run that is over."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.cli.bringing import bring_report
from farm.cli.options import add_junit_option, add_run_argument, echo, given_path, painter
from farm.cli.yardstick import check_junit, write_file
from farm.errors import UsageError
from farm.queue.archive import REPORT
from farm.queue.report_directory import check_out
from farm.reporting.formats import FORMATS, write_beside
from farm.reporting.junit import write_junit
from farm.reporting.report_file import ReportFile
from farm.reporting.terminal import report_lines


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_argument(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), default="text", help="default: text")
    parser.add_argument(
        "--out", type=given_path, metavar="DIR", help="write all formats there, with the transcripts"
    )
    add_junit_option(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show every verdict (text)")


def run(arguments: Namespace) -> int:
    """Print the report of a run that is over, as it was shown (text) or as data (json).

    The exit code says whether there is a report, not what is in it.
    """
    check_junit(arguments.junit)
    out: Path | None = arguments.out
    chosen = FORMATS[arguments.format]
    with ExitStack() as stack:
        directory = out or Path(stack.enter_context(TemporaryDirectory(prefix="farm-report-")))
        path = bring_report(arguments.run, directory, lambda: _check(directory, directory / chosen.file))
        report = ReportFile(path, f"the report of run {arguments.run}")
        head = report.head  # which says what is wrong if it is no report
        if arguments.junit is not None:
            write_file(arguments.junit, lambda target: write_junit(report, target))
        if out is not None:
            write_beside(path)
            if arguments.format == "text":
                write_file(out / chosen.file, lambda target: chosen.write(report, target))
            echo(f"Report: {out / chosen.file}")
        elif arguments.format == "text":
            for line in report_lines(head, report.cases(), painter(), verbose=arguments.verbose):
                echo(line)
        elif arguments.format == "json":
            _print(path.read_bytes())  # as it was written
        else:
            rendered = BytesIO()
            chosen.write(report, rendered)
            _print(rendered.getvalue())
    return 0


def _check(directory: Path, target: Path) -> None:
    """Refuse a directory that has another's files where ours would go."""
    check_out(directory)
    if target.exists() and not (directory / REPORT).exists():
        raise UsageError(f"{target} exists, and is no report of the farm; choose another --out")


def _print(data: bytes) -> None:
    echo(data.decode(errors="replace").rstrip("\n"))
