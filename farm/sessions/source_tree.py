"""Copy a directory as git sees it: what is ignored, and what the caller names, stays behind."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

from farm.errors import FarmError

# Never part of a workspace: the history holds the answers of old commits, .farm those of old runs.
_NEVER_COPIED = frozenset({".git", ".farm"})
# Where there is no .gitignore to say so.
_NOT_COPIED_WITHOUT_GIT = _NEVER_COPIED | {".venv", "__pycache__", "node_modules"}


def copy_tree(source: Path, target: Path, *, exclude: Collection[Path] = ()) -> None:
    """Copy `source` into the existing directory `target`, without the excluded absolute paths.

    Times and executable bits are kept, so that `make` and scripts work; other permissions are not, so that
    the agent can write to what is read-only for its owner.
    """
    source = source.resolve()
    # A test file may be a link itself: neither it nor what it points to is copied.
    excluded = {way for path in exclude for way in (path.resolve(), path.parent.resolve() / path.name)}
    made: set[Path] = {target}
    for relative in _list_files(source):
        original = source / relative
        if _NEVER_COPIED.intersection(relative.parts) or _is_excluded(original, excluded):
            continue
        copy = target / relative
        if copy.parent not in made:
            if original.parent.resolve() != original.parent:
                continue  # git's index knows files of a directory that has become a link since
            copy.parent.mkdir(parents=True, exist_ok=True)
            made.add(copy.parent)
        try:
            _copy_entry(original, copy, source, excluded)
        except FileNotFoundError:  # still in git's index, or deleted since we listed it
            continue
        except OSError as error:
            raise FarmError(f"can't copy {original} into the workspace: {error.strerror}") from error


def _is_excluded(path: Path, excluded: set[Path]) -> bool:
    return not excluded.isdisjoint((path, *path.parents))


def _copy_entry(original: Path, copy: Path, source: Path, excluded: set[Path]) -> None:
    status = original.lstat()
    if stat.S_ISLNK(status.st_mode):
        _copy_link(original, copy, source, excluded)
    elif stat.S_ISDIR(status.st_mode):
        copy.mkdir(exist_ok=True)
    elif stat.S_ISREG(status.st_mode):
        _copy_file(original, copy, status)


def _copy_file(original: Path, copy: Path, status: os.stat_result) -> None:
    shutil.copyfile(original, copy)
    copy.chmod(0o755 if status.st_mode & stat.S_IXUSR else 0o644)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_link(original: Path, copy: Path, source: Path, excluded: set[Path]) -> None:
    """Copy a link so that nothing can be read or written through it outside the workspace.

    A link that stays inside remains one. A file outside is copied in its place: repositories share files
    that way. Anything else outside is an error: to copy a whole foreign directory unasked is too much, to
    keep the link would let trials write to the same place, and to drop it would change what is tested.
    """
    text = original.readlink()
    real = original.resolve()
    # Counted from the source's own directory, `../source/file` leaves it: the copy has another name.
    relative = os.path.normpath(original.parent.relative_to(source) / text)
    leaves = text.is_absolute() or Path(relative).parts[:1] == ("..",)
    if real.is_relative_to(source) and not leaves:
        copy.symlink_to(text)
    elif real.is_relative_to(source):
        copy.symlink_to(os.path.relpath(real, original.parent))
    elif real.is_file() and not _is_excluded(real, excluded):
        _copy_file(real, copy, real.stat())
    else:
        raise FarmError(
            f"{original} is a link to {text}, which is not in the workspace; "
            "replace it with what it points to, or let git ignore it"
        )


def _list_files(source: Path) -> Iterator[Path]:
    """List what is to be copied, relative to the source."""
    if not any((directory / ".git").exists() for directory in (source, *source.parents)):
        return _walk(source)
    listed = list(dict.fromkeys(_list_with_git(source)))
    if not listed and _git(source, "check-ignore", "--quiet", ".").returncode == 0:
        # The directory as a whole is ignored, and still named as a workspace: its files are wanted.
        return _walk(source)
    return iter(listed)


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
        raise FarmError(f"can't copy {error.filename} into the workspace: {error.strerror}") from error

    for directory, subdirectories, files in os.walk(source, onerror=refuse):
        here = Path(directory).relative_to(source)
        links = [name for name in subdirectories if Path(directory, name).is_symlink()]
        subdirectories[:] = [
            name for name in subdirectories if name not in _NOT_COPIED_WITHOUT_GIT and name not in links
        ]
        yield from (here / name for name in (*files, *links))
        if not subdirectories and not files and here.parts:
            yield here
