"""Turn what a session changed into patches that people can read: bounded, and of text files only."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from farm.model.transcript import FileDiff, WorkspaceChanges
from farm.sessions.snapshot import Snapshot, digest_of

# Gives a file of the workspace as it was before the session; None if nobody has it any more.
Original = Callable[[str], bytes | None]

MAX_FILE_BYTES = 256 * 2**10
MAX_TOTAL_CHARACTERS = 256 * 2**10
_MAX_PATCH_CHARACTERS = 64 * 2**10
_CONTEXT = 3
# Lines of one file times lines of the other: how much comparing may take, for a file and for all of them.
_MAX_EFFORT = 1_000_000
_MAX_TOTAL_EFFORT = 4_000_000


def diff_files(
    changes: WorkspaceChanges,
    before: Snapshot,
    directory: Path,
    original: Original,
    redact: Callable[[bytes], bytes],
) -> tuple[FileDiff, ...]:
    """Give a patch for each file that changed, or say why there is none."""
    differ = _Differ(before, directory, original, redact)
    kinds = dict.fromkeys(changes.added, "added")
    kinds |= dict.fromkeys(changes.modified, "modified") | dict.fromkeys(changes.deleted, "deleted")
    return tuple(FileDiff.model_validate(differ.diff(path, kinds[path])) for path in sorted(kinds))


class _NoPatchError(Exception):
    """There is nothing to show of a file, for the reason that the message says."""


class _Differ:
    """Compares files as long as there is room for it."""

    def __init__(
        self,
        before: Snapshot,
        directory: Path,
        original: Original,
        redact: Callable[[bytes], bytes],
    ) -> None:
        self._before = before
        self._directory = directory
        self._original = original
        self._redact = redact
        self._room = MAX_TOTAL_CHARACTERS
        self._effort = _MAX_TOTAL_EFFORT

    def diff(self, path: str, change: str) -> dict[str, str | None]:
        try:
            if not self._room:
                raise _NoPatchError("too many changes to show them all")
            old = [] if change == "added" else self._lines(self._read_old(path))
            new = [] if change == "deleted" else self._lines(self._read_new(path))
            if old == new:
                raise _NoPatchError("empty" if change != "modified" else "the same content")
            patch, note = self._cut(list(self._patch(old, new)))
        except _NoPatchError as reason:
            patch, note = None, str(reason)
        return {"path": path, "change": change, "patch": patch, "note": note}

    def _read_old(self, path: str) -> bytes:
        state = self._before.files.get(path)
        if state is None or not stat.S_ISREG(state.kind):
            raise _NoPatchError("not a plain file")
        content = self._original(path)
        # What is kept elsewhere may be another by now; or the setup had changed it.
        if content is None or digest_of(content) != state.content:
            raise _NoPatchError("what it was before is not kept")
        return content

    def _read_new(self, path: str) -> bytes:
        content = read_plain_file(self._directory / path)
        if content is None:
            raise _NoPatchError("too large, or not a plain file")
        return content

    def _lines(self, content: bytes) -> list[str]:
        if b"\0" in content:
            raise _NoPatchError("binary")
        try:
            # Not splitlines: it breaks lines where no editor does.
            lines = self._redact(content).decode().split("\n")
        except UnicodeDecodeError:
            raise _NoPatchError("binary") from None
        ended = [f"{line}\n" for line in lines[:-1]]
        return [*ended, lines[-1]] if lines[-1] else ended

    def _patch(self, old: list[str], new: list[str]) -> Iterator[str]:
        for hunk in self._hunks(old, new):
            first, last = hunk[0], hunk[-1]
            yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
            for kind, old_from, old_to, new_from, new_to in hunk:
                if kind == "equal":
                    yield from _signed(" ", old[old_from:old_to])
                else:
                    yield from _signed("-", old[old_from:old_to])
                    yield from _signed("+", new[new_from:new_to])

    def _hunks(self, old: list[str], new: list[str]) -> Iterator[list[tuple[str, int, int, int, int]]]:
        head = _same(old, new)
        tail = _same(old[head:][::-1], new[head:][::-1])
        middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
        effort = len(middle_old) * len(middle_new)
        if effort > min(_MAX_EFFORT, self._effort):
            # To compare so much could take minutes: take it all for another.
            codes = [("replace", 0, len(middle_old), 0, len(middle_new))]
        else:
            self._effort -= effort
            codes = list(SequenceMatcher(None, middle_old, middle_new).get_opcodes())
        moved = [(kind, a + head, b + head, c + head, d + head) for kind, a, b, c, d in codes]
        begins, ends = (
            ("equal", 0, head, 0, head),
            ("equal", len(old) - tail, len(old), len(new) - tail, len(new)),
        )
        whole = [code for code in (begins, *moved, ends) if code[1] < code[2] or code[3] < code[4]]
        yield from _grouped(whole)

    def _cut(self, lines: list[str]) -> tuple[str, str | None]:
        limit = room = min(self._room, _MAX_PATCH_CHARACTERS)
        shown = 0
        for line in lines:
            if len(line) > room:
                break
            room -= len(line)
            shown += 1
        missing = len(lines) - shown
        is_full = missing and limit < _MAX_PATCH_CHARACTERS
        self._room = 0 if is_full else self._room - (limit - room)
        return "".join(lines[:shown]), f"{missing:,} more lines are left out" if missing else None


def _grouped(
    codes: Sequence[tuple[str, int, int, int, int]],
) -> Iterator[list[tuple[str, int, int, int, int]]]:
    """Group what differs with a few lines around it; what lies further off is left out."""
    hunk: list[tuple[str, int, int, int, int]] = []
    for at, (kind, a, b, c, d) in enumerate(codes):
        if kind != "equal":
            hunk.append((kind, a, b, c, d))
            continue
        is_first, is_last = at == 0, at == len(codes) - 1
        if hunk and (is_last or b - a > 2 * _CONTEXT):
            hunk.append((kind, a, min(b, a + _CONTEXT), c, min(d, c + _CONTEXT)))
            yield hunk
            hunk = []
        if is_last:
            return
        if is_first or b - a > 2 * _CONTEXT:
            hunk = [(kind, max(a, b - _CONTEXT), b, max(c, d - _CONTEXT), d)]
        else:
            hunk.append((kind, a, b, c, d))
    if hunk:
        yield hunk


def _same(left: list[str], right: list[str]) -> int:
    """Count the lines that two texts begin with alike."""
    pairs = zip(left, right, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(left), len(right)))


def _range(begin: int, end: int) -> str:
    length = end - begin
    return f"{begin + 1 if length else begin},{length}"


def _signed(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def read_plain_file(path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes | None:
    """Give the content of a plain, small file; None for any other. No link is followed, no pipe read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            return None
        content = file.read(max_bytes + 1)
    return content if len(content) <= max_bytes else None
