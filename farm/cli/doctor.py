"""`farm doctor`: try what a run needs on this machine, and say what to do about what does not work."""

from __future__ import annotations

import json
import shutil
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from farm.agents.availability import ask_agents
from farm.cli.options import echo, painter
from farm.errors import FarmError
from farm.queue.broker import Broker, broker_from_environment
from farm.queue.caching import cache_directory
from farm.queue.connection import shown
from farm.queue.examining import examine_broker, examine_server, examine_store
from farm.queue.finding import reachable_broker
from farm.queue.names import KEY_VARIABLE
from farm.queue.submit import check_keys
from farm.reporting.terminal import safe_line
from farm.sessions.sandbox import sandbox_availability

_LEAST_FREE_BYTES = 2**30


@dataclass(frozen=True)
class Finding:
    """One thing that was tried."""

    name: str
    works: bool
    said: str
    needed: bool = True  # for the mode that the environment asks for


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """Try what a run needs on this machine, and say what to do about what does not work.

    With FARM_BROKER_URL set that is a broker, and a store if FARM_STORE_URL names one; without, the embedded
    server. The exit code is 0 if all that is needed works, else 3.
    """
    findings = []
    paint = painter()
    for finding in _findings():
        findings.append(finding)
        if not arguments.json:
            mark = paint("✓", "green") if finding.works else paint("✗", "red" if finding.needed else "yellow")
            echo(f"{mark} {finding.name}: {safe_line(finding.said)}")
    if arguments.json:
        echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    return 3 if any(finding.needed and not finding.works for finding in findings) else 0


def _findings() -> Iterator[Finding]:
    broker, problem = _configured()
    has_fleet = broker is not None or problem is not None
    if problem is not None:
        yield Finding("broker", works=False, said=problem)
    elif broker is None:
        said = "FARM_BROKER_URL is not set: runs are carried out on this machine"
        yield Finding("broker", works=True, said=said, needed=False)
    else:
        yield from _fleet(broker)
    yield _tried("embedded server", examine_server, needed=not has_fleet)
    yield from _agents()
    yield _sandbox()
    yield _directory("temporary files", Path(tempfile.gettempdir()), "set TMPDIR to a directory with room")
    yield _directory("cache of workspaces", cache_directory(), "set FARM_CACHE_DIR to a directory with room")


def _configured() -> tuple[Broker | None, str | None]:
    """Give the broker that the environment names, or what is wrong with that."""
    try:
        return broker_from_environment(), None
    except FarmError as error:
        return None, str(error)


def _fleet(broker: Broker) -> Iterator[Finding]:
    def examine() -> str:
        reachable_broker()
        return examine_broker(broker)

    found = _tried("broker", examine, where=broker.url)
    yield found
    if broker.store_url is not None:
        yield _tried("store", lambda: examine_store(broker), where=broker.store_url)
    elif found.works:
        said = "FARM_STORE_URL is not set: reports and transcripts stay in the broker for 14 days"
        yield Finding("store", works=True, said=said, needed=False)
    if found.works:
        yield _workers(broker)
        yield _signing(broker)


def _workers(broker: Broker) -> Finding:
    workers = broker.ledger.workers()
    if not workers:
        return Finding("workers", works=False, said="none lives; start one: `farm worker`", needed=False)
    at_once = sum(worker.concurrency for worker in workers)
    kinds = sorted({kind for worker in workers for kind in worker.agents})
    said = f"{len(workers)} live, {at_once} sessions at once; {', '.join(kinds)}"
    return Finding("workers", works=True, said=said, needed=False)


def _signing(broker: Broker) -> Finding:
    try:
        check_keys(broker)
    except FarmError as error:
        return Finding("signing", works=False, said=str(error))
    signer = broker.signer
    if not signer.key:
        told = f"{KEY_VARIABLE} is not set: who can write to the broker can run commands on its workers"
        return Finding("signing", works=True, said=told, needed=False)
    others = [worker.name for worker in broker.ledger.workers() if worker.key_id != signer.key_id]
    if others:
        told = f"these workers have another key, or none: {', '.join(others)}"
        return Finding("signing", works=False, said=told)
    return Finding("signing", works=True, said=f"on, with key {signer.key_id}", needed=False)


def _agents() -> Iterator[Finding]:
    for kind, found in ask_agents().items():
        said = (found.version or "can run here") if found.usable else (found.reason or "can't run here")
        yield Finding(f"agent {kind}", works=found.usable, said=said, needed=False)


def _sandbox() -> Finding:
    found = sandbox_availability()
    if found.works:
        return Finding("sandbox", works=True, said=found.version or "bubblewrap", needed=False)
    said = f"{found.reason}; sessions run without one unless a test asks for `isolation: bubblewrap`"
    return Finding("sandbox", works=False, said=said, needed=False)


def _directory(name: str, directory: Path, advice: str) -> Finding:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix="farm-doctor-") as file:
            file.write(b"x")
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Finding(
            name, works=False, said=f"{directory}: can't be written to: {error.strerror}; {advice}"
        )
    room = f"{directory}: {free / 2**30:.1f} GiB free"
    if free < _LEAST_FREE_BYTES:
        return Finding(name, works=False, said=f"{room}; {advice}")
    return Finding(name, works=True, said=room)


def _tried(name: str, examine: Callable[[], str], *, where: str = "", needed: bool = True) -> Finding:
    try:
        works, said = True, examine()
    except FarmError as error:
        works, said = False, str(error)
    return Finding(name, works=works, said=f"{shown(where)}: {said}" if where else said, needed=needed)
