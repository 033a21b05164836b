"""Find processes by the marks of a session in Linux's process table, and kill exactly those.

Every process of a session bears two marks, which say whose session it is and which. The environment variable
is easily lost: `env -i` drops it, and servers like PostgreSQL write their title over it. A resource limit is
inherited by everything and touched by nobody: 2**62 microseconds of realtime CPU time limit nothing, and the
bits below them are ours.

Imports next to nothing, not even `typing`: the guard has to be there within milliseconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable

MARKER = "FARM_PROCESS_ID"  # set by the farm: whose session a process is of
GIVE_UP_AFTER_SECONDS = 15.0

_LIMIT_BASE = 2**62
_OWNER_PID_BITS = 22  # Linux has no larger process ids
_OWNER_START_BITS = 14
_NUMBER_BITS = 25
_LIMIT_LINE = b"Max realtime timeout"


class Process:
    """One row of the process table; `started` tells it from a later process with the same id."""

    __slots__ = ("group", "parent", "pid", "session", "started")

    def __init__(self, pid: int, parent: int, group: int, session: int, started: int) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.started = started


class Owner:
    """The process that runs sessions, and so answers for what they leave."""

    __slots__ = ("pid", "started")

    def __init__(self, pid: int, started: int) -> None:
        self.pid = pid
        self.started = started

    @classmethod
    def of_this_process(cls) -> Owner:
        """Give this process; where there is no process table, its start is not known."""
        this = read_process(os.getpid())
        return cls(os.getpid(), this.started if this else 0)

    def is_alive(self) -> bool:
        """Say whether this very process still runs."""
        process = read_process(self.pid)
        return process is not None and process.started == self.started

    def mark(self, number: int) -> str:
        """Give the value of the environment variable in its session of that number."""
        return f":{self.pid}.{self.started}.{number}:"

    def limit(self, number: int) -> int:
        """Give the resource limit in its session of that number."""
        return _LIMIT_BASE | self._short() << _NUMBER_BITS | number & _mask(_NUMBER_BITS)

    def has_started(self, process: Process) -> bool:
        """Say whether a process bears a mark of any of its sessions."""
        if any(self._short() == owner for owner in _limit_owners(process.pid)):
            return True
        return any(owner.pid == self.pid and owner.started == self.started for owner in _owners(process.pid))

    def _short(self) -> int:
        """Put into 36 bits who it is: the end of the start time tells it from others with its id."""
        return _short(self.pid, self.started)


def _short(pid: int, started: int) -> int:
    return (pid & _mask(_OWNER_PID_BITS)) << _OWNER_START_BITS | started & _mask(_OWNER_START_BITS)


def _mask(bits: int) -> int:
    return (1 << bits) - 1


def has_dead_owner(process: Process) -> bool:
    """Say whether a process bears the mark of a session whose owner is gone."""
    for owner in _limit_owners(process.pid):
        alive = read_process(owner >> _OWNER_START_BITS)
        if alive is None or _short(alive.pid, alive.started) != owner:
            return True
    return any(not owner.is_alive() for owner in _owners(process.pid))


def _limit_owners(pid: int) -> list[int]:
    """Read whose sessions a process's resource limit says it is of: the soft one, or the hard."""
    contents = read_file(pid, "limits")
    start = contents.find(_LIMIT_LINE)
    if start < 0:
        return []
    values = contents[start + len(_LIMIT_LINE) : contents.find(b"\n", start)].split()[:2]
    limits = {int(value) for value in values if value.isdigit()}
    return [
        (limit - _LIMIT_BASE) >> _NUMBER_BITS for limit in limits if _LIMIT_BASE <= limit < 2 * _LIMIT_BASE
    ]


def _owners(pid: int) -> list[Owner]:
    """Read whose sessions a process's environment says it is of: several if one farm runs in another's."""
    owners = []
    for variable in read_file(pid, "environ").split(b"\0"):
        name, _, value = variable.partition(b"=")
        if name == MARKER.encode():
            for mark in value.split(b":"):
                parts = mark.split(b".")
                if len(parts) == 3 and all(part.isdigit() for part in parts):
                    owners.append(Owner(int(parts[0]), int(parts[1])))
    return owners


def find_processes(
    is_wanted: Callable[[Process], bool],
    *,
    list_ids: Callable[[], Iterable[int]] = lambda: process_ids(),
    not_before: int = 0,
) -> list[Process]:
    """Find those that are wanted and all that stem from them, also one that is being passed on meanwhile.

    Most processes need no look, or no close one: `list_ids` says which are worth it, and nothing that stems
    from a command is older than it.
    """
    looked_at: set[int] = {os.getpid()}
    younger: list[Process] = []
    found: dict[int, Process] = {}
    # A look is complete when no process came into being during it: one that had vanished by the time we
    # came to it may have left a child.
    while unseen := set(list_ids()) - looked_at:
        looked_at |= unseen
        for pid in unseen:
            process = read_process(pid)
            if process and process.started >= not_before:
                younger.append(process)
                if is_wanted(process):
                    found[pid] = process
    while children := [p for p in younger if p.parent in found and p.pid not in found]:
        found.update({process.pid: process for process in children})
    return list(found.values())


def kill_until_none(find: Callable[[], list[Process]]) -> list[Process]:
    """Kill until a look finds none alive; give those that can't be killed."""
    give_up_at = time.monotonic() + GIVE_UP_AFTER_SECONDS
    pause_seconds = 0.001
    while alive := find():
        kill(alive)
        if time.monotonic() > give_up_at:
            return alive
        time.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 2, 0.05)
    return []


def kill(processes: Iterable[Process]) -> None:
    """Kill exactly these: a pidfd can't come to mean a later process, once its start time was checked.

    The oldest first: a shell that sees its command killed says so, as if that were the agent's own words.
    """
    if sys.platform != "linux":
        return
    for process in sorted(processes, key=lambda process: (process.started, process.pid)):
        try:
            handle = os.pidfd_open(process.pid)
        except OSError:
            continue
        try:
            if (now := read_process(process.pid)) and now.started == process.started:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except OSError:
            pass
        finally:
            os.close(handle)


def process_ids() -> list[int]:
    """List all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def read_process(pid: int) -> Process | None:
    """Read a living process's row; None if there is no such process or it is dead and not yet buried."""
    stat = read_file(pid, "stat")
    # The name comes in parentheses, and may hold any byte, parentheses included.
    fields = stat[stat.rfind(b")") + 2 :].split(None, 20)
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def read_file(pid: int, name: str) -> bytes:
    """Read a file of a process, as far as there is one and we may."""
    # Not Path.read_bytes(): this runs for many processes at the end of many commands.
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
