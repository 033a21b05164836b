"""`farm submit` and `farm run`: turn files and directories into a run, and follow it to its report."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from contextlib import ExitStack

from farm.cli.importing import import_quickly
from farm.cli.options import (
    add_case_option,
    add_discovery_options,
    add_follow_options,
    add_waiting_options,
    add_yardstick_options,
    existing_directory,
    given,
    positive_number,
)
from farm.errors import UsageError
from farm.queue.embedded import embedded_engine, has_broker


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_discovery_options(parser)
    add_case_option(parser)
    add = parser.add_argument
    add(
        "--tag",
        action="append",
        type=given,
        default=[],
        metavar="TAG",
        help="only cases with this tag; repeatable",
    )
    add("--list-tests", action="store_true", help="print what would run, a line a case, and run nothing")
    add(
        "-w",
        "--workspace",
        type=existing_directory,
        metavar="DIR",
        help="fill the working directories from here",
    )
    add("--agent", type=given, metavar="NAME", help="run all cases with this agent")
    add("--model", type=given, metavar="MODEL", help="run all cases with this model")
    add("--trials", type=_count, metavar="N", help="repeat each case so often")
    add("--timeout", type=positive_number, metavar="SECONDS", help="how long a session may take")
    add("--retries", type=_retries, metavar="N", help="try an errored trial so often again (default: 2)")
    add(
        "--max-cost",
        type=positive_number,
        metavar="USD",
        help="start no session once the run has cost so much",
    )
    add("--keep", choices=("failed", "all", "none"), default="none", help="keep working directories")
    add_waiting_options(parser)
    add_yardstick_options(parser)
    add_follow_options(parser)


def run(arguments: Namespace) -> int:
    """Run the tests in files and directories, and report.

    Nothing runs unless every file is right. With FARM_BROKER_URL set, `submit` queues the run and prints
    its id; `--wait` (and `farm run`) follow it to the end. Without, the run is carried out on this machine.
    `--out` and `-v` are for those who follow, `--concurrency` for a run that is carried out on this machine.
    Exit codes: 0 all cases passed; 1 some failed; 2 the files or this command line are wrong, nothing ran;
    3 none failed, but some could not be judged; 130 interrupted. `--fail-on regression` exits with 1 only if
    a case is worse than in the `--baseline`, `--fail-on never` with 0 once the run has come to its end.
    """
    if arguments.detach and not has_broker():
        raise UsageError("--detach needs workers that go on without this command: set FARM_BROKER_URL")
    with ExitStack() as stack:
        engine = None
        if not arguments.list_tests and not has_broker():
            # Before anything else: it takes as long to start as the files to be read.
            engine = stack.enter_context(embedded_engine(arguments.concurrency))
        code: int = import_quickly("farm.cli.submission").submit(arguments, engine)
        return code


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise ArgumentTypeError(f"{text} is not a whole number from 1 to 1000")
    return int(text)


def _retries(text: str) -> int:
    if not text.isdecimal() or int(text) > 20:
        raise ArgumentTypeError(f"{text} is not a whole number from 0 to 20")
    return int(text)
