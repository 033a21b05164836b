"""What the commands share: a parser that explains itself, common options, and paint."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TextIO

from farm.errors import OutputError, UsageError

EXIT_INTERRUPTED = 130
LATEST_RUN = "latest"  # in place of the id of a run

_COLORS = {"red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are UsageErrors, and which takes no abbreviations."""

    def __init__(self, *, prog: str, description: str | None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise UsageError(f"{message}; see {self.prog} --help")

    def _print_message(self, message: str, file: object = None) -> None:  # noqa: ARG002
        """Print help as everything else is printed."""
        echo(message.rstrip("\n"))


def add_discovery_options(parser: argparse.ArgumentParser) -> None:
    """Add the paths, and the options that say which files of a directory are looked at."""
    parser.add_argument(
        "paths", nargs="+", type=given_path, metavar="PATH", help="a test file, or a directory"
    )
    parser.add_argument(
        "--pattern",
        type=given,
        metavar="GLOB",
        help='which files of a directory are tests, such as "*.{eval,test}.yaml"',
    )
    parser.add_argument("--no-recursive", action="store_true", help="don't search directories in directories")


def add_case_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that picks cases by id."""
    parser.add_argument(
        "--case",
        action="append",
        type=given,
        default=[],
        metavar="ID",
        help="only cases with this id (a glob); repeatable",
    )


def add_follow_options(parser: argparse.ArgumentParser) -> None:
    """Add what all commands take that carry out a run and follow it."""
    add_show_options(parser)
    parser.add_argument(
        "--concurrency", type=concurrency, metavar="N", help="sessions at once, on this machine"
    )


def add_show_options(parser: argparse.ArgumentParser) -> None:
    """Add what all commands take that follow a run."""
    add = parser.add_argument
    add("--out", type=given_path, metavar="DIR", help="where the report goes (default: .farm/runs/RUN)")
    add("--json", action="store_true", help="print the report (or the list) as JSON")
    add("-v", "--verbose", action="store_true", help="show tool calls as they happen, and every verdict")


def add_yardstick_options(parser: argparse.ArgumentParser) -> None:
    """Add what a run is held against."""
    parser.add_argument(
        "--baseline",
        type=given,
        metavar="RUN",
        help="compare with this run: an id, a report.json, its directory, `latest`, or `blessed`",
    )
    parser.add_argument(
        "--fail-on",
        choices=("failure", "regression", "never"),
        default="failure",
        help="exit with 1 if a case failed (default), only if one regressed, or never",
    )
    add_junit_option(parser)


def add_junit_option(parser: argparse.ArgumentParser) -> None:
    """Add where JUnit's XML is written as well."""
    parser.add_argument("--junit", type=given_path, metavar="FILE", help="write it there too, as JUnit XML")


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """Add the id of a run."""
    about = f"the id of a run (`farm status` lists them), or `{LATEST_RUN}`"
    parser.add_argument("run", type=given, metavar="RUN", help=about)


def concurrency(text: str) -> int:
    """Take a number of sessions."""
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 to 1000")
    return int(text)


def positive_number(text: str) -> float:
    """Take a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def add_waiting_options(parser: argparse.ArgumentParser) -> None:
    """Declare whether a command that submits a run follows it, where it can choose."""
    waiting = parser.add_mutually_exclusive_group()
    waiting.add_argument("--wait", action="store_true", help="follow the run to its end")
    waiting.add_argument("--detach", action="store_true", help="queue the run and leave (needs a broker)")


def add_limit_option(parser: argparse.ArgumentParser) -> None:
    """Declare how many of a long list are shown."""
    parser.add_argument(
        "--limit", type=_positive_count, default=20, metavar="N", help="show so many (default: 20)"
    )


def _positive_count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def given(text: str) -> str:
    """Take an argument that must not be empty, as that of an unset variable is."""
    if not text:
        raise argparse.ArgumentTypeError("is empty")
    return text


def given_path(text: str) -> Path:
    """Take a path: an empty one is a slip, not the current directory."""
    return Path(given(text))


def existing_directory(text: str) -> Path:
    """Take an argument that must be a directory."""
    path = given_path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a directory")
    return path


def painter(stream: TextIO | None = None) -> Callable[[str, str], str]:
    """Give a function that colours text if people are watching; NO_COLOR and FORCE_COLOR are heard."""
    if os.environ.get("NO_COLOR"):
        colored = False
    else:
        watched = (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"
        colored = bool(os.environ.get("FORCE_COLOR")) or watched
    return _paint if colored else _leave


def echo(text: str, *, err: bool = False) -> None:
    """Print a line: data to standard output, all else to standard error."""
    stream = sys.stderr if err else sys.stdout
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        if err:  # nobody is left to be told
            return
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"can't write to standard output: {error.strerror}") from None


def complain(text: str) -> None:
    """Tell of something that can't be read, and is left out."""
    echo(f"left out: {text}", err=True)


def _paint(text: str, color: str) -> str:
    return f"\x1b[{_COLORS[color]}m{text}\x1b[0m"


def _leave(text: str, _color: str) -> str:
    return text
