"""Run the whole farm for one run on this machine: a private server and a worker, gone when we are.

The same code as on a fleet runs here; only who starts it differs. What the server knows is written to the
run's own directory, so that a run which was interrupted, in whatever way, can be resumed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from farm.errors import FarmError, OutputError
from farm.queue.broker_address import names_broker
from farm.queue.names import (
    CACHE_VARIABLE,
    EMBEDDED_VARIABLE,
    STORE_VARIABLE,
    URL_FILE_VARIABLE,
    URL_VARIABLE,
)
from farm.queue.server import Server, ServerError, answers, private_server

if TYPE_CHECKING:
    from farm.queue.archive import Archive
    from farm.queue.broker import Broker

FARM_DIRECTORY = Path(".farm")

_LEDGER = "ledger"
_SOCKET = "socket"
_LOCK = "lock"
_MAX_WORKERS_LOST = 20
_WAIT_FOR_LOCK_SECONDS = 2.0  # those who only look have it for a moment
_WAIT_FOR_END_SECONDS = 10.0
# The server of another process is there, or it is gone for good.
_LOCAL_PATIENCE_SECONDS = 0.5
_OWN_PATIENCE_SECONDS = 2.0  # our own does not come back either, but may be busy


def has_broker() -> bool:
    """Say whether the environment names a broker: then no engine is embedded."""
    return names_broker()


def run_directory(run_id: str) -> Path:
    """Say where a run of this directory keeps its files."""
    return FARM_DIRECTORY / "runs" / run_id


def default_concurrency() -> int:
    """Say how many sessions a machine runs at once unless told: mostly they wait for an API."""
    return max(4, min(8, os.cpu_count() or 1))


class Embedded:
    """A private server with a worker, which is started again if it is lost."""

    def __init__(self, server: Server, concurrency: int) -> None:
        self._server = server
        self._store_url = _store_url()
        self._concurrency = concurrency
        self._log = server.socket.parent / "worker.log"
        self._lost = 0
        self._run_id: str | None = None
        self._held = ExitStack()
        self._worker = self._start()

    @cached_property
    def broker(self) -> Broker:
        """The broker that the server is."""
        # Imported here: the worker is to start before a client has been imported.
        from farm.queue.broker import Broker

        return Broker(
            self._server.broker_url,
            self._store_url,
            is_embedded=True,
            patience_seconds=_OWN_PATIENCE_SECONDS,
        )

    def remember(self, directory: Path) -> None:
        """Have the server write down what it knows, from now on."""
        ledger = directory / _LEDGER
        self._run_id = directory.name
        try:
            ledger.mkdir(parents=True, exist_ok=True)
            _keep_out_of_git()
            self._held.enter_context(_locked(ledger, directory.name))
            (ledger / _SOCKET).write_text(f"{self._server.socket}\n")
        except OSError as error:
            raise OutputError(f"{ledger}: can't be written: {error.strerror}") from None
        self.broker.write_down(ledger.resolve())
        self.broker.remove_unused_blobs()

    def watch(self) -> None:
        """Start the worker again if it has gone; raise if that does not help, or the server is cut off."""
        if not self._server.socket.exists():
            # Somebody cleaned the temporary directory: who is connected stays so, and nobody else comes in.
            raise self._lost_server()
        if self._worker.poll() is None:
            return
        self._lost += 1
        if self._lost > _MAX_WORKERS_LOST:
            said = self._log.read_text(errors="replace")[-2000:].strip()
            raise ServerError(f"the embedded worker does not stay alive: {said}")
        self._end_worker()
        self._worker = self._start()

    @contextmanager
    def told_if_lost(self, run_id: str | None = None) -> Iterator[None]:
        """Let trouble with a server that has gone leave as that: it is no broker of the user's."""
        try:
            yield
        except FarmError as error:
            from farm.queue.blobs import BlobError
            from farm.queue.connection import LedgerError

            if not isinstance(error, (BlobError, LedgerError)) or answers(self._server.socket):
                raise
            raise self._lost_server(run_id) from None

    def close(self) -> None:
        """End the worker; the server ends with its own block."""
        self._end_worker()
        self._held.close()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            URL_VARIABLE: self._server.broker_url,
            URL_FILE_VARIABLE: "",
            STORE_VARIABLE: self._store_url,
            EMBEDDED_VARIABLE: "1",
            CACHE_VARIABLE: os.environ.get(CACHE_VARIABLE) or str(FARM_DIRECTORY.resolve() / "cache"),
        }
        # -P: a directory "workers" in the user's project is not ours.
        command = [sys.executable, "-P", "-m", "workers", "--embedded"]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*command, "--concurrency", str(self._concurrency)],
                stdin=subprocess.PIPE,  # it ends when the other end does
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us: we tell it what that means
            )

    def _lost_server(self, run_id: str | None = None) -> ServerError:
        run_id = run_id or self._run_id
        rest = f"`farm resume {run_id}` carries out the rest" if run_id else "submit again"
        return ServerError(f"the embedded server was lost; {rest}")

    def _end_worker(self) -> None:
        assert self._worker.stdin is not None
        self._worker.stdin.close()
        self._worker.wait()
        # Its guard does that too, but in its own time: nothing is to be left when we return.
        from farm.sessions.leftovers import remove_leftovers  # not at the top: the worker is to start first

        remove_leftovers()


