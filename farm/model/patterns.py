"""Turn an author's pattern into a matcher that takes linear time on any value.

RE2 for globs and regular expressions alike: Python's `re` and `fnmatch` backtrack, and a value of a
hostile agent against `(a+)+$` would hang a worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from farm.errors import FarmError


class PatternError(FarmError):
    """A pattern that can't be used: RE2 does not accept it, or its braces stand for too many."""


_MAX_ALTERNATIVES = 1000

# What a glob's `*` and `?` stand for: in a value, in a path.
ANY_CHARACTER = "."
NO_SLASH = "[^/]"


class Matcher(Protocol):
    """The two questions we ask of a compiled pattern."""

    def search(self, text: str) -> object: ...

    def fullmatch(self, text: str) -> object: ...


def text_of(value: Any) -> str:
    """Give the text that patterns see: strings as they are, any other value as compact JSON."""
    if isinstance(value, str):
        return value
    import json  # not at the top: 4 ms that checking a file need not pay

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def same_json(a: Any, b: Any) -> bool:
    """Say whether two values are equal as JSON: 1 is 1.0, but true is not 1, whatever Python thinks."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_json(value, b[key]) for key, value in a.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_json, a, b))
    return bool(a == b)


@lru_cache(maxsize=4096)
def compile_regex(pattern: str) -> Matcher:
    """Compile a regular expression, or raise PatternError with RE2's reason."""
    import re2  # not at the top: 20 ms that a file without patterns need not pay

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Matcher = re2.compile(_encodable(pattern), options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise PatternError(f"not a regular expression (RE2): {reason}") from None
    return compiled


@lru_cache(maxsize=4096)
def compile_glob(pattern: str) -> Matcher:
    """Compile a glob (`*`, `?`, `[…]`) that must match a whole value, newlines included."""
    return compile_regex(f"(?s:{_translate_glob(_encodable(pattern), ANY_CHARACTER)})")


@lru_cache(maxsize=4096)
def compile_path_glob(pattern: str) -> Matcher:
    """Compile a glob for paths: `*`, `?` and `[…]` stay within a segment, a segment `**` spans any number.

    A leading dot is a character like any other: `*.env` matches `.env`.
    """
    *parents, last = _encodable(pattern).split("/")
    spans = "(?:[^/]+/)*"
    regex = [spans if segment == "**" else f"{_translate_glob(segment, NO_SLASH)}/" for segment in parents]
    regex.append(f"{spans}[^/]+" if last == "**" else _translate_glob(last, NO_SLASH))
    return compile_regex("".join(regex))


def glob_matches(pattern: str, text: str) -> bool:
    """Say whether a glob matches the whole text."""
    return bool(compile_glob(pattern).fullmatch(_encodable(text)))


def path_glob_matches(pattern: str, path: str) -> bool:
    """Say whether a relative path is this path (`app/[id]/page.tsx`) or a match of this glob."""
    return path == pattern or bool(compile_path_glob(pattern).fullmatch(_encodable(path)))


def path_glob_may_match_below(pattern: str, directory: str) -> bool:
    """Say whether anything below a relative directory can be a match of a path glob."""
    segments, names = pattern.split("/"), directory.split("/")
    if "**" in segments:
        parents = segments[: segments.index("**")]
        names = names[: len(parents)]
    else:
        parents = segments[:-1]
    depth = len(names)
    return depth <= len(parents) and path_glob_matches("/".join(parents[:depth]), "/".join(names))


def expand_braces(pattern: str) -> list[str]:
    """Write out the `{a,b}` of a pattern; raise PatternError if that gives too many."""
    written: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        close = current.find("}")
        open_ = current.rfind("{", 0, close)
        if close < 0 or open_ < 0:
            written.append(current)
            continue
        choices = current[open_ + 1 : close].split(",")
        # Before they are written out: an agent's pattern may be a megabyte of commas.
        if len(written) + len(waiting) + len(choices) > _MAX_ALTERNATIVES:
            raise PatternError(f"too many alternatives: its braces stand for more than {_MAX_ALTERNATIVES}")
        waiting += [f"{current[:open_]}{choice}{current[close + 1 :]}" for choice in reversed(choices)]
    return written


def regex_found(pattern: str, text: str) -> bool:
    """Say whether a regular expression is found anywhere in the text."""
    return bool(compile_regex(pattern).search(_encodable(text)))


def parameter_matches(pattern: Any, value: Any) -> bool:
    """Say whether a tool call's parameter matches an author's pattern.

    A text pattern matches what equals it, what it matches as a glob, or where it is found as a regular
    expression. A number, flag, list or mapping matches only its equal: `timeout: 5` must not match 15.
    """
    text = text_of(value)
    if not isinstance(pattern, str):
        return same_json(pattern, value) or text == text_of(pattern)
    if text == pattern or glob_matches(pattern, text):
        return True
    try:
        return regex_found(pattern, text)
    except PatternError:  # `*.env` is a glob and no regular expression: that is no error
        return False


def _encodable(text: str) -> str:
    """Replace lone surrogates (JSON can carry them), which have no UTF-8 form for RE2 to look at."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _translate_glob(pattern: str, any_char: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            if not out or out[-1] != f"{any_char}*":
                out.append(f"{any_char}*")
        elif char == "?":
            out.append(any_char)
        elif char == "[" and (end := _class_end(pattern, at)):
            out.append(_translate_class(pattern[at:end], any_char))
            at = end + 1
        else:
            out.append(_literal(char))
    return "".join(out)


def _class_end(pattern: str, start: int) -> int:
    """Find the `]` that closes a class opened before `start`; 0 if it is a literal `[`."""
    first = start + 1 if pattern[start : start + 1] in ("!", "^") else start
    return max(pattern.find("]", first + 1), 0)


def _translate_class(body: str, any_char: str) -> str:
    negated = body[0] in "!^"
    members: list[str] = []
    rest = body[1:] if negated else body
    at = 0
    while at < len(rest):
        if rest[at + 1 : at + 2] == "-" and at + 2 < len(rest):
            members += _range(rest[at], rest[at + 2], any_char)
            at += 3
        else:
            members.append(_literal(rest[at]))
            at += 1
    if not members:  # `[z-a]` matches nothing, as in every shell
        return any_char if negated else r"[^\x00-\x{10FFFF}]"
    if negated and any_char == NO_SLASH:
        members.append(_literal("/"))
    return f"[{'^' if negated else ''}{''.join(members)}]"


def _range(low: str, high: str, any_char: str) -> list[str]:
    if any_char == NO_SLASH and low <= "/" <= high:
        return _range(low, chr(ord("/") - 1), any_char) + _range(chr(ord("/") + 1), high, any_char)
    return [f"{_literal(low)}-{_literal(high)}"] if low <= high else []


def _literal(char: str) -> str:
    if char.isalnum() or char == "_":
        return char
    return f"\\x{{{ord(char):X}}}"
