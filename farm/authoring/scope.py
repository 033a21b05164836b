"""Say which cases of an earlier run a submission would have selected, had they still been there."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from farm.authoring.discover import is_wanted
from farm.authoring.select import is_id
from farm.model.report import CaseReport

_DOCUMENT = re.compile(r"#\d+$")  # a second document of a file, and so on


@dataclass(frozen=True)
class Scope:
    """What a submission selects: by paths, by the names of files, by id and by tag."""

    root: Path
    paths: Sequence[Path]
    pattern: str | None = None
    recursive: bool = True
    ids: Sequence[str] = ()
    tags: Sequence[str] = ()

    def covers(self, case: CaseReport) -> bool:
        """Say whether a case is among what was asked for."""
        return (
            (not self.ids or any(is_id(pattern, case.id) for pattern in self.ids))
            and (not self.tags or any(tag in case.tags for tag in self.tags))
            and any(self._holds(path.resolve(), case) for path in self.paths)
        )

    def _holds(self, path: Path, case: CaseReport) -> bool:
        # By the id, not by the file: a case of a case file belongs to the eval file that names it.
        stem = _DOCUMENT.sub("", case.id.partition("::")[0])
        if not path.is_dir():
            return stem == os.path.relpath(path.with_suffix(""), self.root)
        directory = os.path.relpath(path, self.root)
        below = stem if directory == "." else stem.removeprefix(f"{directory}/")
        if directory != "." and below == stem:
            return False
        if "/" in below and not self.recursive:
            return False
        return self.pattern is None or is_wanted(below + Path(case.file).suffix, self.pattern)
