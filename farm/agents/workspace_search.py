"""Find files by glob and lines by regular expression, without following links out of a directory."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from farm.errors import FarmError
from farm.model.patterns import Matcher, PatternError, compile_path_glob, compile_regex, expand_braces
from farm.sessions.walking import walk

OUTPUT_MODES = ("files_with_matches", "content", "count")

_MAX_FILE_BYTES = 10 * 2**20
_LINES_BETWEEN_CHECKS = 1000
# Before its braces are written out, and after: compiled, a character takes 150 bytes.
_MAX_GLOB_CHARACTERS = 10_000


class SearchError(FarmError):
    """A search that can't be carried out."""


@dataclass(frozen=True)
class Search:
    """What to search files for, and how to give it."""

    pattern: str
    glob: str
    output_mode: str
    ignore_case: bool
    line_numbers: bool
    show: Callable[[str], str]  # gives of a line what is to be seen


def find_files(directory: Path, pattern: str, check: Callable[[], None]) -> list[str]:
    """List the files below a directory whose relative names match a glob, in order.

    `check` is called again and again, and raises if the search must end.

    `*` and `?` stay within one name, `**` spans directories, `{a,b}` are alternatives. A pattern without a
    slash matches at any depth, as with ripgrep.
    """
    pattern = pattern.removeprefix(f"{directory}/")
    if pattern.startswith("/"):
        raise SearchError(f"{pattern} is outside the directory that is searched")
    matchers = _compile(pattern)
    return sorted(
        name for name in _file_names(directory, check) if any(matcher.fullmatch(name) for matcher in matchers)
    )


def search_files(path: Path, search: Search, check: Callable[[], None]) -> Iterator[str]:
    """Search a file, or a directory's files, for a regular expression; give lines of output."""
    if search.output_mode not in OUTPUT_MODES:
        raise SearchError(f"output_mode must be one of {', '.join(OUTPUT_MODES)}")
    if not path.exists():
        raise SearchError(f"{path} does not exist")
    matcher = compile_regex(f"(?i:{search.pattern})" if search.ignore_case else search.pattern)
    files = [path / name for name in find_files(path, search.glob, check)] if path.is_dir() else [path]
    for file in files:
        matches = ((number, line) for number, line in _lines(file, check) if matcher.search(line))
        if search.output_mode == "content":
            for number, line in matches:
                where = f"{file}:{number}" if search.line_numbers else file
                yield f"{where}:{search.show(line)}"
        elif search.output_mode == "count":
            if count := sum(1 for _ in matches):
                yield f"{file}:{count}"
        elif any(True for _ in matches):
            yield str(file)


def _file_names(directory: Path, check: Callable[[], None]) -> Iterator[str]:
    for listing in walk(directory):
        check()
        listing.subdirectories[:] = [name for name in listing.subdirectories if name != ".git"]
        for name in listing.files:
            check()
            yield os.fsencode(listing.below(name)).decode("utf-8", "backslashreplace")


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


def _compile(pattern: str) -> list[Matcher]:
    prefix = "" if "/" in pattern else "**/"
    try:
        _check_length(pattern)
        globs = {prefix + written for written in expand_braces(pattern)}
        _check_length(*globs)
        return [compile_path_glob(glob) for glob in globs]
    except PatternError as error:
        raise SearchError(f"the glob can't be used: {error}") from None


def _check_length(*globs: str) -> None:
    if sum(map(len, globs)) > _MAX_GLOB_CHARACTERS:
        raise SearchError(
            f"the glob is longer than {_MAX_GLOB_CHARACTERS} characters; name fewer alternatives"
        )
