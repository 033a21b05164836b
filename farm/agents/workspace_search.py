"""Find files by glob and lines by regular expression, without following links out of a directory."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from farm.errors import FarmError
from farm.model.patterns import Matcher, PatternError, compile_regex

OUTPUT_MODES = ("files_with_matches", "content", "count")

_MAX_FILE_BYTES = 10 * 2**20
_LINES_BETWEEN_CHECKS = 1000


class SearchError(FarmError):
    """A search that can't be carried out."""


def find_files(directory: Path, pattern: str, check: Callable[[], None]) -> list[str]:
    """List the files below a directory whose relative names match a glob, in order.

    `check` is called again and again, and raises if the search must end.

    `*` and `?` stay within one name, `**` spans directories, `{a,b}` are alternatives. A pattern without a
    slash matches at any depth, as with ripgrep.
    """
    pattern = pattern.removeprefix(f"{directory}/")
    if pattern.startswith("/"):
        raise SearchError(f"{pattern} is outside the directory that is searched")
    matcher = _compile_path_glob(pattern)
    return sorted(name for name in _file_names(directory, check) if matcher.fullmatch(name))


def search_files(
    path: Path,
    pattern: str,
    check: Callable[[], None],
    *,
    glob: str,
    output_mode: str,
    ignore_case: bool,
    line_numbers: bool,
) -> Iterator[str]:
    """Search a file, or a directory's files, for a regular expression; give lines of output."""
    if output_mode not in OUTPUT_MODES:
        raise SearchError(f"output_mode must be one of {', '.join(OUTPUT_MODES)}")
    if not path.exists():
        raise SearchError(f"{path} does not exist")
    matcher = compile_regex(f"(?i:{pattern})" if ignore_case else pattern)
    files = [path / name for name in find_files(path, glob, check)] if path.is_dir() else [path]
    for file in files:
        matches = ((number, line) for number, line in _lines(file, check) if matcher.search(line))
        if output_mode == "content":
            for number, line in matches:
                yield f"{file}:{number}:{line}" if line_numbers else f"{file}:{line}"
        elif output_mode == "count":
            if count := sum(1 for _ in matches):
                yield f"{file}:{count}"
        elif any(True for _ in matches):
            yield str(file)


def _file_names(directory: Path, check: Callable[[], None]) -> Iterator[str]:
    for current, subdirectories, files in os.walk(directory):
        check()
        subdirectories[:] = [name for name in subdirectories if name != ".git"]
        for name in files:
            relative = os.path.relpath(os.path.join(current, name), directory)  # noqa: PTH118 (no Path per file)
            yield os.fsencode(relative).decode("utf-8", "backslashreplace")


def _lines(file: Path, check: Callable[[], None]) -> Iterator[tuple[int, str]]:
    """Give a text file's lines; nothing of links, pipes, and files that are binary or too large."""
    check()
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _MAX_FILE_BYTES:
            return
        content = file.read_bytes()
    except OSError:
        return
    if b"\0" in content:
        return
    for number, line in enumerate(io.BytesIO(content), 1):  # not all at once: there may be millions
        if number % _LINES_BETWEEN_CHECKS == 0:
            check()
        yield number, line.decode(errors="replace").removesuffix("\n")


def _compile_path_glob(pattern: str) -> Matcher:
    prefix = "" if "/" in pattern else "(?:.*/)?"
    try:
        return compile_regex(f"(?s:{prefix}{''.join(_translate(pattern))})")
    except PatternError:
        raise SearchError(f"{pattern} is no glob") from None


def _translate(pattern: str) -> Iterator[str]:
    at, braces = 0, 0
    while at < len(pattern):
        rest = pattern[at:]
        char = rest[0]
        if rest.startswith("**/"):
            token, piece = "**/", "(?:.*/)?"
        elif rest.startswith("**"):
            token, piece = "**", ".*"
        elif char == "[" and (end := rest.find("]", 2)) > 0:
            token, piece = rest[: end + 1], _translate_class(rest[1:end])
        elif char == "{" and "}" in rest:
            braces += 1
            token, piece = char, "(?:"
        elif char == "}" and braces:
            braces -= 1
            token, piece = char, ")"
        elif char == "," and braces:
            token, piece = char, "|"
        else:
            token, piece = char, {"*": "[^/]*", "?": "[^/]"}.get(char) or _literal(char)
        yield piece
        at += len(token)


def _translate_class(body: str) -> str:
    negated = body[0] in "!^"
    members = body[1:] if negated else body
    return f"[{'^/' if negated else ''}{''.join(c if c == '-' else _literal(c) for c in members)}]"


def _literal(char: str) -> str:
    return char if char.isalnum() else f"\\x{{{ord(char):X}}}"
