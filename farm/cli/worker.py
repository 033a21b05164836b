"""`farm worker`: check that a worker can work, and become one."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from difflib import get_close_matches
from pathlib import Path

from farm.agents.availability import usable_agents
from farm.agents.registry import AGENTS
from farm.cli.options import concurrency, echo, given
from farm.errors import UsageError
from farm.model.agent import AGENT_ALIASES
from farm.queue.broker_address import names_broker
from farm.queue.examining import check_rights
from farm.queue.figures import parse_address
from farm.queue.finding import reachable_broker
from farm.queue.names import (
    AGENTS_VARIABLE,
    GRACE_VARIABLE,
    METRICS_VARIABLE,
    SECRETS_VARIABLE,
    URL_VARIABLE,
    WORKER_NAME_VARIABLE,
)
from farm.queue.secret_names import parse_secret_names
from farm.settings import find_root, load_settings

_LEVELS = ("debug", "info", "warning", "error")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add(
        "--agents",
        type=given,
        metavar="A,B",
        help="the kinds of agents to serve (default: all that run here)",
    )
    add("--concurrency", type=concurrency, default=4, metavar="N", help="sessions at once (default: 4)")
    add("--name", type=_name, metavar="NAME", help="what the worker is called in `farm status`")
    add(
        "--pool",
        choices=("threads", "prefork"),
        default="threads",
        help="threads need little memory; prefork is faster for sessions of less than a second",
    )
    add(
        "--grace",
        type=_seconds,
        metavar="SECONDS",
        help="let sessions end by themselves so long when the worker is told to end (default: 30)",
    )
    add(
        "--secrets",
        type=_secret_names,
        metavar="A,B",
        help="what else of this environment agents may have (default: only what their kinds need)",
    )
    add(
        "--metrics",
        type=_address,
        metavar="[HOST:]PORT",
        help="serve figures to Prometheus there (default: nowhere; without HOST, to this machine only)",
    )
    add("--loglevel", choices=_LEVELS, default="info", help="default: info")


def run(arguments: Namespace) -> int:
    """Carry out cases for the fleet whose broker FARM_BROKER_URL names, until told to end.

    Ctrl-C or SIGTERM: begin no more, let running sessions end, hand on those that don't within --grace.
    """
    if not names_broker():
        raise UsageError(f"a worker needs a broker: set {URL_VARIABLE}, such as redis://127.0.0.1:6379/0")
    kinds = _kinds(arguments.agents)
    broker = reachable_broker()
    assert broker is not None
    check_rights(broker)
    environment = {**os.environ, AGENTS_VARIABLE: ",".join(kinds)}
    if arguments.grace is not None:
        environment[GRACE_VARIABLE] = f"{arguments.grace:g}"
    if arguments.name is not None:
        environment[WORKER_NAME_VARIABLE] = arguments.name
    if arguments.secrets is not None:
        environment[SECRETS_VARIABLE] = ",".join(arguments.secrets)
    if arguments.metrics is not None:
        environment[METRICS_VARIABLE] = arguments.metrics
    # Safe of a directory "workers" where this command is called: -P.
    command = [sys.executable, "-P", "-m", "workers"]
    command += ["--concurrency", str(arguments.concurrency), "--pool", arguments.pool]
    command += ["--loglevel", arguments.loglevel.upper()]
    if arguments.name is not None:
        command += ["--name", arguments.name]
    echo(f"serving {', '.join(kinds)}; {arguments.concurrency} at once", err=True)
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)  # noqa: S606 — a process of its own, without a shell


def _kinds(told: str | None) -> list[str]:
    """Give the kinds of agents to serve; refuse those that this machine can't."""
    if told is None:
        usable = usable_agents()
        if not usable:
            raise UsageError("no agent can run here; `farm agents` says why")
        return list(usable)
    names = [name.strip() for name in told.split(",") if name.strip()]
    kinds = list(dict.fromkeys(AGENT_ALIASES.get(name, name) for name in names))
    if not kinds:
        raise UsageError("--agents: names none")
    problems = [problem for kind in kinds if (problem := _problem(kind))]
    if problems:
        raise UsageError("--agents: " + "; ".join(problems))
    return kinds


def _problem(kind: str) -> str | None:
    if kind in AGENTS:
        found = AGENTS[kind].availability()
        return None if found.usable else f"{kind} can't run here: {found.reason}"
    named = load_settings(find_root([Path.cwd()])).agents.get(kind)
    if named is not None:
        return f'"{kind}" is an agent of farm.yaml; a worker serves its kind, {named.kind}'
    close = get_close_matches(kind, AGENTS, n=1)
    meant = f'did you mean "{close[0]}"?' if close else f"known are {', '.join(AGENTS)}"
    return f'unknown kind of agent "{kind}"; {meant}'


def _name(text: str) -> str:
    if not text or not all(char.isalnum() or char in "-_." for char in text):
        raise ArgumentTypeError(f'"{text}" is no name: letters, digits, "-", "_" and "." only')
    return text


def _secret_names(text: str) -> tuple[str, ...]:
    try:
        return parse_secret_names(text)
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None


def _address(text: str) -> str:
    try:
        parse_address(text)
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None
    return text


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError(f"{text} is not a number of seconds")
    return value
