"""Turn the paths in a test file into names under the suite root, so that what they name can travel."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath

from farm.documents.yaml import decode_text, read_bytes
from farm.errors import FarmError

_SCRIPT_ENDINGS = frozenset(
    {".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".bash", ".rb", ".pl", ".php", ".lua"}
)


class BrokenReferenceError(FarmError):
    """A path that leads nowhere, or out of the suite root."""


class References:
    """The files that one test file can refer to."""

    def __init__(self, root: Path, file: Path, exam: set[str]) -> None:
        self._root = root
        self._file = file
        self._exam = exam

    @property
    def _directory(self) -> Path:
        return self._file.parent

    def find(self, path: str) -> str:
        """Find a file beside the test file, else in the directories above, up to the suite root."""
        for directory in (self._directory, *self._directory.parents):
            candidate = Path(os.path.normpath(directory / path))
            if _is_file(candidate):
                return self._name(candidate, path)
            if directory == self._root or not directory.is_relative_to(self._root):
                break
        raise BrokenReferenceError(f'no file "{path}" beside this file or above it, up to {self._root}')

    def find_for_judging(self, path: str) -> str:
        """Find a file that no agent may see: it tells what is expected."""
        name = self.find(path)
        self._exam.add(name)
        return name

    def read_text(self, path: str) -> str:
        """Give what is in a text file that is for judging."""
        file = self._root / self.find_for_judging(path)
        return _read_text(file, file.stat().st_mtime_ns)

    def workspace(self, path: str) -> str:
        """Give a workspace directory relative to the suite root; it may lie outside."""
        directory = Path(os.path.normpath(self._directory / path))
        if not _is_directory(directory):
            raise BrokenReferenceError(f'workspace "{path}" is not a directory')
        return PurePosixPath(os.path.relpath(directory, self._root)).as_posix()

    def case_files(self, pattern: str) -> list[Path]:
        """Give the files of a path or glob, relative to the test file, sorted."""
        pattern = pattern.removeprefix("file://")
        if not _is_glob(pattern):
            return [self._root / self.find(pattern)]
        files = [path for path in self._glob(pattern) if path.is_file()]
        if not files:
            raise BrokenReferenceError(f'"{pattern}" matches directories only, and no file')
        return [self._root / self._name(path, pattern) for path in files]

    def directory(self, path: str | None) -> str:
        """Give a directory under the suite root; without a path, the test file's own."""
        directory = Path(os.path.normpath(self._directory / (path or ".")))
        if not _is_directory(directory):
            raise BrokenReferenceError(f'"{path}" is not a directory')
        return self._name(directory, path or ".")

    def judge_files(self, command: str | tuple[str, ...], cwd: str, globs: Iterable[str]) -> list[str]:
        """Name the files that a judge needs: those its command names, and those of its globs."""
        base = self._root / cwd
        names = set()
        for word in _words(command):
            candidate = Path(os.path.normpath(base / word))
            if _is_file(candidate) and candidate.is_relative_to(self._root):
                names.add(self._name(candidate, word))
                self._exam.add(self._name(candidate, word))
            elif _must_be_a_file(word):
                raise BrokenReferenceError(
                    f'the command names "{word}", which is not a file beside this file'
                )
        for pattern in globs:
            found = [path for match in self._glob(pattern) for path in _files_in(match)]
            if not found:
                raise BrokenReferenceError(f'no file matches "{pattern}"')
            names.update(self._name(path, pattern) for path in found)
        return sorted(names)

    def _glob(self, pattern: str) -> list[Path]:
        base = self._directory
        while pattern.startswith("../"):  # pathlib's glob takes no way up
            base, pattern = base.parent, pattern[3:]
        try:
            matches = sorted(base.glob(pattern.removeprefix("./")))
        except (OSError, ValueError, NotImplementedError, IndexError) as error:
            raise BrokenReferenceError(f'"{pattern}" is not a glob: {error}') from None
        if not matches:
            raise BrokenReferenceError(f'no file matches "{pattern}"')
        return matches

    def _name(self, path: Path, written: str) -> str:
        if not path.is_relative_to(self._root):
            raise BrokenReferenceError(
                f'"{written}" lies outside the suite root {self._root}; a worker would not have it'
            )
        return path.relative_to(self._root).as_posix()


def looks_like_a_path(text: str) -> bool:
    """Say whether a text that may be a path or something else is meant as a path."""
    if any(char.isspace() for char in text) or len(text) > 400:
        return False
    return text.startswith(("./", "../", "/", "file://")) or PurePosixPath(text).suffix in (
        ".md",
        ".txt",
        ".j2",
    )


@lru_cache(maxsize=64)  # a template is shared by many cases, and may change between two loads
def _read_text(path: Path, _changed_at_ns: int) -> str:
    file = os.path.relpath(path)
    return decode_text(read_bytes(path, file), file)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, a NUL in it: no such file
        return False


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _files_in(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(inner for inner in path.rglob("*") if inner.is_file())
    return [path]


def _is_glob(pattern: str) -> bool:
    return any(char in pattern for char in "*?[")


def _words(command: str | tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(command, str):
        return command
    try:
        return tuple(shlex.split(command))
    except ValueError:  # an open quote is the shell's to complain of
        return tuple(command.split())


def _must_be_a_file(word: str) -> bool:
    if any(char.isspace() for char in word) or word.startswith(("/", "-")):
        return False
    return word.startswith(("./", "../")) or PurePosixPath(word).suffix in _SCRIPT_ENDINGS
