"""`farm report`: print what came of a run that is over."""

from __future__ import annotations

import shutil
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.cli.options import add_run_argument, echo, given_path, painter
from farm.errors import FarmError, OutputError
from farm.queue.archive import REPORT
from farm.queue.embedded import has_ledger, run_directory
from farm.queue.finding import find_run, is_run_id, shown_state
from farm.queue.following import UnknownRunError, fetch_report, prepare_out
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
    with ExitStack() as stack:
        out: Path | None = arguments.out
        if out is not None:
            prepare_out(out)
        scratch = out or Path(stack.enter_context(TemporaryDirectory(prefix="farm-report-")))
        path = _bring(arguments.run, scratch)
        if out is None and arguments.format == "json":
            _print(path.read_bytes())
            return 0
        report = parse_report(path.read_bytes())
        if out is None and arguments.format == "text":
            for line in report_lines(report, painter(), verbose=arguments.verbose):
                echo(line)
            return 0
        chosen = FORMATS[arguments.format]
        rendered = chosen.render(report)
        if out is None:
            _print(rendered)
            return 0
        target = out / chosen.file
        if target != path:
            _write(target, rendered)
        echo(f"Report: {target}")
    return 0


def _bring(run_id: str, directory: Path) -> Path:
    """Bring a run's report, and its transcripts, into a directory."""
    kept = run_directory(run_id) / REPORT
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
            return fetch_report(found.broker, run_id, directory)
    except UnknownRunError:
        # Its report outlives what the broker, or a ledger, knows of a run.
        if not is_run_id(run_id) or has_ledger(run_id) or not kept.is_file():
            raise
    return _copy(kept, directory)


def _copy(kept: Path, directory: Path) -> Path:
    target = directory / REPORT
    try:
        if kept.parent.resolve() != directory.resolve():
            shutil.copyfile(kept, target)
            transcripts = kept.parent / "transcripts"
            if transcripts.is_dir():
                shutil.copytree(transcripts, directory / "transcripts", dirs_exist_ok=True)
    except OSError as error:
        raise OutputError(f"{error.filename or directory}: can't be written: {error.strerror}") from None
    return target


def _print(data: bytes) -> None:
    echo(data.decode(errors="replace").rstrip("\n"))


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise OutputError(f"{path}: can't be written: {error.strerror}") from None
