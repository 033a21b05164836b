"""Make directories that say whose they are, so that somebody removes them if their owner can't."""

from __future__ import annotations

import json
import logging
import os
import secrets
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Self

from farm.sessions.guarding import guard_directory, guarded_owner, release_directory
from farm.sessions.process_table import Owner
from farm.sessions.removal import remove_tree

PREFIX = "farm-"
RECORD = ".owner"  # in each of them

_MAX_RECORD_BYTES = 4096

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnerRecord:
    """Which process made a directory, and where its process id means something."""

    pid: int
    started: int
    machine: str
    boot: str
    namespace: str  # of process ids: another container has another

    @classmethod
    def of_this_process(cls) -> Self:
        """Describe this process."""
        owner = guarded_owner()
        return cls(owner.pid, owner.started, *_surroundings())

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read a record; None if there is none, or it is none of ours."""
        try:
            # An agent may have put anything in its place; a pipe must not block us.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            record = cls(**json.loads(os.read(descriptor, _MAX_RECORD_BYTES)))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        finally:
            os.close(descriptor)
        texts = (record.machine, record.boot, record.namespace)
        is_one = all(type(number) is int for number in (record.pid, record.started)) and all(
            isinstance(text, str) for text in texts
        )
        return record if is_one else None

    def is_of_the_dead(self) -> bool:
        """Say whether its process is certainly gone: it was of this machine, and is not there any more."""
        machine, boot, namespace = _surroundings()
        if self.boot != boot:
            return bool(boot and machine) and self.machine == machine
        return self.namespace == namespace and not Owner(self.pid, self.started).is_alive()


def make_directory(kind: str = "") -> Path:
    """Make an empty directory; it is guarded from before it exists."""
    while True:
        path = Path(tempfile.gettempdir()).resolve() / f"{PREFIX}{kind}{secrets.token_hex(6)}"
        guard_directory(path)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            release_directory(path)
            continue
        except BaseException:
            release_directory(path)
            raise
        try:
            (path / RECORD).write_text(json.dumps(asdict(OwnerRecord.of_this_process())))
        except BaseException:
            remove_directory(path)
            raise
        return path


def is_recorded_as_ours(path: Path) -> bool:
    """Say whether a directory still says that it is this process's: an agent can write in it."""
    return OwnerRecord.read(path / RECORD) == OwnerRecord.of_this_process()


def remove_directory(path: Path) -> None:
    """Remove a directory and all that is in it."""
    if not remove_tree(path):
        _log.warning("could not remove all of %s", path)
    release_directory(path)


def keep_directory(path: Path) -> None:
    """Let a directory stay: from now on it is nobody's."""
    record = path / RECORD
    try:
        record.unlink(missing_ok=True)
    except OSError:  # the agent has made something else of it
        remove_tree(record)
    release_directory(path)


@cache
def _surroundings() -> tuple[str, str, str]:
    """Name this machine, its boot, its namespace of process ids; empty is what the system has no name for."""
    return _first_line("/etc/machine-id"), _first_line("/proc/sys/kernel/random/boot_id"), _namespace()


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError):
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 (it is no path)
    except OSError:
        return ""
