"""Remove a directory whatever was done to it: read-only directories, paths too long to name."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from pathlib import Path


def remove_tree(root: Path) -> bool:
    """Remove a tree as far as that is possible; say whether all of it is gone."""
    if root.is_symlink():  # what it points to is not ours
        root.unlink(missing_ok=True)
    for prepare in (_do_nothing, _make_directories_writable, _remove_step_by_step):
        if not os.path.lexists(root):
            break
        # Another may be removing it as well: what has just gone is no reason to give up.
        with contextlib.suppress(OSError, RecursionError):
            prepare(root)
            shutil.rmtree(root)
    return not os.path.lexists(root)


def _do_nothing(_root: Path) -> None:
    """Most trees can be removed as they are."""


def _remove_step_by_step(root: Path) -> None:
    # rm goes down step by step, and so reaches what no path is short enough to name.
    subprocess.run(("/bin/rm", "-rf", "--", str(root)), stdin=subprocess.DEVNULL, capture_output=True)


def _make_directories_writable(root: Path) -> None:
    waiting = [str(root)]
    while waiting:
        current = waiting.pop()
        Path(current).chmod(stat.S_IRWXU)
        with os.scandir(current) as entries:
            waiting.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
