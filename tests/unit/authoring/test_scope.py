"""Which cases of an earlier run a submission would have selected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.authoring.scope import Scope
from farm.model.report import CaseReport


def earlier(case_id: str, file: str | None = None, tags: tuple[str, ...] = ()) -> CaseReport:
    file = file or case_id.partition("::")[0].partition("#")[0] + ".yaml"
    return CaseReport(id=case_id, name=case_id, file=file, tags=tags, agent="a", outcome="passed")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tests/deep").mkdir(parents=True)
    (tmp_path / "tests/a.yaml").touch()
    (tmp_path / "tests/e.eval.yaml").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        (".", ["tests/a", "tests/a#2", "tests/deep/b", "tests/e.eval::x", "other"]),
        ("tests", ["tests/a", "tests/a#2", "tests/deep/b", "tests/e.eval::x"]),
        ("tests/deep", ["tests/deep/b"]),
        ("tests/a.yaml", ["tests/a", "tests/a#2"]),
        ("tests/e.eval.yaml", ["tests/e.eval::x"]),
    ],
)
def test_a_case_is_covered_by_the_file_or_directory_that_made_it(root, path, covered):
    cases = [
        earlier("tests/a"),
        earlier("tests/a#2"),
        earlier("tests/deep/b"),
        earlier("tests/e.eval::x", file="data/cases.jsonl"),  # written in a case file elsewhere
        earlier("other"),
    ]
    scope = Scope(root, [root / path])
    assert [case.id for case in cases if scope.covers(case)] == covered


@pytest.mark.parametrize(
    ("options", "covered"),
    [
        ({"ids": ["tests/b"]}, ["tests/b"]),
        ({"ids": ["*deep*", "tests/b"]}, ["tests/b", "tests/deep/c"]),
        ({"tags": ["slow"]}, ["tests/a"]),
        ({"tags": ["slow"], "ids": ["tests/b"]}, []),
        ({"recursive": False}, ["tests/a", "tests/b"]),
        ({"pattern": "{a,c}.yaml"}, ["tests/a", "tests/deep/c"]),
        ({"pattern": "deep/*.yaml"}, ["tests/deep/c"]),
    ],
)
def test_what_a_submission_leaves_out_is_not_covered(root, options: dict[str, Any], covered):
    cases = [earlier("tests/a", tags=("slow",)), earlier("tests/b"), earlier("tests/deep/c")]
    scope = Scope(root, [root / "tests"], **options)
    assert [case.id for case in cases if scope.covers(case)] == covered
