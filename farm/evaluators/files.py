"""Judge the workspace's files as the session left them. A path never leads out of the workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from farm.errors import EvaluatorError
from farm.evaluators.base import EvaluationContext, Judgement
from farm.evaluators.facts import Fact, all_must_hold, hit, miss
from farm.evaluators.wording import listed, quoted, shortened
from farm.model.evaluator import FileContainsSpec, FileExistsSpec, FilesChangedSpec
from farm.model.patterns import path_glob_matches, path_glob_may_match_below, regex_found
from farm.sessions.walking import walk

SIZE_LIMIT_BYTES = 10 * 1024 * 1024


def evaluate_exists(spec: FileExistsSpec, context: EvaluationContext) -> Judgement:
    """A file at the path, or one that matches the glob, is there."""
    workspace = _workspace(context)
    found = _find(workspace, spec.path)
    if found.names:
        return all_must_hold([hit(f"there is {_names(found.names)}")])
    found.require_all_seen()
    is_directory = os.path.isdir(workspace / spec.path)  # noqa: PTH112 - see _is_own_file
    why = "it is a directory" if is_directory else "no such file in the workspace"
    return all_must_hold([miss(f"{quoted(spec.path)}: {why}")])


def evaluate_contains(spec: FileContainsSpec, context: EvaluationContext) -> Judgement:
    """Some file at the path, or among the glob's matches, contains the text or a match of the pattern."""
    workspace = _workspace(context)
    wanted = quoted(spec.value if spec.value is not None else spec.pattern or "")
    searched: list[str] = []
    unread: list[str] = []
    found = _find(workspace, spec.path)
    for name in found.names:
        text = _read(workspace / name)
        if text is None:
            unread.append(name)
        elif spec.value in text if spec.value is not None else regex_found(spec.pattern or "", text):
            return all_must_hold([hit(f"{_names([name])} contains {wanted}")])
        else:
            searched.append(name)
    found.require_all_seen()
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
    doubts: list[str] = []
    facts = list(_change_facts(spec, changes.paths, doubts.append))
    if doubts and all(fact.holds for fact in facts):  # a miss is one whatever else has changed
        raise EvaluatorError(f"can't tell what has changed in {_names(doubts)}: it could not be listed")
    return all_must_hold(facts)


def _change_facts(
    spec: FilesChangedSpec, paths: Sequence[str], doubt: Callable[[str], object]
) -> Iterator[Fact]:
    """Give what is certain; `doubt` is told of directories nobody could look at, where it depends on them."""
    changed = [path for path in paths if not path.endswith("/")]
    unseen = [path.rstrip("/") for path in paths if path.endswith("/")]
    for glob in spec.expect or ():
        found = _matches(changed, [glob])
        if found:
            yield hit(f"changed, as {quoted(glob)} expects: {_names(found)}")
        elif hiding := _may_hide(unseen, glob):
            doubt(hiding)
        else:
            yield miss(f"no change of {quoted(glob)}; changed: {_names(changed) or 'nothing'}")
    if spec.only is not None:
        allowed = set(_matches(changed, spec.only))
        others = [name for name in changed if name not in allowed]
        globs = ", ".join(map(quoted, spec.only))
        words = f"changed beside {globs}: {_names(others)}" if others else f"nothing changed beside {globs}"
        yield Fact(not others, words)
        with_all_below = [glob for glob in spec.only if glob.split("/")[-1] == "**"]
        allowed_whole = set(_matches(unseen, with_all_below))
        for directory in unseen:
            if directory not in allowed_whole:
                doubt(directory)
    for glob in spec.forbid or ():
        found = _matches(changed, [glob])
        if not found and (hiding := _may_hide(unseen, glob)):
            doubt(hiding)
            continue
        words = f"changed, though {quoted(glob)} forbids it: {_names(found)}"
        yield Fact(not found, words if found else f"no change of {quoted(glob)}")


def _matches(names: Iterable[str], globs: Iterable[str]) -> list[str]:
    return [name for name in names if any(path_glob_matches(glob, name) for glob in globs)]


def _may_hide(directories: Iterable[str], glob: str) -> str | None:
    return next((name for name in directories if path_glob_may_match_below(glob, name)), None)


def _workspace(context: EvaluationContext) -> Path:
    if context.workspace is None:
        raise EvaluatorError("no workspace is kept with this transcript")
    if not context.workspace.is_dir():
        raise EvaluatorError(f"the workspace {context.workspace} is gone")
    return context.workspace


@dataclass
class _Found:
    """The regular files at a path or among a glob's matches, sorted."""

    names: list[str] = field(default_factory=list)
    unseen: OSError | None = None  # why there may be more

    def note(self, error: OSError) -> None:
        """Take down that something can't be looked at."""
        self.unseen = self.unseen or error

    def require_all_seen(self) -> None:
        """Leave no directory out: what an agent hides in it would count as not there."""
        if self.unseen:
            why = shortened(str(self.unseen))
            raise EvaluatorError(f"not all of the workspace can be looked at: {why}")


def _find(workspace: Path, pattern: str) -> _Found:
    """Find files. A link counts if it ends in the workspace; globs do not go through links to directories."""
    # A glob is looked for everywhere even if a file has its very name: by making a file `*.py`, an agent
    # could keep all others from being searched.
    if not any(char in pattern for char in "*?["):
        return _Found([pattern] if _is_own_file(workspace, pattern) else [])
    found = _Found()
    for listing in walk(workspace, found.note):
        listing.subdirectories[:] = [
            name for name in listing.subdirectories if path_glob_may_match_below(pattern, listing.below(name))
        ]
        for name in _matches(map(listing.below, listing.files), [pattern]):
            try:
                (workspace / name).lstat()
            except OSError as error:  # its path is too long, though its directory's is not
                found.note(error)
                continue
            if _is_own_file(workspace, name):
                found.names.append(name)
    found.names.sort()
    return found


def _is_own_file(workspace: Path, name: str) -> bool:
    path = workspace / name
    # Not Path.is_file: it raises on a name that is too long. Asked first: realpath fails on a thousand links
    # that lead one to the next, where the system gives up after a few.
    if not os.path.isfile(path):  # noqa: PTH113
        return False
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(workspace))


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
