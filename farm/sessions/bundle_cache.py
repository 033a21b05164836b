"""Keep unpacked bundles on this machine, and fill workspaces from them.

::

    entries/<id>/tree        the unpacked bundle; appears and disappears whole, by a rename
    entries/<id>/manifest    what is in the tree, a JSON line each; its time is that of the last use
    partial/<id>.<random>/   an entry on its way in or out
    locks/<id>               held shared while an entry is read, exclusively while it comes or goes

Locks are the kernel's (`flock`): they end with the process that holds them, however it ends. What a killed
process leaves in `partial/` is removed by the next one that gets the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

from farm.errors import FarmError
from farm.sessions.file_clone import FileCloner
from farm.sessions.unpacking import UnpackLimits, unpack_bundle

DEFAULT_MAX_BYTES = 10 * 2**30

_DISK_BLOCK_BYTES = 4096
_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class _Item:
    """One thing in a cached tree, and what shows that nobody has written to it since."""

    path: str
    kind: Literal["file", "link", "directory"]
    executable: bool = False
    size: int = 0
    # Changes with every write, and can't be set back. Also after a power cut, when content may be missing
    # though the rename is not, this and the size tell.
    changed_at_ns: int = 0
    link_target: str = ""


class BundleCache:
    """Unpacked bundles by their ids, the least recently used dropped when there are too many.

    Any number of threads and processes may share a directory. After a use, no more than `max_bytes` stay on
    the disk, except what others are reading just then.
    """

    def __init__(
        self, directory: Path, max_bytes: int = DEFAULT_MAX_BYTES, *, limits: UnpackLimits | None = None
    ) -> None:
        self._entries = directory / "entries"
        self._partial = directory / "partial"
        self._locks = directory / "locks"
        self._max_bytes = max_bytes
        self._limits = limits or UnpackLimits()
        self._should_trim = True  # a process before us may have been killed
        for each in (directory, self._entries, self._partial, self._locks):
            # Workspaces are nobody else's business.
            each.mkdir(mode=0o700, parents=True, exist_ok=True)

    def materialise(self, bundle_id: str, fetch: Callable[[str], IO[bytes]], target: Path) -> None:
        """Fill the empty directory `target` with a fresh copy of a bundle, fetched unless it is here.

        On one machine each bundle is fetched once; who comes meanwhile waits. All files get the same time:
        `make` must not take one for older than another by the order of copying.
        """
        if not _ID.fullmatch(bundle_id):
            raise FarmError(f"{bundle_id!r} is no id of a bundle")
        with self._lock(bundle_id, fcntl.LOCK_SH):
            filled = self._fill(bundle_id, target)
        if not filled:
            # Copied before the lock is given back: with little room another would drop it at once.
            with self._lock(bundle_id, fcntl.LOCK_EX):
                if not self._fill(bundle_id, target):
                    self._store(bundle_id, fetch)
                    if not self._fill(bundle_id, target):
                        raise FarmError(f"bundle {bundle_id} can't be kept in {self._entries}")
            self._should_trim = True
        if self._should_trim:
            self.trim()

    def read_file(self, bundle_id: str, path: str, read: Callable[[Path], bytes | None]) -> bytes | None:
        """Read a file of a bundle; None if it is not here any more. Whether it is right, its reader knows."""
        entry = self._entries / bundle_id
        if not _ID.fullmatch(bundle_id) or not entry.exists():
            return None
        with self._lock(bundle_id, fcntl.LOCK_SH):
            return read(entry / "tree" / path)

    def trim(self) -> None:
        """Drop the least recently used entries until the rest fits, and what killed processes left."""
        with self._lock("trim", fcntl.LOCK_EX):
            for leftover in list(self._partial.iterdir()):
                with self._try_lock(leftover.name.partition(".")[0]) as mine:
                    if mine:
                        _remove(leftover)
            used = sorted(self._list_entries(), key=lambda entry: entry.used_at_ns)
            total_bytes = sum(entry.disk_bytes for entry in used)
            for entry in used:
                if total_bytes <= self._max_bytes and entry.used_at_ns:
                    break
                with self._try_lock(entry.bundle_id) as mine:
                    if mine:
                        self._drop(entry.bundle_id)
                        (self._locks / entry.bundle_id).unlink(missing_ok=True)
                        total_bytes -= entry.disk_bytes
        self._should_trim = total_bytes > self._max_bytes

    def _fill(self, bundle_id: str, target: Path) -> bool:
        """Copy an entry that is whole; False if there is none. Call it with the lock held."""
        items = self._read_whole_entry(bundle_id)
        if items is None:
            return False
        manifest = self._entries / bundle_id / "manifest"
        with contextlib.suppress(OSError):
            os.utime(manifest)
        try:
            _copy_items(items, self._entries / bundle_id / "tree", target)
        except OSError as error:
            where = error.filename or target
            raise FarmError(f"can't fill the workspace {target}: {where}: {error.strerror}") from error
        return True

    def _read_whole_entry(self, bundle_id: str) -> list[_Item] | None:
        """Read what an entry has; None if it is missing, or anything in it was lost or written to."""
        entry = self._entries / bundle_id
        try:
            lines = (entry / "manifest").read_text().splitlines()[1:]
            items = [_Item(**json.loads(line)) for line in lines]
            is_whole = items == list(_scan(entry / "tree"))
        except (OSError, ValueError, TypeError):
            return None
        return items if is_whole else None

    def _store(self, bundle_id: str, fetch: Callable[[str], IO[bytes]]) -> None:
        """Fetch and unpack a bundle, and make it an entry. Call it with the lock held exclusively."""
        self._drop(bundle_id)
        partial = self._new_partial(bundle_id)
        with contextlib.closing(fetch(bundle_id)) as archive:
            try:
                partial.mkdir(mode=0o700)
                unpack_bundle(archive, partial / "tree", expected_id=bundle_id, limits=self._limits)
                _write_manifest(partial)
                partial.rename(self._entries / bundle_id)
            except OSError as error:
                raise FarmError(
                    f"can't keep bundle {bundle_id} in {self._entries}: {error.strerror}"
                ) from error
            finally:
                _remove(partial)

    def _drop(self, bundle_id: str) -> None:
        """Make an entry disappear at once; call it with the lock held exclusively."""
        partial = self._new_partial(bundle_id)
        with contextlib.suppress(FileNotFoundError):
            (self._entries / bundle_id).rename(partial)
        _remove(partial)

    def _new_partial(self, bundle_id: str) -> Path:
        return self._partial / f"{bundle_id}.{secrets.token_hex(8)}"

    def _list_entries(self) -> Iterator[_Entry]:
        for path in list(self._entries.iterdir()):
            manifest = path / "manifest"
            try:
                with manifest.open() as file:
                    disk_bytes = int(file.readline())
                yield _Entry(path.name, disk_bytes, manifest.stat().st_mtime_ns)
            except (OSError, ValueError):
                # Just dropped by another, or damaged: the one is no loss, the other must go.
                yield _Entry(path.name, 0, 0)

    @contextlib.contextmanager
    def _try_lock(self, name: str) -> Iterator[bool]:
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._lock(name, fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                mine = False
            else:
                mine = True
            yield mine

    @contextlib.contextmanager
    def _lock(self, name: str, operation: int) -> Iterator[None]:
        path = self._locks / name
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, operation)
                # Who held it before us may have removed it: then it is no longer the lock of this name.
                if _is_at(descriptor, path):
                    yield
                    return
            finally:
                # Not only closed: a process forked meanwhile has the descriptor too, and with it the lock.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)


@dataclass(frozen=True)
class _Entry:
    bundle_id: str
    disk_bytes: int
    used_at_ns: int


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _scan(tree: Path) -> Iterator[_Item]:
    """List a tree, directories before what is in them."""
    waiting = [""]
    while waiting:
        current = waiting.pop()
        with os.scandir(tree / current) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            path = f"{current}{entry.name}"
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                waiting.append(f"{path}/")
                yield _Item(path, "directory")
            elif stat.S_ISLNK(status.st_mode):
                yield _Item(path, "link", link_target=os.readlink(entry.path))  # noqa: PTH115
            else:
                executable = bool(status.st_mode & stat.S_IXUSR)
                yield _Item(path, "file", executable, status.st_size, status.st_ctime_ns)


def _write_manifest(partial: Path) -> None:
    items = list(_scan(partial / "tree"))
    # What the disk loses to it, roughly: a thousand small files take more than their bytes.
    disk_bytes = sum(item.size + -item.size % _DISK_BLOCK_BYTES for item in items)
    disk_bytes += sum(_DISK_BLOCK_BYTES for item in items if item.kind == "directory")
    lines = [str(disk_bytes), *(json.dumps(asdict(item)) for item in items)]
    (partial / "manifest").write_text("\n".join(lines) + "\n")


def _copy_items(items: list[_Item], tree: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    cloner = FileCloner()
    now_ns = time.time_ns()
    for item in items:
        copy = target / item.path
        if item.kind == "directory":
            copy.mkdir()
            copy.chmod(0o755)
        elif item.kind == "link":
            copy.symlink_to(item.link_target)
        else:
            _copy_file(cloner, tree / item.path, copy, 0o755 if item.executable else 0o644, now_ns)


def _copy_file(cloner: FileCloner, original: Path, copy: Path, mode: int, time_ns: int) -> None:
    source = os.open(original, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            cloner.copy(source, target)
            os.fchmod(target, mode)
            os.utime(target, ns=(time_ns, time_ns))
        finally:
            os.close(target)
    finally:
        os.close(source)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
