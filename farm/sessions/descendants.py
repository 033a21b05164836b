"""Kill every process that stems from one command, whatever it did to get away.

Knows Linux's /proc. Elsewhere it can kill no more than the process group.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import time
from dataclasses import dataclass

from farm.errors import SessionError

MARKER = "FARM_PROCESS_ID"

_GIVE_UP_AFTER_SECONDS = 15.0


@dataclass(frozen=True)
class _Process:
    """One row of the process table; `started` tells it from a later process with the same id."""

    pid: int
    parent: int
    group: int
    session: int
    started: int


class Descendants:
    """The processes that stem from one command, the command itself included.

    A process is known by where it stands in the process table: its session, its group, a parent that is
    known. A daemon cuts these ties, so each one also inherits two marks. The environment variable is
    easily lost: `env -i` drops it, and servers like PostgreSQL write their title over it. A resource limit
    is inherited by everything and touched by nobody: 2**62 microseconds of realtime CPU time limit nothing,
    and the bits below them are ours.
    """

    def __init__(self) -> None:
        self._id = secrets.token_hex(16)
        self._limit = 2**62 + secrets.randbits(61)
        self._first: _Process | None = None
        self._leader = 0

    @property
    def environment(self) -> dict[str, str]:
        """The mark that the command must be started with."""
        return {MARKER: self._id}

    def adopt(self, leader: int) -> None:
        """Mark a process that leads a session of its own and has not started anything yet."""
        self._leader = leader
        self._first = _read_process(leader)
        if sys.platform == "linux":
            import resource

            # Refused where the hard limit is already lower: then the other signs must do.
            with contextlib.suppress(OSError, ValueError):
                resource.prlimit(leader, resource.RLIMIT_RTTIME, (self._limit, self._limit))

    def kill(self) -> None:
        """Kill until a look at the process table finds none of them alive."""
        if not self._leader:
            return
        if self._first is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, signal.SIGKILL)
            return
        give_up_at = time.monotonic() + _GIVE_UP_AFTER_SECONDS
        pause_seconds = 0.001
        while alive := self._alive():
            for process in alive:
                _kill(process)
            if time.monotonic() > give_up_at:
                pids = ", ".join(str(process.pid) for process in alive)
                raise SessionError(
                    "processes_survived", f"processes that can't be killed: {pids}", retryable=False
                )
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, 0.05)

    def _alive(self) -> list[_Process]:
        """Find them all, also one that passes itself on to a new process while we look."""
        assert self._first is not None
        looked_at: set[int] = {os.getpid()}
        younger: list[_Process] = []
        ours: dict[int, _Process] = {}
        # A look is complete when no process came into being during it: one that had vanished by the time we
        # came to it may have left a child.
        while unseen := _process_ids() - looked_at:
            looked_at |= unseen
            for pid in unseen:
                process = _read_process(pid)
                # Nothing that stems from the command is older than it: most need no closer look.
                if process and process.started >= self._first.started:
                    younger.append(process)
                    if self._bears_a_mark(process):
                        ours[pid] = process
        while children := [p for p in younger if p.parent in ours and p.pid not in ours]:
            ours.update({process.pid: process for process in children})
        return list(ours.values())

    def _bears_a_mark(self, process: _Process) -> bool:
        if self._leader in (process.pid, process.session, process.group):
            return True
        limits, environ = _contents(process.pid, "limits"), _contents(process.pid, "environ")
        return str(self._limit).encode() in limits or f"{MARKER}={self._id}".encode() in environ


def _process_ids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208


def _read_process(pid: int) -> _Process | None:
    """Read a living process's row; None if there is no such process or it is dead and not yet buried."""
    stat = _contents(pid, "stat")
    # The name comes in parentheses, and may hold any byte, parentheses included.
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return _Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _contents(pid: int, name: str) -> bytes:
    # Not Path.read_bytes(): this runs for every process of the machine at the end of every command.
    try:
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    except OSError:  # gone, or another user's
        return b""
    try:
        chunks = []
        while chunk := os.read(descriptor, 65536):
            chunks.append(chunk)
        return b"".join(chunks)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _kill(process: _Process) -> None:
    """Kill exactly this process: a pidfd can't come to mean a later one, once its start time was checked."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            if (now := _read_process(process.pid)) and now.started == process.started:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
