"""Give each trial a directory of its own, and take it away again."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from farm.errors import FarmError, SessionError, UsageError
from farm.model.transcript import FileDiff, WorkspaceChanges
from farm.sessions.snapshot import Snapshot, take_snapshot
from farm.sessions.source_tree import copy_tree
from farm.sessions.trial_directories import PARTS, TrialDirectories
from farm.sessions.workspace_diff import Original, diff_files, read_plain_file

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")

# All that a session inherits of our environment: where programs are, the language, the way to the network.
# Anything else could be a secret, or a difference between two machines.
_INHERITED = frozenset(
    {
        *("PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL"),
        *(*PROXY_VARIABLES, "NO_PROXY", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    }
)

# Agents read these in every directory above their own.
_INSTRUCTION_FILES = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md")

# What setup commands made is nowhere else: so much of it is kept to be compared with.
_MAX_KEPT_BYTES = 4 * 2**20

# What a workspace is filled from: a directory to copy, or whatever fills the empty directory it is given
# (`BundleCache.materialise`, on a machine that has no such directory).
WorkspaceSource = Path | Callable[[Path], None]


@dataclass(frozen=True)
class Workspace:
    """A trial's own directories."""

    root: Path  # holds all the others; removed afterwards
    directory: Path  # where the agent works
    home: Path
    tmp: Path
    config: Path  # the agent's settings and logs
    _before: list[Snapshot] = field(default_factory=list, repr=False, compare=False)
    _made_by_setup: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Give the environment of everything that runs here; `extra` is the case's and the agent's own."""
        names = [name for name in os.environ if name in _INHERITED or name.startswith("LC_")]
        inherited = {name: os.environ[name] for name in names}
        inherited.setdefault("PATH", os.defpath)
        return {
            **inherited,
            "TERM": "dumb",
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            # git must not find a repository that happens to lie above.
            "GIT_CEILING_DIRECTORIES": str(self.root),
            **(extra or {}),
        }

    def remember_files(self) -> None:
        """Take the files as they are now for what `changes` compares with: call it after the setup."""
        earlier = self._before[:]
        self._before[:] = [take_snapshot(self.directory)]
        if earlier:
            self._keep_changed(earlier[0])

    def changes(self) -> WorkspaceChanges:
        """Say what has become of the files since they were remembered."""
        if self.directory.is_symlink():  # all that is looked at from now on would lie where it leads
            raise SessionError(
                "workspace_replaced",
                "the session put a link in the place of its working directory",
                retryable=False,
            )
        (before,) = self._before
        return before.compare(self.directory)

    def diff(
        self, changes: WorkspaceChanges, original: Original, redact: Callable[[bytes], bytes]
    ) -> tuple[FileDiff, ...]:
        """Show what has become of the files; `original` gives those that the workspace was filled with."""
        (before,) = self._before

        def read(path: str) -> bytes | None:
            kept = self._made_by_setup.get(path)
            return original(path) if kept is None else kept

        return diff_files(changes, before, self.directory, read, redact)

    def _keep_changed(self, earlier: Snapshot) -> None:
        room = _MAX_KEPT_BYTES
        for name in self._before[0].changed_since(earlier):
            content = read_plain_file(self.directory / name)
            if content is not None and len(content) <= room:
                room -= len(content)
                self._made_by_setup[name] = content


_FRESH_DIRECTORIES = TrialDirectories()


def _remove_always() -> bool:
    return False


@contextmanager
def open_workspace(
    source: WorkspaceSource | None = None,
    *,
    exclude: Collection[Path] = (),
    keep: Callable[[], bool] = _remove_always,
    directories: TrialDirectories = _FRESH_DIRECTORIES,
) -> Iterator[Workspace]:
    """Open a workspace filled from `source` (None: an empty one), and remove it at the end.

    `exclude` names absolute paths of a directory that stay behind: the agent must not read its own exam.
    `keep` is asked at the end, when the outcome is known, whether the directory stays to be looked at.
    """
    if isinstance(source, Path) and not source.is_dir():
        raise UsageError(f"{source}: no such directory; a workspace is copied from an existing one")
    root = directories.make()
    try:
        workspace = _fill(root, source, exclude)
    except BaseException:
        directories.remove(root)  # half a workspace is nothing to look at
        raise
    try:
        yield workspace
    finally:
        if keep():
            directories.keep(root)
        else:
            directories.remove(root)


def _fill(root: Path, source: WorkspaceSource | None, exclude: Collection[Path]) -> Workspace:
    _refuse_instructions_above(root)
    directory, home, tmp, config = (root / part for part in PARTS)
    workspace = Workspace(root, directory, home, tmp, config)
    if isinstance(source, Path):
        copy_tree(source, workspace.directory, exclude=[*exclude, root])
    elif source is not None:
        source(workspace.directory)
    workspace.remember_files()
    return workspace


def _refuse_instructions_above(root: Path) -> None:
    for directory in root.parents:
        for name in _INSTRUCTION_FILES:
            if os.path.exists(f"{directory}/{name}"):  # noqa: PTH110 (for every trial)
                raise FarmError(
                    f"{directory / name} would be read by every agent that works below it; "
                    "remove it, or set TMPDIR to a directory without one above"
                )
