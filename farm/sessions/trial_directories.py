"""Make the directories of trials, and empty those of trials that are over for the next.

On many file systems a directory takes longer to make than a short session to run, and one that was mounted
in a sandbox as long to remove.
"""

from __future__ import annotations

import atexit
import os
import stat
import threading
from pathlib import Path

from farm.sessions.owned_directory import (
    RECORD,
    is_recorded_as_ours,
    keep_directory,
    make_directory,
    remove_directory,
)
from farm.sessions.removal import remove_tree

PARTS = ("workspace", "home", "tmp", "config")

_MODE = 0o700


class TrialDirectories:
    """The directories of the trials that this process runs; may be shared by its threads."""

    def __init__(self, *, recycles: bool = False) -> None:
        self._recycles = recycles
        self._free: list[Path] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        if recycles:
            atexit.register(self.close)

    def make(self) -> Path:
        """Give a directory with its parts, all empty."""
        with self._lock:
            if self._free and self._pid == os.getpid():  # a forked process has the list of another's
                return self._free.pop()
        root = make_directory()
        try:
            for part in PARTS:
                (root / part).mkdir(mode=_MODE)
        except BaseException:
            remove_directory(root)
            raise
        return root

    def remove(self, root: Path) -> None:
        """Take a directory away, with all that is in it."""
        if self._recycles and _is_empty_again(root):
            with self._lock:
                if self._pid != os.getpid():
                    self._pid, self._free = os.getpid(), []
                self._free.append(root)
        else:
            remove_directory(root)

    def keep(self, root: Path) -> None:
        """Let a directory stay."""
        keep_directory(root)

    def close(self) -> None:
        """Remove those that wait for a next trial."""
        if self._pid == os.getpid():
            while self._free:
                remove_directory(self._free.pop())


def _is_empty_again(root: Path) -> bool:
    """Empty a directory's parts; False if anything about it is not as it was made."""
    try:
        if set(os.listdir(root)) != {*PARTS, RECORD} or not is_recorded_as_ours(root):  # noqa: PTH208
            return False
        return all(_empty(f"{root}/{part}") for part in PARTS)
    except OSError:
        return False


def _empty(part: str) -> bool:
    status = os.lstat(part)
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if not is_ours or stat.S_IMODE(status.st_mode) != _MODE or _has_attributes(part):
        return False
    with os.scandir(part) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                if not remove_tree(Path(entry.path)):
                    return False
            else:
                os.unlink(entry.path)  # noqa: PTH108
    return True


def _has_attributes(path: str) -> bool:
    # An access list that an agent left would hold for the next one.
    return hasattr(os, "listxattr") and bool(os.listxattr(path, follow_symlinks=False))
