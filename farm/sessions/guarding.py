"""Put this process and its directories under guard: however it ends, nothing of its sessions is left.

One guard serves a process and all that it forks (the children of a prefork pool): whoever forks calls
`start_guard` before, else each child starts its own with its first session. Needs Linux; elsewhere nothing is
guarded, and a killed farm leaves its sessions' processes and directories behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import sys
import threading
from pathlib import Path

from farm.sessions.guard import IGNORED_SIGNALS
from farm.sessions.process_table import Owner

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from farm.sessions import guard; guard.main()"

_LONGEST_SAYING_SECONDS = 1.0  # somebody may have stopped the guard: sessions go on without it

_log = logging.getLogger(__name__)


class _Connection:
    """The way to the guard, for all threads of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: Owner | None = None
        self._directories: set[Path] = set()
        self._socket: socket.socket | None = None
        self._inode = 0
        self._guard_pid = 0
        self._is_known = False  # to the guard at the other end, as an owner

    def forget_parent(self) -> None:
        """Begin anew in a forked child: it has its parent's socket, but not its name or its directories."""
        self._lock = threading.Lock()
        self._owner = None
        self._directories = set()
        self._guard_pid = 0
        self._is_known = False

    def owner(self) -> Owner:
        """Give this process, under guard."""
        with self._lock:
            if self._owner is None:
                self._owner = Owner.of_this_process()
            if sys.platform == "linux" and not self._is_guarded():
                self._introduce()
            return self._owner

    def add(self, directory: Path) -> None:
        """Have a directory removed that is about to be made, should this process not live to do it."""
        self.owner()
        with self._lock:
            self._directories.add(directory)
            self._say("+", directory)

    def discard(self, directory: Path) -> None:
        """Say that a directory is gone, or is to stay."""
        with self._lock:
            self._directories.discard(directory)
            self._say("-", directory)

    def _is_guarded(self) -> bool:
        return self._is_known and self._socket is not None and _is_open(self._socket, self._inode)

    def _introduce(self) -> None:
        """Tell the guard of this process; start another one if there is none, or it was killed."""
        if self._socket is not None and not _is_open(self._socket, self._inode):
            self._hang_up()
        if self._socket is None:
            try:
                self._guard_pid, self._socket = _start()
                self._inode = os.fstat(self._socket.fileno()).st_ino
            except OSError as error:
                _log.warning("sessions are not guarded: can't start the guard: %s", error)
                return
        self._is_known = True
        self._say("+", None)
        for directory in self._directories:
            self._say("+", directory)

    def _hang_up(self) -> None:
        assert self._socket is not None
        # Who makes a daemon of itself closes all descriptors: by now this one may be another's.
        if _is_same(self._socket, self._inode):
            self._socket.close()
        else:
            self._socket.detach()
        self._socket = None
        self._is_known = False
        if self._guard_pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._guard_pid, os.WNOHANG)

    def _say(self, sign: str, directory: Path | None) -> None:
        if self._socket is None or self._owner is None or not _is_same(self._socket, self._inode):
            return
        path = b"" if directory is None else os.fsencode(directory)
        # One packet: what a forked child sends over the same socket can't get in between.
        with contextlib.suppress(OSError):  # it was killed: the next one is told
            self._socket.send(f"{sign}{self._owner.pid} {self._owner.started}\0".encode() + path)


def _is_open(connection: socket.socket, inode: int) -> bool:
    """Say whether somebody still listens at the other end."""
    poll = select.poll()
    poll.register(connection, 0)
    return _is_same(connection, inode) and not poll.poll(0)


def _is_same(connection: socket.socket, inode: int) -> bool:
    try:
        return os.fstat(connection.fileno()).st_ino == inode
    except OSError:
        return False


def _start() -> tuple[int, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_LONGEST_SAYING_SECONDS)
    package = Path(__file__).parents[2]
    environment = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
    try:
        # Not subprocess: its object would complain that we never wait for the guard.
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(package)],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,  # Ctrl-C and a closed terminal are not for it
            setsigmask=IGNORED_SIGNALS,  # until it ignores them
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return pid, ours


_connection = _Connection()
os.register_at_fork(after_in_child=_connection.forget_parent)

guarded_owner = _connection.owner
guard_directory = _connection.add
release_directory = _connection.discard


def start_guard() -> None:
    """Start the guard now: for a process that will fork others which run sessions."""
    _connection.owner()
