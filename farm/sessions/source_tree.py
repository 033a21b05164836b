"""List a directory as git sees it, and copy it: what is ignored, and what the caller names, stays behind.

`.farmignore` files are heeded in a repository and out of one, `.gitignore` files also where there is no git.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from farm.errors import FarmError
from farm.sessions.ignore_files import IgnoreFiles
from farm.sessions.walking import walk

FARM_IGNORE = ".farmignore"

# Never part of a workspace: the history holds the answers of old commits, .farm those of old runs.
_NEVER_COPIED = frozenset({".git", ".farm"})
# Where there is no .gitignore to say so.
_NOT_COPIED_WITHOUT_GIT = _NEVER_COPIED | {".venv", "__pycache__", "node_modules"}


@dataclass(frozen=True)
class TreeEntry:
    """One thing that a workspace has. Directories are listed only if nothing else says that they exist."""

    path: Path  # relative to the tree
    kind: Literal["file", "link", "directory"]
    original: Path  # what a file is read from: elsewhere, if it was a link to a file outside
    status: os.stat_result
    link_target: Path = Path()

    @property
    def is_executable(self) -> bool:
        return self.kind == "file" and bool(self.status.st_mode & stat.S_IXUSR)


def copy_tree(source: Path, target: Path, *, exclude: Collection[Path] = ()) -> None:
    """Copy `source` into the existing directory `target`, without the excluded absolute paths.

    Times and executable bits are kept, so that `make` and scripts work; other permissions are not, so that
    the agent can write to what is read-only for its owner.
    """
    made: set[Path] = {target}
    for entry in list_tree(source, exclude=exclude):
        copy = target / entry.path
        try:
            _make_directories(copy.parent, made)
            _copy_entry(entry, copy)
        except FileNotFoundError:  # deleted since we listed it
            continue
        except OSError as error:
            raise _cant_copy(entry.original, error) from error


def list_tree(source: Path, *, exclude: Collection[Path] = ()) -> Iterator[TreeEntry]:
    """List what a workspace made from `source` has, in no particular order.

    Pipes, sockets and devices are not listed: to read them could block.
    """
    source = source.resolve()
    # A test file may be a link itself: neither it nor what it points to is copied.
    excluded = {way for path in exclude for way in (path.resolve(), path.parent.resolve() / path.name)}
    is_wanted: dict[Path, bool] = {}  # by directory: most have many files
    for relative in _list_files(source):
        original = source / relative
        parent = original.parent
        if parent not in is_wanted:
            is_wanted[parent] = (
                _NEVER_COPIED.isdisjoint(relative.parent.parts)
                and not _is_excluded(parent, excluded)
                # git's index knows files of a directory that has become a link since
                and parent.resolve() == parent
            )
        if not is_wanted[parent] or relative.name in _NEVER_COPIED or original in excluded:
            continue
        try:
            entry = _look_at(relative, source, excluded)
        except FileNotFoundError:  # still in git's index, or deleted since we listed it
            continue
        except OSError as error:
            raise _cant_copy(original, error) from error
        if entry is not None:
            yield entry


def _cant_copy(path: Path, error: OSError) -> FarmError:
    return FarmError(f"can't copy {path} into the workspace: {error.strerror}")


def _is_excluded(path: Path, excluded: set[Path]) -> bool:
    return not excluded.isdisjoint((path, *path.parents))


def _look_at(relative: Path, source: Path, excluded: set[Path]) -> TreeEntry | None:
    original = source / relative
    status = original.lstat()
    if stat.S_ISLNK(status.st_mode):
        return _look_at_link(relative, source, status, excluded)
    if stat.S_ISDIR(status.st_mode):
        return TreeEntry(relative, "directory", original, status)
    if stat.S_ISREG(status.st_mode):
        return TreeEntry(relative, "file", original, status)
    return None


def _look_at_link(relative: Path, source: Path, status: os.stat_result, excluded: set[Path]) -> TreeEntry:
    """Take a link so that nothing can be read or written through it outside the workspace.

    A link that stays inside remains one. A file outside is copied in its place: repositories share files
    that way. Anything else outside is an error: to copy a whole foreign directory unasked is too much, to
    keep the link would let trials write to the same place, and to drop it would change what is tested.
    """
    original = source / relative
    text = original.readlink()
    # Not Path.resolve(): that raises on a link that leads to itself, which harms nobody.
    real = Path(os.path.realpath(original))
    # Counted from the source's own directory, `../source/file` leaves it: the copy has another name.
    counted = os.path.normpath(relative.parent / text)
    leaves = text.is_absolute() or Path(counted).parts[:1] == ("..",)
    if real.is_relative_to(source):
        target = Path(os.path.relpath(real, original.parent)) if leaves else text
        return TreeEntry(relative, "link", original, status, target)
    if real.is_file() and not _is_excluded(real, excluded):
        return TreeEntry(relative, "file", real, real.stat())
    raise FarmError(
        f"{original} is a link to {text}, which is not in the workspace; "
        f"replace it with what it points to, or name it in {FARM_IGNORE}"
    )


def _make_directories(directory: Path, made: set[Path]) -> None:
    # Not mkdir(parents=True): it calls itself for every level.
    missing = []
    while directory not in made:
        missing.append(directory)
        made.add(directory)
        directory = directory.parent
    for inner in reversed(missing):
        inner.mkdir(exist_ok=True)


def _copy_entry(entry: TreeEntry, copy: Path) -> None:
    if entry.kind == "link":
        copy.symlink_to(entry.link_target)
    elif entry.kind == "directory":
        copy.mkdir(exist_ok=True)
    else:
        shutil.copyfile(entry.original, copy)
        copy.chmod(0o755 if entry.is_executable else 0o644)
        os.utime(copy, ns=(entry.status.st_atime_ns, entry.status.st_mtime_ns))


def _list_files(source: Path) -> Iterator[Path]:
    """List what is to be copied, relative to the source."""
    top = next((above for above in (source, *source.parents) if (above / ".git").exists()), None)
    if top is None:
        return _walk(source)
    listed = list(dict.fromkeys(_list_with_git(source)))
    if not listed and _git(source, "check-ignore", "--quiet", ".").returncode == 0:
        # The directory as a whole is ignored, and still named as a workspace: its files are wanted.
        return _walk(source)
    farm_ignore = IgnoreFiles(FARM_IGNORE, source, top=top)
    return (path for path in listed if not farm_ignore.ignores(path, is_directory=False))


def _list_with_git(source: Path) -> Iterator[Path]:
    result = _git(source, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    if result.returncode != 0:
        reason = result.stderr.decode(errors="replace").strip()
        raise FarmError(f"git can't list the files of {source}: {reason}")
    for name in result.stdout.split(b"\0"):
        if name:
            path = Path(os.fsdecode(name))
            nested = source / path
            if nested.is_dir() and not nested.is_symlink():  # a submodule, or a repository inside this one
                yield from (path / inner for inner in _list_nested(nested))
            else:
                yield path


def _list_nested(directory: Path) -> Iterator[Path]:
    # A submodule that was never checked out has no .git: git would list the outer repository instead.
    return _list_with_git(directory) if (directory / ".git").exists() else _walk(directory)


def _git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # A hook that started us has set GIT_DIR and its like: they are about another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ("git", "-c", "core.fsmonitor=false", "-C", str(directory), *arguments)
    try:
        return subprocess.run(
            command, env={**env, "GIT_OPTIONAL_LOCKS": "0"}, stdin=subprocess.DEVNULL, capture_output=True
        )
    except OSError as error:
        raise FarmError(f"{directory} is in a git repository, and git can't be started: {error}") from error


def _walk(source: Path) -> Iterator[Path]:
    """List files, and directories that are empty, without git's help."""

    def refuse(error: OSError) -> None:
        raise _cant_copy(Path(error.filename), error) from error

    ignore_files = [IgnoreFiles(name, source) for name in (".gitignore", FARM_IGNORE)]

    def is_ignored(path: Path, *, is_directory: bool) -> bool:
        return any(files.ignores(path, is_directory=is_directory) for files in ignore_files)

    for listing in walk(source, refuse):
        here = Path(listing.path)
        names = (*listing.files, *listing.links)
        files = [name for name in names if not is_ignored(here / name, is_directory=False)]
        listing.subdirectories[:] = [
            name
            for name in listing.subdirectories
            if name not in _NOT_COPIED_WITHOUT_GIT and not is_ignored(here / name, is_directory=True)
        ]
        yield from (here / name for name in files)
        if not listing.subdirectories and not files and here.parts:
            yield here
