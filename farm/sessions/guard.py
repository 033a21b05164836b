"""Watch the processes that run sessions; when one is gone, kill what it ran and remove its directories.

A program of its own: it does not die of what kills the farm, a worker, or a terminal. Owners speak to it over
a socket that their forked children inherit, a message each (see `guarding`):

    + pid started \\0            an owner is here
    + pid started \\0 directory  … and will make this directory
    - pid started \\0 directory  … and has removed it

It ends when nobody holds the other end of the socket and no owner is left.
"""

from __future__ import annotations

import os
import select
import signal
import sys

from farm.sessions.process_table import Owner, find_processes, kill_until_none

# What these mean is for the owners to decide; while one is left, it needs us.
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_MESSAGE_BYTES = 65536


def main() -> None:
    """Guard whoever speaks on standard input."""
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who clean up
    os.closerange(3, 65536)  # a pipe that the owner inherited must not be kept open by us
    os.chdir("/")
    os.set_blocking(0, False)
    _Guard().watch()


class _Guard:
    def __init__(self) -> None:
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._is_connected = True
        self._owners: dict[int, Owner] = {}  # by the descriptor that tells of their end
        self._descriptors: dict[tuple[int, int], int] = {}
        self._directories: dict[tuple[int, int], set[bytes]] = {}

    def watch(self) -> None:
        while self._is_connected or self._owners:
            ended = [descriptor for descriptor, _ in self._poll.poll() if descriptor]
            # All that an owner said has been said before its end.
            self._listen()
            for descriptor in ended:
                self._bury(descriptor)

    def _listen(self) -> None:
        while self._is_connected:
            try:
                message = os.read(0, _MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if message:
                self._hear(message)
            else:
                self._is_connected = False
                self._poll.unregister(0)

    def _hear(self, message: bytes) -> None:
        sign = message[:1]
        who, _, directory = message[1:].partition(b"\0")
        pid, started = map(int, who.split())
        directories = self._directories.setdefault((pid, started), set())
        if directory:
            (directories.add if sign == b"+" else directories.discard)(directory)
        if (pid, started) not in self._descriptors:
            self._meet(Owner(pid, started))

    def _meet(self, owner: Owner) -> None:
        assert sys.platform == "linux"
        key = (owner.pid, owner.started)
        try:
            descriptor = os.pidfd_open(owner.pid)
        except OSError:
            descriptor = -1
        if descriptor >= 0 and owner.is_alive():
            self._owners[descriptor] = owner
            self._descriptors[key] = descriptor
            self._poll.register(descriptor, select.POLLIN)
            return
        if descriptor >= 0:
            os.close(descriptor)
        _clean_up(owner, self._directories.pop(key))

    def _bury(self, descriptor: int) -> None:
        owner = self._owners.pop(descriptor)
        key = (owner.pid, owner.started)
        del self._descriptors[key]
        self._poll.unregister(descriptor)
        os.close(descriptor)
        _clean_up(owner, self._directories.pop(key))


def _clean_up(owner: Owner, directories: set[bytes]) -> None:
    """Do it in a process of its own: to remove a large tree takes time, and others want to be heard."""
    if os.fork():
        return
    try:
        os.close(0)
        kill_until_none(lambda: find_processes(owner.has_started, not_before=owner.started))
        if directories:
            from pathlib import Path

            from farm.sessions.removal import remove_tree

            for directory in directories:
                remove_tree(Path(os.fsdecode(directory)))
    finally:
        os._exit(0)
