"""`farm report`: print what came of a run that is over."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.cli.options import add_run_argument, echo, given_path, painter
from farm.errors import FarmError, OutputError, UsageError
from farm.queue.archive import REPORT
from farm.queue.finding import NOT_LOOKED_INTO, find_run, kept_report, shown_state
from farm.queue.following import check_out, copy_report, fetch_report
from farm.reporting.formats import FORMATS
from farm.reporting.json import parse_report
from farm.reporting.terminal import report_lines


class NotOverError(FarmError):
    """A run has no report yet."""

    exit_code = 3


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run_argument(parser)
    parser.add_argument("--format", choices=tuple(FORMATS), default="text", help="default: text")
    parser.add_argument(
        "--out", type=given_path, metavar="DIR", help="write it there, with report.json and the transcripts"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show every verdict (text)")


def run(arguments: Namespace) -> int:
    """Print the report of a run that is over, as it was shown (text) or as data (json).

    The exit code says whether there is a report, not what is in it.
    """
    out: Path | None = arguments.out
    chosen = FORMATS[arguments.format]
    with ExitStack() as stack:
        directory = out or Path(stack.enter_context(TemporaryDirectory(prefix="farm-report-")))
        path = _bring(arguments.run, directory, directory / chosen.file)
        data = path.read_bytes()
    report = parse_report(data, f"the report of run {arguments.run}")
    if out is not None:
        target = out / chosen.file
        if target != path:
            _write(target, chosen.render(report))
        echo(f"Report: {target}")
    elif arguments.format == "json":
        _print(data)  # as it was written
    elif arguments.format == "text":
        for line in report_lines(report, painter(), verbose=arguments.verbose):
            echo(line)
    else:
        _print(chosen.render(report))
    return 0


def _bring(run_id: str, directory: Path, target: Path) -> Path:
    """Bring a run's report, and its transcripts, into a directory; the target is to be written there next."""
    try:
        with find_run(run_id) as found:
            status = found.status()
            state = shown_state(status, is_alive=found.is_alive)
            if state == "interrupted":
                raise NotOverError(
                    f"run {run_id} was interrupted; `farm resume {run_id}` carries out the rest"
                )
            if state in ("running", "aggregating"):
                so_far = f"{status.done} of {status.total} trials are done"
                raise NotOverError(f"run {run_id} still goes on, {so_far}; `farm watch {run_id}` follows it")
            _check(directory, target)
            return fetch_report(found.broker, run_id, directory)
    except NOT_LOOKED_INTO:
        kept = kept_report(run_id)
        if kept is None:
            raise
    _check(directory, target)
    return copy_report(kept, directory)


def _check(directory: Path, target: Path) -> None:
    """Refuse a directory that has another's files where ours would go."""
    check_out(directory)
    if target.exists() and not (directory / REPORT).exists():
        raise UsageError(f"{target} exists, and is no report of the farm; choose another --out")


def _print(data: bytes) -> None:
    echo(data.decode(errors="replace").rstrip("\n"))


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise OutputError(f"{path}: can't be written: {error.strerror}") from None
