"""`farm beat`: check that there is something to do, and become the process that does it when it is time."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from farm.cli.options import echo, given_path
from farm.errors import UsageError
from farm.queue.broker_address import names_broker
from farm.queue.finding import reachable_broker
from farm.queue.names import URL_VARIABLE
from farm.settings import FARM_FILE, find_root, load_settings

_LEVELS = ("debug", "info", "warning", "error")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add(
        "--max-interval",
        type=_seconds,
        metavar="SECONDS",
        help="look at least so often (default, and most: 5)",
    )
    add("--pidfile", type=given_path, metavar="FILE", help="write the process id there, and run once only")
    add("--logfile", type=given_path, metavar="FILE", help="write the log there (default: standard error)")
    add("--loglevel", choices=_LEVELS, default="info", help="default: info")


def run(arguments: Namespace) -> int:
    """Submit the runs of farm.yaml's schedules when it is time, and tell who wants to know what came of them.

    Runs until told to end, and needs the test files, a broker (FARM_BROKER_URL), and workers anywhere.
    farm.yaml is read again when it changes. There may be two: each run is submitted, and told of, once.
    """
    if not names_broker():
        raise UsageError(
            f"a beat needs a broker: set {URL_VARIABLE}, such as redis://127.0.0.1:6379/0; "
            "without one, let cron call `farm schedule run NAME`"
        )
    root = find_root([Path.cwd()])
    schedules = load_settings(root).schedules
    if not schedules:
        raise UsageError(f'{os.path.relpath(root / FARM_FILE)} has no "schedules", so there is nothing to do')
    reachable_broker()
    # Safe of a directory "workers" where this command is called: -P.
    command = [sys.executable, "-P", "-m", "workers", "--beat", "--loglevel", arguments.loglevel.upper()]
    for option in ("max_interval", "pidfile", "logfile"):
        if (value := getattr(arguments, option)) is not None:
            command += [f"--{option.replace('_', '-')}", str(value)]
    echo(f"keeping time for {', '.join(schedules)}", err=True)
    sys.stdout.flush()
    os.execve(sys.executable, command, dict(os.environ))  # noqa: S606 — a process of its own, without a shell


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise ArgumentTypeError(f"{text} is not a whole number of seconds from 1 to 3600")
    return int(text)
