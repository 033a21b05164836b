"""Remove what sessions of dead processes left: after a power cut, or when owner and guard both were killed.

Touches nothing of a living owner, of another machine or container, or of another user.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from farm.sessions.owned_directory import PREFIX, RECORD, OwnerRecord
from farm.sessions.process_table import Process, find_processes, has_dead_owner, kill_until_none
from farm.sessions.removal import remove_tree


@dataclass(frozen=True)
class Leftovers:
    """What was found and is gone now."""

    directories: tuple[Path, ...] = ()
    processes: int = 0


def remove_leftovers(directory: Path | None = None) -> Leftovers:
    """Kill the processes and remove the directories of owners that are no more; call it when a worker starts.

    `directory` is where trials' directories are made (None: the temporary directory).
    """
    if sys.platform != "linux":
        return Leftovers()
    # First the processes: they may be writing to the directories.
    killed: set[tuple[int, int]] = set()

    def find() -> list[Process]:
        found = find_processes(_is_leftover)
        killed.update((process.pid, process.started) for process in found)
        return found

    kill_until_none(find)
    place = Path(tempfile.gettempdir()) if directory is None else directory
    candidates = (path for path in place.glob(f"{PREFIX}*") if _is_left_directory(path))
    return Leftovers(tuple(path for path in candidates if remove_tree(path)), len(killed))


def _is_leftover(process: Process) -> bool:
    return has_dead_owner(process) and _is_of_this_namespace(process.pid)


def _is_of_this_namespace(pid: int) -> bool:
    """Say whether ids mean the same to a process as to us: in a container they do not."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return False


def _is_left_directory(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    record = OwnerRecord.read(path / RECORD)
    return record is not None and record.is_of_the_dead()
