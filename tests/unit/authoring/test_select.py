"""Which of the cases that were found are asked for."""

from __future__ import annotations

import pytest

from farm.authoring.select import select_cases
from farm.errors import UsageError
from farm.model.suite import Suite
from tests.unit.builders import case

SUITE = Suite(name="s", root="/", cases=(case(id="a", tags=["x"]), case(id="b[1]", tags=["y"])))


def ids(suite: Suite) -> list[str]:
    return [case.id for case in suite.cases]


def test_a_case_is_named_by_its_id_or_a_glob():
    assert ids(select_cases(SUITE, ids=["b[1]"])) == ["b[1]"]
    assert ids(select_cases(SUITE, ids=["b*", "a"])) == ["a", "b[1]"]
    assert ids(select_cases(SUITE, ids=["*"], tags=["y"])) == ["b[1]"]


@pytest.mark.parametrize(
    ("asked", "futile"),
    [
        ({"ids": ["a", "typo"]}, "--case typo"),
        ({"tags": ["x", "typo"]}, "--tag typo"),
        ({"ids": ["a"], "tags": ["y"]}, "--case a --tag y"),
    ],
)
def test_what_matches_nothing_is_an_error_beside_what_matches(asked, futile: str):
    with pytest.raises(UsageError, match=f"no case matches {futile};"):
        select_cases(SUITE, **asked)
