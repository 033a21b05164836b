"""Turn the paths of a submission into the files that may hold tests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from farm.errors import UsageError
from farm.model.patterns import PatternError, expand_braces, glob_matches

ENDINGS = (".yaml", ".yml", ".jsonl")
NEVER_ENTERED = frozenset({".git", "node_modules", "target", ".venv", "__pycache__", ".farm"})


class Candidate(NamedTuple):
    """A file that may hold tests; one that was named by its path must."""

    path: Path
    named: bool


def discover(paths: Sequence[Path], pattern: str | None = None, *, recursive: bool = True) -> list[Candidate]:
    """Find the candidates: files as they are named, directories searched; each file once, in order."""
    found: dict[Path, Candidate] = {}
    patterns = None if pattern is None else _written_out(pattern)
    for path in paths:
        absolute = path.resolve()
        if absolute.is_dir():
            for file in _search(absolute, patterns, recursive=recursive):
                found.setdefault(file, Candidate(file, named=False))
        elif absolute.exists():
            found[absolute] = Candidate(absolute, named=True)
        else:
            raise UsageError(f"{path}: no such file or directory")
    return list(found.values())


def _written_out(pattern: str) -> list[str]:
    try:
        return expand_braces(pattern)
    except PatternError as error:
        raise UsageError(f"--pattern has {error}") from None


def _search(directory: Path, patterns: list[str] | None, *, recursive: bool) -> Iterator[Path]:
    """Give the matching files of a directory, then of those in it, each sorted by name."""
    base = len(str(directory)) + 1
    pending = [str(directory)]
    while pending:
        inner = []
        try:
            with os.scandir(pending.pop()) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            raise UsageError(f"{error.filename}: can't be read: {error.strerror}") from None
        for entry in listed:
            # Links to directories are not followed: they may lead round in a circle.
            if entry.is_dir(follow_symlinks=False):
                if recursive and entry.name not in NEVER_ENTERED:
                    inner.append(entry.path)
            elif _wanted(entry.path[base:], entry.name, patterns) and _may_be_read(entry):
                yield Path(entry.path)
        pending.extend(reversed(inner))


def _may_be_read(entry: os.DirEntry[str]) -> bool:
    """Say whether to read it: a file, or a link that leads nowhere, so that its reader complains of it."""
    try:
        leads_nowhere = entry.is_symlink() and not Path(entry.path).exists()
        # Emacs locks a file that is being edited by such a link, `.#name`.
        return entry.is_file() or (leads_nowhere and not entry.name.startswith(".#"))
    except OSError:  # a link that leads in a circle
        return True


def is_wanted(relative: str, pattern: str) -> bool:
    """Say whether a search with a pattern would give a file of a directory."""
    return _wanted(relative, relative.rpartition("/")[2], _written_out(pattern))


def _wanted(relative: str, name: str, patterns: list[str] | None) -> bool:
    if patterns is None:
        return name.endswith(ENDINGS)
    return any(glob_matches(pattern, relative if "/" in pattern else name) for pattern in patterns)
