"""Say which paths the ignore files of a tree leave out, in the syntax of `.gitignore`.

Not `git check-ignore`: git reads only files called `.gitignore`, needs a repository, and stops at a nested
one. Not `pathspec`: of random pattern files it judged one in thirty differently from git.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CHARACTER_CLASSES: dict[bytes, str] = {
    b"alnum": "[A-Za-z0-9]",
    b"alpha": "[A-Za-z]",
    b"blank": "[ \t]",
    b"cntrl": "[\x00-\x1f\x7f]",
    b"digit": "[0-9]",
    b"graph": "[!-~]",
    b"lower": "[a-z]",
    b"print": "[ -~]",
    b"punct": r"[!-/:-@\[-`{-~]",
    b"space": "[ \t-\r]",
    b"upper": "[A-Z]",
    b"xdigit": "[A-Fa-f0-9]",
}


@dataclass(frozen=True)
class _Rule:
    """One line of an ignore file."""

    regex: re.Pattern[bytes]
    ignores: bool  # False: it begins with `!`
    directories_only: bool
    anchored: bool  # about the path below the ignore file, not about the last name alone

    def matches(self, path: bytes, *, is_directory: bool) -> bool:
        if self.directories_only and not is_directory:
            return False
        return bool(self.regex.fullmatch(path if self.anchored else path.rpartition(b"/")[2]))


class _MatchesNothingError(Exception):
    """A pattern that git takes and never applies: a bracket without end, an unknown class."""


class IgnoreFiles:
    """The ignore files of one name in a tree, read as they are come upon.

    Those between `top` and the tree's root count too, unless they ignore the root itself: what was named
    as a workspace is wanted.
    """

    def __init__(self, name: str, root: Path, *, top: Path | None = None) -> None:
        self._name = name
        self._top = top or root
        self._prefix = b"" if root == self._top else os.fsencode(root.relative_to(self._top))
        # Directory → its ignore files and those above, the nearest first; None: the directory is ignored.
        self._in_force: dict[bytes, tuple[tuple[bytes, list[_Rule]], ...] | None] = {}
        if self._files_for(self._prefix) is None:
            self._in_force[self._prefix] = self._read(self._prefix)

    def ignores(self, path: Path, *, is_directory: bool) -> bool:
        """Tell whether a path, relative to the root, or a directory above it is ignored."""
        below = os.fsencode(path)
        return self._ignores(self._prefix + b"/" + below if self._prefix else below, is_directory)

    def _ignores(self, path: bytes, is_directory: bool) -> bool:
        files = self._files_for(path.rpartition(b"/")[0])
        if files is None:
            return True
        for directory, rules in files:
            below = path[len(directory) + 1 :] if directory else path
            for rule in reversed(rules):
                if rule.matches(below, is_directory=is_directory):
                    return rule.ignores
        return False

    def _files_for(self, directory: bytes) -> tuple[tuple[bytes, list[_Rule]], ...] | None:
        if directory not in self._in_force:
            if not directory:
                self._in_force[directory] = self._read(directory)
            elif self._ignores(directory, is_directory=True):
                self._in_force[directory] = None
            else:
                above = self._files_for(directory.rpartition(b"/")[0])
                self._in_force[directory] = (*self._read(directory), *(above or ()))
        return self._in_force[directory]

    def _read(self, directory: bytes) -> tuple[tuple[bytes, list[_Rule]], ...]:
        try:
            content = (self._top / os.fsdecode(directory) / self._name).read_bytes()
        except OSError:  # there is none, or it is not a file
            return ()
        rules = list(_parse(content))
        return ((directory, rules),) if rules else ()


def _parse(content: bytes) -> Iterator[_Rule]:
    for raw in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = _without_trailing_spaces(raw.removesuffix(b"\r"))
        if line.startswith(b"#"):
            continue
        ignores = not line.startswith(b"!")
        pattern = line if ignores else line[1:]
        directories_only = pattern.endswith(b"/")
        pattern = pattern.removesuffix(b"/")
        if not pattern:
            continue
        try:
            regex = _translate(pattern.removeprefix(b"/"))
        except _MatchesNothingError:
            continue
        yield _Rule(regex, ignores, directories_only, anchored=b"/" in pattern)


def _without_trailing_spaces(line: bytes) -> bytes:
    """Cut spaces off the end, except one that a backslash keeps."""
    match = re.fullmatch(rb"((?:\\.|[^\\])*?) *", line, re.DOTALL)
    return match[1] if match else line


def _translate(pattern: bytes) -> re.Pattern[bytes]:
    """Turn a pattern into a regular expression over bytes, as git's `wildmatch` reads it."""
    regex = b""
    position = 0
    while position < len(pattern):
        character = pattern[position : position + 1]
        if character == b"*":
            part, position = _translate_stars(pattern, position)
        elif character == b"[":
            part, position = _translate_bracket(pattern, position + 1)
        elif character == b"?":
            part, position = b"[^/]", position + 1
        elif character == b"\\":
            part, position = re.escape(_next(pattern, position + 1)), position + 2
        else:
            part, position = re.escape(character), position + 1
        regex += part
    return re.compile(regex, re.DOTALL)


def _translate_stars(pattern: bytes, start: int) -> tuple[bytes, int]:
    end = start
    while pattern[end : end + 1] == b"*":
        end += 1
    # Only between slashes do two stars mean any number of directories. To git, what stands before the first
    # special character is not part of the pattern: in `a**/b` too, the stars stand at a beginning.
    at_start = (
        start == 0 or pattern[start - 1 : start] == b"/" or not re.search(rb"[*?\[\\]", pattern[:start])
    )
    if end - start == 1 or not at_start or pattern[end : end + 1] not in (b"", b"/"):
        return b"[^/]*", end
    return (b"(?:.*/)?", end + 1) if end < len(pattern) else (b".*", end)


def _translate_bracket(pattern: bytes, start: int) -> tuple[bytes, int]:
    """Turn `[…]` into the bytes that it means, which never include the slash."""
    negated = pattern[start : start + 1] in (b"!", b"^")
    position = start + negated
    members: set[int] = set()
    previous = b""  # what a range could begin with
    first = True
    while first or _next(pattern, position) != b"]":
        first = False
        character = _next(pattern, position)
        end = pattern.find(b"]", position + 2)
        if character == b"\\":
            position += 1
            character = _next(pattern, position)
            members.add(character[0])
        elif character == b"-" and previous and _next(pattern, position + 1) != b"]":
            position += 1
            position += pattern[position : position + 1] == b"\\"
            members.update(range(previous[0], _next(pattern, position)[0] + 1))
            character = b""
        elif character == b"[" and pattern[position + 1 : position + 2] == b":" and end == -1:
            raise _MatchesNothingError
        elif (
            pattern[position : position + 2] == b"[:" and pattern[end - 1] == ord(":") and end > position + 2
        ):
            members |= _members_of_class(pattern[position + 2 : end - 1])
            position = end
            character = b""
        else:
            members.add(character[0])
        previous = character
        position += 1
    if negated:
        members = set(range(256)) - members
    meant = b"".join(b"\\x%02x" % member for member in sorted(members - {ord("/")}))
    return (b"[" + meant + b"]" if meant else b"(?!)"), position + 1


def _members_of_class(name: bytes) -> set[int]:
    try:
        regex = _CHARACTER_CLASSES[name]
    except KeyError:
        raise _MatchesNothingError from None
    return {code for code in range(128) if re.fullmatch(regex, chr(code))}


def _next(pattern: bytes, position: int) -> bytes:
    if position >= len(pattern):
        raise _MatchesNothingError
    return pattern[position : position + 1]
