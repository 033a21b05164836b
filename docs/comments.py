"""Find what the code says of itself: the comments beside models' fields and beside variables' names."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tokenize
from functools import cache
from io import StringIO
from pathlib import Path

from pydantic import BaseModel

REPOSITORY = Path(__file__).parents[1]

_VARIABLE = re.compile(r"FARM_[A-Z_]+")


def variables() -> dict[str, str]:
    """Find every variable of ours that the code knows, with what is said beside its name."""
    found: dict[str, str] = {}
    for path in sorted((*(REPOSITORY / "farm").rglob("*.py"), *(REPOSITORY / "workers").rglob("*.py"))):
        text = path.read_text(encoding="utf-8")
        if "FARM_" not in text:
            continue
        comments = _comments(text)
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and _VARIABLE.fullmatch(node.value)
            ):
                found[node.value] = found.get(node.value) or comments.get(node.lineno, "")
    return dict(sorted(found.items()))


def comment_of(model: type[BaseModel], name: str) -> str:
    """Give what is said beside a model's field."""
    for owner in model.__mro__:
        if issubclass(owner, BaseModel) and name in inspect.get_annotations(owner):
            return field_comments(owner).get(name, "")
    return ""


@cache
def field_comments(model: type[BaseModel]) -> dict[str, str]:
    """Give what is said beside each field of a model itself."""
    source = textwrap.dedent(inspect.getsource(model))
    comments = _comments(source)
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            found[node.target.id] = next((comments[line] for line in lines if line in comments), "")
    return found


def _comments(source: str) -> dict[int, str]:
    """Give the comments by the line that they are about: their own, or the next if they stand alone."""
    found: dict[int, str] = {}
    above: list[str] = []
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("# ").strip()
            if token.line.lstrip().startswith("#"):
                above.append(text)
                found[token.start[0] + 1] = uncapitalized(" ".join(above).removesuffix("."))
            else:
                found[token.start[0]] = text
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            above = []
    return {line: text for line, text in found.items() if text}


def uncapitalized(text: str) -> str:
    """Let a sentence begin like a phrase."""
    return text[0].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
