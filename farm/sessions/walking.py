"""Go through the directories of a tree, however deep it is, without following links.

Not `os.walk`: before Python 3.12 it calls itself for every level, and fails where there are a thousand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Listing:
    """The names in one directory of a tree."""

    path: str  # relative to the tree; empty: the tree itself
    subdirectories: list[str]  # what a caller takes out of it is not entered
    links: list[str]  # those that lead to directories
    files: list[str]  # all else: links to files, pipes and sockets too

    def below(self, name: str) -> str:
        """Give the path of one of its names, relative to the tree."""
        return f"{self.path}/{name}" if self.path else name


def pass_over(_error: OSError) -> None:
    """Leave out a directory that can't be listed."""


def walk(root: Path, refuse: Callable[[OSError], object] = pass_over) -> Iterator[Listing]:
    """List a directory, then each of those in it with all that is below.

    One that can't be listed, for its path is too long, say, is told to `refuse`; unless that raises, it is
    passed over.
    """
    waiting = [""]
    while waiting:
        path = waiting.pop()
        try:
            listing = _list(root, path)
        except OSError as error:
            refuse(error)
            continue
        yield listing
        waiting.extend(listing.below(name) for name in reversed(listing.subdirectories))


def _list(root: Path, path: str) -> Listing:
    listing = Listing(path, [], [], [])
    with os.scandir(f"{root}/{path}") as entries:
        for entry in entries:
            _kind(entry, listing).append(entry.name)
    return listing


def _kind(entry: os.DirEntry[str], listing: Listing) -> list[str]:
    try:
        if entry.is_dir(follow_symlinks=False):
            return listing.subdirectories
        return listing.links if entry.is_dir() else listing.files
    except OSError:  # a link that leads in a circle, or to where we may not look
        return listing.files
