"""docs/reference says what the code says, and leaves nothing out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from docs import generate
from docs.comments import REPOSITORY, field_comments, variables
from farm.cli.main import COMMANDS
from farm.model.agent import AGENT_SPECS
from farm.model.evaluator import SPEC_BY_TYPE


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return generate.pages()


def test_the_committed_pages_are_those_that_the_code_gives(pages):
    for name, text in pages.items():
        committed = (generate.REFERENCE / name).read_text(encoding="utf-8")
        assert committed == text, f"docs/reference/{name} is not what the code says: run `make docs`"
    assert sorted(path.name for path in generate.REFERENCE.iterdir()) == sorted(pages)


def test_the_pages_are_the_same_every_time(pages):
    assert generate.pages() == pages


def test_every_key_every_variable_and_every_option_is_described():
    assert generate.undescribed() == [], (
        "give the field, the variable's name or the option a comment or a help"
    )


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("cli.md", [f"## farm {name}" for name in COMMANDS]),
        ("settings.md", [f"#### {kind}" for kind in AGENT_SPECS]),
        ("yaml.md", [f" {kind}" for kind in SPEC_BY_TYPE]),
    ],
)
def test_every_command_and_every_kind_has_a_heading(pages, page, names):
    headings = [line for line in pages[page].splitlines() if line.startswith("#")]
    assert [name for name in names if not any(name in heading for heading in headings)] == []


def test_no_variable_is_read_that_the_page_does_not_name():
    """Also not one that is put together, or stands in the middle of a text."""
    assert set(_names_in_the_code()) <= set(variables())


def _names_in_the_code() -> Iterator[str]:
    for package in ("farm", "workers"):
        for path in (REPOSITORY / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from re.findall(r"\bFARM_[A-Z_]*[A-Z]\b", node.value)


class Drawn(BaseModel):
    """Comments in every place."""

    beside: int  # by its side
    # Above it, on
    # two lines.
    below: int
    wrapped: int  # within
    bare: int


def test_the_comment_of_a_field_is_found_wherever_it_stands():
    assert field_comments(Drawn) == {
        "beside": "by its side",
        "below": "above it, on two lines",
        "wrapped": "within",
        "bare": "",
    }


def test_a_key_without_a_comment_is_told():
    table = generate._keys(Drawn)
    assert [line for line in table.splitlines() if line.endswith("|  |")] == [
        "| `bare` | whole number | required |  |"
    ]
