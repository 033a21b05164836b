"""Kill every process that stems from one command, whatever it did to get away.

Knows Linux's /proc. Elsewhere it can kill no more than the process group.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from farm.errors import SessionError
from farm.sessions.guarding import guarded_owner
from farm.sessions.process_table import (
    GIVE_UP_AFTER_SECONDS,
    MARKER,
    Process,
    find_processes,
    kill_until_none,
    process_ids,
    read_file,
    read_process,
)

# No machine gives out more than one id in this time.
_SECONDS_PER_PROCESS_ID = 1e-6
_FEW_IDS = 64

_numbers = itertools.count(1)


class Descendants:
    """The processes that stem from one command, the command itself included.

    A process is known by where it stands in the process table: its session, its group, a parent that is
    known. A daemon cuts these ties, so each one also inherits marks; see `process_table`.
    """

    def __init__(self) -> None:
        owner, number = guarded_owner(), next(_numbers)
        self._mark = owner.mark(number)
        self._limit = owner.limit(number)
        self._first: Process | None = None
        self._leader = 0
        self._adopted_at = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """The mark that the command must be started with."""
        # A farm may run in a session of another: what its own sessions start must stay known to both.
        return {MARKER: os.environ.get(MARKER, "") + self._mark}

    def adopt(self, leader: int) -> None:
        """Mark a process that leads a session of its own and has not started anything yet."""
        self._adopted_at = time.monotonic()
        self._leader = leader
        self._first = read_process(leader)
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
        if survivors := kill_until_none(self._alive):
            raise survived(survivor.pid for survivor in survivors)

    def _alive(self) -> list[Process]:
        assert self._first is not None
        return find_processes(self._bears_a_mark, list_ids=self._younger_ids, not_before=self._first.started)

    def _younger_ids(self) -> Iterable[int]:
        """List the ids that may have been given out since the command's own.

        Ids are given out in a circle, so these lie between the command's and the last. If they are few,
        each is tried: to list all processes takes longer. Once so much time has passed that all ids may
        have been given out again, all processes count.
        """
        size, last = _id_circle(), _last_id()
        too_long = time.monotonic() - self._adopted_at > size * _SECONDS_PER_PROCESS_ID
        if too_long or not 0 < last < size or self._leader >= size:
            return process_ids()
        span = (last - self._leader) % size
        if span <= _FEW_IDS:
            return [(self._leader + step) % size for step in range(span + 1)]
        return [pid for pid in process_ids() if (pid - self._leader) % size <= span]

    def _bears_a_mark(self, process: Process) -> bool:
        if self._leader in (process.pid, process.session, process.group):
            return True
        limits, environ = read_file(process.pid, "limits"), read_file(process.pid, "environ")
        return str(self._limit).encode() in limits or self._mark.encode() in environ


def survived(pids: Iterable[int]) -> SessionError:
    """Say that something of a session could not be killed."""
    shown = ", ".join(map(str, pids))
    return SessionError("processes_survived", f"processes that can't be killed: {shown}", retryable=False)


@cache
def _id_circle() -> int:
    """Give the number of process ids that there are; 0 if it can't be known."""
    try:
        return int(Path("/proc/sys/kernel/pid_max").read_bytes())
    except (OSError, ValueError):
        return 0


def _last_id() -> int:
    """Give the id that was given out last; 0 if it can't be known."""
    try:
        descriptor = os.open("/proc/loadavg", os.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(os.read(descriptor, 200).split()[-1])
    except (OSError, ValueError, IndexError):
        return 0
    finally:
        os.close(descriptor)


class SandboxDescendants(Descendants):
    """The same in a sandbox, whose processes all die with the first of their namespace.

    The system lets that one be dead only when all others are, so nobody has to be searched for. Bubblewrap
    tells who it is; if it did not come to that, the process table has to do.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reader, self.status = os.pipe()
        os.set_blocking(self._reader, False)
        self._told = b""

    def adopt(self, leader: int) -> None:
        """Take over bubblewrap, which may have started the command already: nothing can leave the sandbox."""
        self._adopted_at = time.monotonic()
        self._leader = leader
        self._first = read_process(leader)

    def kill(self) -> None:
        """Kill all, and wait until they are dead."""
        first = self._number(b"child-pid")
        if first is None:
            super().kill()
        elif sys.platform == "linux":
            self._kill_namespace(first)
            os.kill(self._leader, signal.SIGKILL)  # our own child, and not yet buried: nobody else has its id

    def exit_code(self) -> int | None:
        """Give the command's exit code (128 + signal if one ended it); None if it was never started."""
        return self._number(b"exit-code")

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._reader)
        os.close(self.status)

    def _kill_namespace(self, first: int) -> None:
        try:
            handle = os.pidfd_open(first)
        except ProcessLookupError:
            return
        try:
            process = read_process(first)
            # It is in bubblewrap's session: else the id is another's by now.
            if process is None or process.session != self._leader:
                return
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if not poll.poll(GIVE_UP_AFTER_SECONDS * 1000):
                raise survived([first])
        except ProcessLookupError:
            return
        finally:
            os.close(handle)

    def _number(self, name: bytes) -> int | None:
        with contextlib.suppress(BlockingIOError):
            while told := os.read(self._reader, 4096):
                self._told += told
        found = re.search(rb'"%s": *(\d+)' % name, self._told)
        return int(found[1]) if found else None
