"""Specs of evaluators that look at the workspace after the session."""

from typing import Literal, Self

from pydantic import model_validator

from farm.model.base import NonEmptyText, wrong
from farm.model.evaluator.base import EvaluatorBase, Regex, WorkspacePath, WorkspacePaths


class FileExistsSpec(EvaluatorBase):
    """A file (or a match of a glob) is in the workspace after the session."""

    type: Literal["file_exists"] = "file_exists"
    path: WorkspacePath  # a path or glob


class FileContainsSpec(EvaluatorBase):
    """A file in the workspace contains a text, or a match of a regular expression."""

    type: Literal["file_contains"] = "file_contains"
    path: WorkspacePath  # a path or glob
    value: NonEmptyText | None = None  # a text
    pattern: Regex | None = None  # a regular expression

    @model_validator(mode="after")
    def _one_of_value_and_pattern(self) -> Self:
        if (self.value is None) == (self.pattern is None):
            raise wrong('needs either "value" (a text) or "pattern" (a regular expression)')
        return self


class FilesChangedSpec(EvaluatorBase):
    """Which files the session added, modified or deleted."""

    type: Literal["files_changed"] = "files_changed"
    expect: WorkspacePaths | None = None  # each glob matches a changed file
    only: WorkspacePaths | None = None  # every changed file matches one of these globs
    forbid: WorkspacePaths | None = None  # no changed file matches any of these globs

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.expect is None and self.only is None and self.forbid is None:
            raise wrong('needs at least one of "expect", "only" and "forbid"')
        return self
