"""One test file as the loader sees it: where it lies, what it may refer to, what is wrong with it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from farm.authoring.references import References
from farm.documents.checking import Problems
from farm.documents.yaml import decode_text, read_bytes
from farm.model.suite import Case
from farm.settings import Settings


@dataclass
class Source:
    """A test file, and what came of reading it."""

    path: Path  # absolute
    root: Path
    settings: Settings
    problems: Problems = field(default_factory=Problems)
    cases: list[Case] = field(default_factory=list)
    consumed: list[Path] = field(default_factory=list)  # case files that were read with this one
    exam: set[str] = field(default_factory=set)  # what is for judging only: recordings, judges, templates
    title: str | None = None  # what the file calls its suite

    shown: str = field(init=False)  # as it is named in messages: from the current directory
    name: str = field(init=False)  # as it is named in reports: under the suite root

    def __post_init__(self) -> None:
        self.shown = _from(self.path, os.getcwd())  # noqa: PTH109 — a Path would be taken apart again
        self.name = _from(self.path, str(self.root))

    @property
    def stem(self) -> str:
        """The name without its ending: what case ids begin with."""
        return self.name.removesuffix(self.path.suffix)

    @property
    def references(self) -> References:
        """What the file's paths lead to."""
        return References(self.root, self.path, self.exam)

    def read_text(self) -> str:
        """Read the file as UTF-8 text."""
        return decode_text(read_bytes(self.path, self.shown), self.shown)


def _from(path: Path, directory: str) -> str:
    # Ten thousand files make the difference: relpath() takes twenty times as long as cutting off a prefix.
    text, prefix = str(path), directory.rstrip(os.sep) + os.sep
    if text.startswith(prefix):
        return text[len(prefix) :]
    parent, name = os.path.split(text)
    return os.path.join(_relative(parent, directory), name)  # noqa: PTH118 — a Path would be taken apart again


_relative = lru_cache(maxsize=64)(os.path.relpath)  # of the directory: it is the same for many files
