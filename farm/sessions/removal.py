"""Remove a directory whatever was done to it: closed directories, paths too long to name.

Goes down step by step, and opens each directory in the one above it: no path is too long for that, and no
link is followed. However deep the tree, two directories are open at a time: an agent can make one that is
deeper than a process may have files open.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# Another may be removing it as well, or still be writing to it: that is no reason to give up at once.
_ROUNDS = 3


def remove_tree(root: Path | str, directory: int | None = None) -> bool:
    """Remove a tree, or what else has its name, as far as that is possible; say whether all of it is gone.

    `directory` is an open one that the name is in. Never raises an OSError.
    """
    for _ in range(_ROUNDS):
        if _is_gone(root, directory):
            return True
        with contextlib.suppress(OSError):  # it is no directory, or one that can't be opened
            walk_tree(root, _remove_files, _try_to_remove, _try_to_remove, directory)
        with contextlib.suppress(OSError):
            _remove(root, directory)
    return _is_gone(root, directory)


def walk_tree(
    root: Path | str,
    enter: Callable[[int], list[str]],
    leave: Callable[[int, str], None],
    skip: Callable[[int, str], None],
    directory: int | None = None,
) -> None:
    """Go through a tree, however deep; directories that are closed to their owner, us, are opened.

    `enter` is called with each directory, the root first, and names those in it to go down to. When one of
    these has been gone through, `leave` is called with the directory that it is in, and its name; `skip`
    instead, if it can't be entered. Raises an OSError if the root can't be, or if a directory was moved
    while we were in it.
    """
    here = _open_directory(root, directory)
    try:
        names = enter(here)
        way_back: list[tuple[str, tuple[int, int], list[str]]] = []
        while names or way_back:
            if names:
                name = names.pop()
                below, names_below = _enter(name, here, enter)
                if below is not None and names_below:
                    way_back.append((name, _identity(here), names))
                    os.close(here)
                    here, names = below, names_below
                elif below is not None:
                    os.close(below)
                    leave(here, name)
                else:
                    skip(here, name)
            else:
                name, identity, names = way_back.pop()
                above = os.open("..", _DIRECTORY, dir_fd=here)
                os.close(here)
                here = above
                if _identity(here) != identity:
                    raise OSError(f"{name!r} was moved to another directory")
                leave(here, name)
    finally:
        os.close(here)


def _enter(name: str, directory: int, enter: Callable[[int], list[str]]) -> tuple[int | None, list[str]]:
    """Open a directory and say where to go from there; None if that is not possible."""
    try:
        descriptor = _open_directory(name, directory)
    except OSError:
        return None, []
    try:
        return descriptor, enter(descriptor)
    except OSError:
        os.close(descriptor)
        return None, []
    except BaseException:
        os.close(descriptor)
        raise


def _open_directory(name: Path | str, directory: int | None) -> int:
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
    except PermissionError:
        _make_accessible(name, directory)
        descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):  # another's; perhaps it can be read
            os.fchmod(descriptor, mode | stat.S_IRWXU)
    return descriptor


def _make_accessible(name: Path | str, directory: int | None) -> None:
    if sys.platform != "linux":
        os.chmod(name, stat.S_IRWXU, dir_fd=directory, follow_symlinks=False)
        return
    # Linux changes no mode without following links, unless it is that of something open.
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=directory)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(stat.S_IRWXU)
    finally:
        os.close(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _remove_files(directory: int) -> list[str]:
    """Remove all that is in a directory but directories; give their names."""
    names = []
    with os.scandir(directory) as scanned:
        entries = list(scanned)
    for entry in entries:
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=directory)
    return names


def _try_to_remove(directory: int, name: str) -> None:
    with contextlib.suppress(OSError):
        _remove(name, directory)


def _remove(name: Path | str, directory: int | None) -> None:
    try:
        os.rmdir(name, dir_fd=directory)
    except NotADirectoryError:
        os.unlink(name, dir_fd=directory)


def _is_gone(name: Path | str, directory: int | None) -> bool:
    try:
        os.lstat(name, dir_fd=directory)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
