"""Find, check and fill the placeholders of a shell command.

`{PROMPT}` and its like stand where the shell sees plain words: a value is quoted when it is put in, so quotes
around it would take its own away, and the shell would run what a prompt says.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

PLACEHOLDERS = ("PROMPT", "PROMPT_FILE", "OUTPUT_FILE", "EVAL_ID", "ATTEMPT", "FILES")

_BRACES = r"\{\{[A-Za-z]\w*\}\}|\$?\{[A-Za-z]\w*\}"
_IN_BRACES = re.compile(_BRACES, re.ASCII)
_PLAIN = re.compile(
    rf"(?P<escape>\\.)|(?P<braces>{_BRACES})|(?P<words>'[^']*'?|(?<![^\s;&|()])#[^\n]*)"
    r"|(?P<open>\$?\()|(?P<close>\))|(?P<quote>[\"`])",
    re.ASCII | re.DOTALL,
)
_IN_DOUBLE_QUOTES = re.compile(
    rf"(?P<escape>\\.)|(?P<braces>{_BRACES})|(?P<open>\$\()|(?P<quote>[\"`])", re.ASCII | re.DOTALL
)
_HERE_DOCUMENT = re.compile(
    r"((?<!<)<<-?[ \t]*['\"\\]?([A-Za-z_]\w*)[^\n]*\n)(.*?)(?=^\t*\2$|\Z)", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class _Braces:
    """A name in braces, and whether the shell sees a plain word there."""

    start: int
    text: str
    plain: bool

    @property
    def name(self) -> str:
        return self.text.strip("${}")

    @property
    def is_placeholder(self) -> bool:
        return self.plain and self.text == f"{{{self.name}}}" and self.name in PLACEHOLDERS


def template_problems(template: str) -> list[str]:
    """Say everything that is wrong with a template."""
    problems = ["must not hold a NUL character"] if "\0" in template else []
    problems += [problem for braces in _braces_in(template) if (problem := _problem_of(braces))]
    return list(dict.fromkeys(problems))


def fill_template(template: str, values: Mapping[str, str | Iterable[str]]) -> str:
    """Put in the values, each quoted for the shell; of several, each is a word of its own."""
    pieces: list[str] = []
    end = 0
    for braces in sorted(_braces_in(template), key=lambda braces: braces.start):
        if braces.is_placeholder:
            value = values[braces.name]
            words = [value] if isinstance(value, str) else value
            pieces += (template[end : braces.start], " ".join(map(shlex.quote, words)))
            end = braces.start + len(braces.text)
    return "".join((*pieces, template[end:]))


def _problem_of(braces: _Braces) -> str | None:
    name, text = braces.name, braces.text
    meant = f"{{{name.upper()}}}"
    if name.upper() in PLACEHOLDERS:
        if text != meant:
            # In quotes, `{prompt}` may well be a variable of a program that is written there.
            return f"{text} is no placeholder; did you mean {meant}?" if braces.plain else None
        if not braces.plain:
            return (
                f"{text} stands in quotes, a comment or a here-document; the farm quotes it, so write it bare"
            )
    elif re.fullmatch(r"\{\{?[A-Z][A-Z0-9_]*\}\}?", text):
        close = get_close_matches(name, PLACEHOLDERS, n=1)
        known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
        hint = f"did you mean {{{close[0]}}}?" if close else f"known are {known}"
        return f"unknown placeholder {text}; {hint}"
    return None


def _braces_in(template: str) -> Iterator[_Braces]:
    """Find the names in braces, reading the template as the shell does."""
    for document in _HERE_DOCUMENT.finditer(template):
        yield from _quoted(document[3], document.start(3))
    template = _HERE_DOCUMENT.sub(lambda document: document[1] + " " * len(document[3]), template)
    around = [""]  # what is open here, the innermost last
    at = 0
    while found := (_IN_DOUBLE_QUOTES if around[-1] == '"' else _PLAIN).search(template, at):
        at, token = found.end(), found[0]
        match found.lastgroup:
            case "braces":
                # Backquotes take away backslashes before anything else is looked at, quotes included.
                plain = around[-1] != '"' and "`" not in around
                yield _Braces(found.start(), token, plain)
            case "words":
                yield from _quoted(token, found.start())
            case "open":
                around.append("(")
            case "close" if around[-1] == "(":
                around.pop()
            case "quote" if around[-1] == token:
                around.pop()
            case "quote":
                around.append(token)


def _quoted(text: str, start: int) -> Iterator[_Braces]:
    for found in _IN_BRACES.finditer(text):
        yield _Braces(start + found.start(), found[0], plain=False)