@contextmanager
def embedded_engine(concurrency: int | None = None) -> Iterator[Embedded]:
    """Run a private server and a worker until the end of the block, or of this process, however it ends."""
    with private_server("--enable-protected-configs", "yes") as server:
        engine = Embedded(server, concurrency or default_concurrency())
        try:
            with engine.told_if_lost():
                yield engine
        finally:
            engine.close()


@contextmanager
def reopened_engine(run_id: str, concurrency: int | None = None) -> Iterator[Embedded]:
    """Run the engine on what an earlier one wrote down of a run."""
    ledger = run_directory(run_id) / _LEDGER
    with _locked(ledger, run_id), _server_on(ledger, run_id) as server:
        (ledger / _SOCKET).write_text(f"{server.socket}\n")
        engine = Embedded(server, concurrency or default_concurrency())
        try:
            with engine.told_if_lost(run_id):
                yield engine
        finally:
            engine.close()


@contextmanager
def local_broker(run_id: str) -> Iterator[Broker | None]:
    """Give the broker of a run of this directory, to look at it; None if there is no such run.

    While the run goes on, this is the server of the process that runs it; later, one on what it wrote down.
    """
    ledger = run_directory(run_id) / _LEDGER
    if not has_ledger(run_id):
        yield None
        return
    from farm.queue.broker import Broker

    store = _store_url()
    if is_carried_out(run_id):
        broker = Broker(
            f"redis+socket://{_socket(ledger)}",
            store,
            is_embedded=True,
            patience_seconds=_LOCAL_PATIENCE_SECONDS,
        )
        yield broker
        return
    with _locked(ledger, run_id), _server_on(ledger, run_id) as server:
        yield Broker(server.broker_url, store, is_embedded=True)


def local_archive() -> Archive:
    """Give the reports of the runs of this directory."""
    from farm.queue.archive import StoreArchive
    from farm.queue.blobs import open_store

    return StoreArchive(*open_store(_store_url()))


def local_runs() -> list[str]:
    """Name the runs of this directory, newest first."""
    directory = FARM_DIRECTORY / "runs"
    try:
        names = os.listdir(directory)  # noqa: PTH208 — names are what we want
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FarmError(f"{directory}: can't be read: {error.strerror}") from None
    return sorted((name for name in names if has_ledger(name) or has_report(name)), reverse=True)


def has_ledger(run_id: str) -> bool:
    """Say whether a run of this directory can still be looked into, and resumed."""
    # Not is_dir(): it raises where we may not look.
    return os.path.isdir(run_directory(run_id) / _LEDGER)  # noqa: PTH112


def has_report(run_id: str) -> bool:
    """Say whether the report of a run is in this directory: it outlives all else that is known of it."""
    return os.path.isfile(run_directory(run_id) / "report.json")  # noqa: PTH113


def is_carried_out(run_id: str) -> bool:
    """Say whether a farm carries out this run of this directory now."""
    socket = _socket(run_directory(run_id) / _LEDGER)
    return socket is not None and answers(socket)


def _socket(ledger: Path) -> Path | None:
    try:
        return Path((ledger / _SOCKET).read_text().strip())
    except (OSError, ValueError):
        return None


def _server_on(ledger: Path, run_id: str) -> contextlib.AbstractContextManager[Server]:
    # Whoever had the lock has gone; the watchdog may need a moment to end its server, and two must not write.
    deadline = time.monotonic() + _WAIT_FOR_END_SECONDS
    while is_carried_out(run_id):
        if time.monotonic() > deadline:
            raise _in_use(run_id)
        time.sleep(0.02)
    options = ("--dir", str(ledger.resolve()), "--appendonly", "yes", "--enable-protected-configs", "yes")
    return private_server(*options)


@contextmanager
def _locked(ledger: Path, run_id: str) -> Iterator[None]:
    try:
        descriptor = os.open(ledger / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ServerError(f"{ledger}: can't be opened: {error.strerror}") from None
    try:
        deadline = time.monotonic() + _WAIT_FOR_LOCK_SECONDS
        while not _lock(descriptor):
            if time.monotonic() > deadline:
                raise _in_use(run_id)
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _in_use(run_id: str) -> FarmError:
    return FarmError(f"another farm carries out run {run_id}; `farm watch {run_id}` follows it")


def _store_url() -> str:
    # Not as_uri(): fsspec takes the %20 that it makes of a space for a part of the name.
    return f"file://{FARM_DIRECTORY.resolve()}"


def _keep_out_of_git() -> None:
    ignore = FARM_DIRECTORY / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
