"""Remember the files of a directory, and say later which ones are not the same any more."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from farm.model.transcript import WorkspaceChanges

# A file written this shortly before a snapshot could change again without its time stamps showing it.
_CLOCK_GRANULARITY_NS = 50_000_000


@dataclass(frozen=True)
class _FileState:
    """What a file was. `stamp` changes with every write; `content` tells whether the write mattered."""

    kind: int
    executable: bool
    stamp: tuple[int, int, int, int]
    content: bytes

    def same_as(self, other: _FileState) -> bool:
        return (self.kind, self.executable, self.content) == (other.kind, other.executable, other.content)


# What is there and can't be looked at: its path is too long, say.
_UNSEEN = _FileState(0, executable=False, stamp=(0, 0, 0, 0), content=b"")


@dataclass(frozen=True)
class Snapshot:
    """The files of a directory at one moment. Links are not followed; git's own files are left out.

    A name with a slash at its end is a directory of which nobody can tell what is in it.
    """

    files: dict[str, _FileState]
    taken_at_ns: int

    def compare(self, directory: Path) -> WorkspaceChanges:
        """Say how the directory's files differ from this snapshot."""
        now = {name: self._state_of(name, path, status) for name, path, status in _scan(directory)}
        return WorkspaceChanges(
            added=_printable(now.keys() - self.files.keys()),
            deleted=_printable(self.files.keys() - now.keys()),
            modified=_printable(
                name for name, before in self.files.items() if name in now and not before.same_as(now[name])
            ),
        )

    def changed_since(self, earlier: Snapshot) -> Iterator[str]:
        """Name the files that are not the same as in an earlier snapshot."""
        for name, state in self.files.items():
            before = earlier.files.get(name)
            if before is None or not before.same_as(state):
                yield name

    def _state_of(self, name: str, path: str, status: os.stat_result | None) -> _FileState:
        before = self.files.get(name)
        if before and status:
            settled = status.st_ctime_ns < self.taken_at_ns - _CLOCK_GRANULARITY_NS
            if settled and before.stamp == _stamp(status):
                return before
        return _read_state(path, status)


def take_snapshot(directory: Path) -> Snapshot:
    """Remember the directory's files as they are now."""
    taken_at_ns = time.time_ns()
    files = {name: _read_state(path, status) for name, path, status in _scan(directory)}
    return Snapshot(files, taken_at_ns)


def _scan(directory: Path) -> Iterator[tuple[str, str, os.stat_result | None]]:
    """Give every file's relative name, path and status; without a status what can't be looked at."""
    waiting = [str(directory)]
    while waiting:
        current = waiting.pop()
        try:
            entries = _list_directory(current)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # too long a path, or not ours to open
            yield f"{os.path.relpath(current, directory)}/", current, None
            continue
        for entry in entries:
            if entry.name == ".git":
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError:
                name = os.path.relpath(entry.path, directory)
                yield f"{name}/" if _is_directory(entry) else name, entry.path, None
                continue
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry.path)
            else:
                yield os.path.relpath(entry.path, directory), entry.path, status


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _list_directory(path: str) -> list[os.DirEntry[str]]:
    # An agent that made its directory unreadable has not deleted what is in it: open it again.
    if not os.access(path, os.R_OK | os.X_OK):
        _grant_owner(path, stat.S_IRWXU)
    with os.scandir(path) as entries:
        return list(entries)


def _read_state(path: str, status: os.stat_result | None) -> _FileState:
    if status is None:
        return _UNSEEN
    kind = stat.S_IFMT(status.st_mode)
    executable = stat.S_ISREG(kind) and bool(status.st_mode & stat.S_IXUSR)
    return _FileState(kind, executable, _stamp(status), _read_content(path, kind))


def _read_content(path: str, kind: int) -> bytes:
    try:
        if stat.S_ISLNK(kind):
            return os.fsencode(Path(path).readlink())
        if stat.S_ISREG(kind):
            return _digest(path)
    except OSError as error:
        return f"unreadable: {error.errno}".encode()
    return b""  # a pipe or a socket: to open it could block


def _digest(path: str) -> bytes:
    if not os.access(path, os.R_OK):
        _grant_owner(path, stat.S_IRUSR)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "blake2b").digest()


def digest_of(content: bytes) -> bytes:
    """Give what a snapshot has of a plain file with this content."""
    return hashlib.blake2b(content).digest()


def _grant_owner(path: str, permissions: int) -> None:
    Path(path).chmod(stat.S_IMODE(Path(path).lstat().st_mode) | permissions)


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    # ctime too: unlike mtime, nobody can set it back.
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _printable(names: Iterable[str]) -> tuple[str, ...]:
    """Give names in order, each as text that has a UTF-8 form: file names are bytes, and may have none."""
    return tuple(sorted(os.fsencode(name).decode("utf-8", "backslashreplace") for name in names))
