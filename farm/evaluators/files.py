"""Judge the workspace's files as the session left them. A path never leads out of the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from farm.errors import EvaluatorError
from farm.evaluators.base import EvaluationContext, Judgement
from farm.evaluators.facts import Fact, all_must_hold, hit, miss
from farm.evaluators.wording import listed, printable, quoted, shortened
from farm.model.evaluator import FileContainsSpec, FileExistsSpec, FilesChangedSpec
from farm.model.patterns import path_glob_matches, regex_found

SIZE_LIMIT_BYTES = 10 * 1024 * 1024


def evaluate_exists(spec: FileExistsSpec, context: EvaluationContext) -> Judgement:
    """A file at the path, or one that matches the glob, is there."""
    workspace = _workspace(context)
    found = list(_matching_files(workspace, spec.path))
    if found:
        return all_must_hold([hit(f"there is {_names(found)}")])
    is_directory = os.path.isdir(workspace / spec.path)  # noqa: PTH112 - see _is_own_file
    why = "it is a directory" if is_directory else "no such file in the workspace"
    return all_must_hold([miss(f"{quoted(spec.path)}: {why}")])


def evaluate_contains(spec: FileContainsSpec, context: EvaluationContext) -> Judgement:
    """Some file at the path, or among the glob's matches, contains the text or a match of the pattern."""
    workspace = _workspace(context)
    wanted = quoted(spec.value if spec.value is not None else spec.pattern or "")
    searched: list[str] = []
    unread: list[str] = []
    for name in _matching_files(workspace, spec.path):
        text = _read(workspace / name)
        if text is None:
            unread.append(name)
        elif spec.value in text if spec.value is not None else regex_found(spec.pattern or "", text):
            return all_must_hold([hit(f"{_names([name])} contains {wanted}")])
        else:
            searched.append(name)
    if unread and spec.negate:  # negated, the failure below would pass, with nothing looked at
        raise EvaluatorError(f"{_names(unread)} can't be searched: {_why_unread()}")
    facts = [miss(f"{_names(unread)} not searched: {_why_unread()}")] if unread else []
    facts += [miss(f"{_names(searched)} without {wanted}")] if searched else []
    return all_must_hold(facts or [miss(f"{quoted(spec.path)}: no such file in the workspace")])


def evaluate_changed(spec: FilesChangedSpec, context: EvaluationContext) -> Judgement:
    """The files that the session added, modified or deleted are the right ones."""
    changes = context.transcript.workspace_changes
    if changes is None:
        raise EvaluatorError("the transcript does not say which files of the workspace changed")
    return all_must_hold(_change_facts(spec, changes.paths))


def _change_facts(spec: FilesChangedSpec, changed: tuple[str, ...]) -> Iterator[Fact]:
    for glob in spec.expect or ():
        found = _matches(changed, [glob])
        if found:
            yield hit(f"changed, as {quoted(glob)} expects: {_names(found)}")
        else:
            yield miss(f"no change of {quoted(glob)}; changed: {_names(changed) or 'nothing'}")
    if spec.only is not None:
        allowed = set(_matches(changed, spec.only))
        others = [name for name in changed if name not in allowed]
        globs = ", ".join(map(quoted, spec.only))
        words = f"changed beside {globs}: {_names(others)}" if others else f"nothing changed beside {globs}"
        yield Fact(not others, words)
    for glob in spec.forbid or ():
        found = _matches(changed, [glob])
        words = f"changed, though {quoted(glob)} forbids it: {_names(found)}"
        yield Fact(not found, words if found else f"no change of {quoted(glob)}")


def _matches(names: Iterable[str], globs: Iterable[str]) -> list[str]:
    return [name for name in names if any(path_glob_matches(glob, name) for glob in globs)]


def _workspace(context: EvaluationContext) -> Path:
    if context.workspace is None:
        raise EvaluatorError("no workspace is kept with this transcript")
    if not context.workspace.is_dir():
        raise EvaluatorError(f"the workspace {context.workspace} is gone")
    return context.workspace


def _matching_files(workspace: Path, pattern: str) -> Iterator[str]:
    """Name the regular files at a path or among a glob's matches, sorted.

    A link counts if it ends in the workspace; globs do not go through links to directories.
    """
    # A glob is looked for everywhere even if a file has its very name: by making a file `*.py`, an agent
    # could keep all others from being searched.
    names = _files_under(workspace) if any(char in pattern for char in "*?[") else [pattern]
    yield from sorted(
        name for name in names if path_glob_matches(pattern, name) and _is_own_file(workspace, name)
    )


def _files_under(workspace: Path) -> Iterator[str]:
    for directory, _, names in os.walk(workspace, onerror=_refuse):
        inner = os.path.relpath(directory, workspace)
        yield from (name if inner == "." else f"{inner}/{name}" for name in names)


def _refuse(error: OSError) -> NoReturn:
    """Leave no directory out: what an agent hides in it would count as not there."""
    raise EvaluatorError(f"a directory of the workspace can't be listed: {printable(str(error))}")


def _is_own_file(workspace: Path, name: str) -> bool:
    real = os.path.realpath(workspace / name)
    # Not Path.is_file: it raises on a name that is too long.
    return Path(real).is_relative_to(os.path.realpath(workspace)) and os.path.isfile(real)  # noqa: PTH113


def _read(file: Path) -> str | None:
    """Give a file's text; None if it is too large or can't be read."""
    try:
        with file.open("rb") as stream:
            data = stream.read(SIZE_LIMIT_BYTES + 1)
    except OSError:
        return None
    return None if len(data) > SIZE_LIMIT_BYTES else data.decode("utf-8", "replace")


def _why_unread() -> str:
    return f"larger than {SIZE_LIMIT_BYTES // 1024 // 1024} MB, or not readable"


def _names(names: Sequence[str]) -> str:
    return listed(names, shortened)
