"""`farm flower`: check that Flower may be started as asked, and become it."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from farm.agents.registry import AGENTS
from farm.cli.options import echo, given, given_path
from farm.errors import UsageError
from farm.queue.broker_address import names_broker
from farm.queue.finding import reachable_broker
from farm.queue.names import AGENTS_VARIABLE, FLOWER_AUTH_VARIABLE, URL_VARIABLE

PASSES_ON = True  # what stands after "--"

_OPTION = re.compile(r"--([A-Za-z][A-Za-z0-9_-]*)(=.*)?", re.DOTALL)
# What we decide about, and how it is said to us.
_OURS = {
    "address": "--host",
    "port": "--port",
    "read_only": "--control",
    "basic_auth": FLOWER_AUTH_VARIABLE,
    "auth": "`celery -A workers.app flower`, with all of Flower's options",
    "unix_socket": "`celery -A workers.app flower`, with all of Flower's options",
}
# What may be asked of Flower's own file of options must be asked for: it is Python, and we may be anywhere.
_DEFAULTS = {
    "conf": os.devnull,
    "tasks_columns": "uuid,state,kwargs,result,exception,received,runtime,worker",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add(
        "--host", type=given, default="127.0.0.1", help="the address to serve on (default: this machine only)"
    )
    add("--port", type=_port, default=5555, help="default: 5555")
    add(
        "--auth-file",
        type=given_path,
        metavar="FILE",
        help=f"who may look: a line `user:password` for each (else what {FLOWER_AUTH_VARIABLE} says)",
    )
    add("--control", action="store_true", help="let those who look also end workers and the like")
    parser.usage = "farm flower [-h] [--host HOST] [--port PORT] [--auth-file FILE] [--control] [-- OPTION …]"


def run(arguments: Namespace) -> int:
    """Watch the workers of a fleet and their tasks in a browser: starts Flower on FARM_BROKER_URL's broker.

    Options of Flower's own stand after "--": farm flower -- --persistent --db=/srv/flower.db
    """
    if not names_broker():
        raise UsageError(f"Flower needs a broker: set {URL_VARIABLE}, such as redis://127.0.0.1:6379/0")
    accounts = _accounts(arguments.auth_file)
    how = f"set {FLOWER_AUTH_VARIABLE}=user:password, or give --auth-file"
    if not accounts and not _is_loopback(arguments.host):
        raise UsageError(
            f"--host {arguments.host}: others than this machine may look only with a password; {how}"
        )
    if not accounts and arguments.control:
        # Any page that is open in a browser here could send such commands.
        raise UsageError(f"--control: only those with a password may control the workers; {how}")
    options = [
        f"--address={arguments.host}",
        f"--port={arguments.port}",
        f"--read_only={not arguments.control}",
        *_passed_on(arguments.passed_on),
    ]
    reachable_broker()
    # Which queues there are; asking the agents would take a while.
    environment = {**os.environ, AGENTS_VARIABLE: ",".join(AGENTS)}
    environment.pop(FLOWER_AUTH_VARIABLE, None)
    if accounts:
        environment[FLOWER_AUTH_VARIABLE] = "\n".join(accounts)
    place = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    echo(f"starting Flower on http://{place}:{arguments.port}/", err=True)
    sys.stdout.flush()
    # Safe of a directory "workers" where this command is called: -P.
    command = [sys.executable, "-P", "-m", "workers.flower", *options]
    os.execve(sys.executable, command, environment)  # noqa: S606 — a process of its own, without a shell


def _accounts(file: Path | None) -> list[str]:
    if file is None:
        told, where = os.environ.get(FLOWER_AUTH_VARIABLE, ""), FLOWER_AUTH_VARIABLE
        lines = [told] if told else []
    else:
        where = str(file)
        try:
            lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--auth-file {file}: can't be read: {error}") from None
        if not lines:
            raise UsageError(f"--auth-file {file}: names nobody; write a line `user:password`")
    for number, line in enumerate(lines, start=1):
        user, _, password = line.partition(":")
        # Flower can't compare anything else than ASCII. Not what it is: it holds a password.
        if not user or not password or not line.isascii() or not line.isprintable():
            at = f"{where}:{number}" if file is not None else where
            raise UsageError(f"{at}: is not of the form user:password, in ASCII")
    return lines


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _passed_on(told: list[str]) -> list[str]:
    names = set()
    for text in told:
        match = _OPTION.fullmatch(text)
        if match is None:
            raise UsageError(f'"{text}": options of Flower are written --name or --name=value')
        name = match[1].replace("-", "_").lower()
        if name in _OURS:
            raise UsageError(f"--{match[1]}: is not passed on to Flower; use {_OURS[name]}")
        names.add(name)
    return [f"--{name}={value}" for name, value in _DEFAULTS.items() if name not in names] + told


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 65535:
        raise ArgumentTypeError(f"{text} is no port: a whole number from 1 to 65535")
    return int(text)
