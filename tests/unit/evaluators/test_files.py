from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from farm.evaluators import files
from farm.model.verdict import Verdict
from farm.sessions.removal import remove_tree
from tests.unit.evaluators.builders import session, spec, verdict
from tests.unit.sessions.deep_trees import (
    TOO_DEEP_TO_CALL_ITSELF,
    dig,
    dig_out_of_reach,
    dig_to_the_limit,
)

OUTSIDE = ["/etc/passwd", "../secret.txt", "src/../../secret.txt", "..", "a\0b", "."]


@pytest.fixture
def workspace(tmp_path):
    """A workspace beside a secret."""
    (tmp_path / "secret.txt").write_text("TOPSECRET")
    root = tmp_path / "workspace"
    for name, text in {
        "README.md": "# Hello\n",
        ".env": "KEY=1",
        "src/app.py": "print('hello')\n",
        "src/deep/er/mod.py": "# TODO: later\n",
        "app/[id]/page.tsx": "export default 1",
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.fixture
def deep_workspace(workspace):
    """A workspace that is removed even where pytest could not."""
    yield workspace
    remove_tree(workspace)


def exists(workspace: Path, path: str, **fields: Any) -> Verdict:
    return verdict(session(workspace=workspace), type="file_exists", path=path, **fields)


def contains(workspace: Path, path: str, **fields: Any) -> Verdict:
    return verdict(session(workspace=workspace), type="file_contains", path=path, **fields)


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("README.md", "passed"),
        ("./src//app.py", "passed"),
        ("readme.md", "failed"),
        ("*.md", "passed"),
        ("*.env", "passed"),
        ("*.py", "failed"),
        ("**/*.py", "passed"),
        ("**/README.md", "passed"),
        ("src/*/mod.py", "failed"),
        ("src/**/mod.py", "passed"),
        ("src/**", "passed"),
        ("docs/**", "failed"),
        ("src/app.[a-p]y", "passed"),
        ("app/[id]/page.tsx", "passed"),
        ("src", "failed"),
        ("x" * 5000, "failed"),
    ],
)
def test_a_file_exists_by_its_path_or_a_glob(workspace, path, outcome):
    found = exists(workspace, path)
    assert (found.outcome, found.score) == (outcome, float(outcome == "passed"))
    assert exists(workspace, path, negate=True).outcome != outcome


def test_a_hit_names_the_files_and_a_miss_a_directory(workspace):
    assert exists(workspace, "**/*.py").hits == ("there is src/app.py, src/deep/er/mod.py",)
    assert exists(workspace, "src").misses == ('"src": it is a directory',)
    assert exists(workspace, "nope").misses == ('"nope": no such file in the workspace',)


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_out_of_the_workspace_is_refused_before_anything_runs(path):
    for fields in (
        {"type": "file_exists", "path": path},
        {"type": "file_contains", "path": path, "value": "TOPSECRET"},
        {"type": "files_changed", "forbid": path},
    ):
        with pytest.raises(ValidationError, match="must lie in the workspace"):
            spec(**fields)


@pytest.mark.parametrize("path", ["link.txt", "*.txt", "**/*.txt", "outside/secret.txt"])
def test_a_link_out_of_the_workspace_is_never_followed(workspace, path):
    (workspace / "link.txt").symlink_to("../secret.txt")
    (workspace / "outside").symlink_to("..")
    assert exists(workspace, path).outcome == "failed"
    assert contains(workspace, path, value="TOPSECRET").outcome == "failed"


def test_a_link_within_the_workspace_counts(workspace):
    (workspace / "link.md").symlink_to("README.md")
    (workspace / "lib").symlink_to("src")
    assert contains(workspace, "link.*", value="Hello").outcome == "passed"
    assert exists(workspace, "lib/app.py").outcome == "passed"


def test_a_workspace_that_is_reached_through_a_link_is_fine(workspace, tmp_path):
    (tmp_path / "w").symlink_to("workspace")
    assert exists(tmp_path / "w", "src/*.py").outcome == "passed"


def test_links_in_a_circle_and_pipes_are_no_files(workspace):
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    os.mkfifo(workspace / "pipe")
    for path in ("a", "pipe", "[ab]", "pip?"):
        assert exists(workspace, path).outcome == "failed"
        assert contains(workspace, path, value="x").outcome == "failed"


def test_a_name_that_is_no_utf_8_is_shown_escaped(workspace):
    with open(os.fsencode(workspace) + b"/\xff\n.bin", "w"):
        found = exists(workspace, "*.bin")
    assert found.outcome == "passed"
    assert found.hits[0].isprintable()


@pytest.mark.parametrize(
    ("path", "fields", "outcome"),
    [
        ("src/app.py", {"value": "hello"}, "passed"),
        ("src/app.py", {"value": "Hello"}, "failed"),
        ("src/app.py", {"value": "print("}, "passed"),
        ("src/app.py", {"pattern": r"print\(.h"}, "passed"),
        ("src/app.py", {"pattern": "^hello"}, "failed"),
        ("**/*.py", {"value": "TODO"}, "passed"),
        ("*.py", {"value": "TODO"}, "failed"),
        ("nope.py", {"value": "x"}, "failed"),
    ],
)
def test_a_file_contains_a_text_or_a_match(workspace, path, fields, outcome):
    assert contains(workspace, path, **fields).outcome == outcome


def test_a_miss_names_the_files_that_were_searched(workspace):
    assert contains(workspace, "**/*.py", value="zzz").misses == (
        'src/app.py, src/deep/er/mod.py without "zzz"',
    )
    assert contains(workspace, "src/*.py", pattern="z+").misses == ('src/app.py without "z+"',)
    assert contains(workspace, "x.py", value="zzz").misses == ('"x.py": no such file in the workspace',)


def test_bytes_that_are_no_utf_8_are_searched_all_the_same(workspace):
    (workspace / "data.bin").write_bytes(b"\xff\xfeneedle\x00\xff")
    assert contains(workspace, "data.bin", value="needle").outcome == "passed"
    assert contains(workspace, "data.bin", pattern="need.e").outcome == "passed"


def test_a_file_over_the_limit_is_not_searched_and_named(workspace, monkeypatch):
    monkeypatch.setattr(files, "SIZE_LIMIT_BYTES", 1024 * 1024)
    (workspace / "big.log").write_bytes(b"x" * 1024 * 1024 + b"needle")
    found = contains(workspace, "big.log", value="needle")
    assert found.outcome == "failed"
    assert found.misses == ("big.log not searched: larger than 1 MB, or not readable",)
    assert contains(workspace, "big.log", value="needle", negate=True).outcome == "errored"
    (workspace / "big.log").write_bytes(b"x" * (1024 * 1024 - 6) + b"needle")
    assert contains(workspace, "big.log", value="needle").outcome == "passed"


def test_a_file_with_the_very_name_of_a_glob_does_not_hide_the_others(workspace):
    (workspace / "**").mkdir()
    (workspace / "**/*.py").write_text("harmless")
    assert contains(workspace, "**/*.py", value="TODO").outcome == "passed"
    assert exists(workspace, "**/*.py").hits == ("there is **/*.py, src/app.py, src/deep/er/mod.py",)


def test_a_directory_that_cannot_be_listed_is_errored_where_a_glob_must_look(workspace, monkeypatch):
    real = os.scandir

    def scandir(path):
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert contains(workspace, "**/*.py", value="zzz", negate=True).outcome == "errored"
    assert contains(workspace, "src/app.py", value="zzz", negate=True).outcome == "passed"


def test_a_glob_looks_into_directories_however_deep(deep_workspace):
    dig(deep_workspace, TOO_DEEP_TO_CALL_ITSELF, text="TODO: hide")
    assert exists(deep_workspace, "**/nope").outcome == "failed"
    assert exists(deep_workspace, "**/bottom.*", negate=True).outcome == "failed"
    assert contains(deep_workspace, "d/**", value="TODO").outcome == "passed"
    assert contains(deep_workspace, "**", value="zzz").outcome == "failed"


@pytest.mark.parametrize("make", [dig_out_of_reach, dig_to_the_limit])
def test_what_no_path_reaches_is_errored_only_where_the_verdict_depends_on_it(deep_workspace, make):
    make(deep_workspace, file="hidden.py")
    for negate in (False, True):
        found = exists(deep_workspace, "**/hidden.*", negate=negate)
        assert (found.outcome, "File name too long" in str(found.reasoning)) == ("errored", True)
        assert contains(deep_workspace, "**/*.py", value="zzz", negate=negate).outcome == "errored"
    # Found elsewhere already.
    assert exists(deep_workspace, "**/app.py").outcome == "passed"
    assert contains(deep_workspace, "**/*.py", value="hello", negate=True).outcome == "failed"
    # Never looked for there.
    assert exists(deep_workspace, "src/*.ts").outcome == "failed"
    assert contains(deep_workspace, "src/**", value="zzz").outcome == "failed"


def test_a_chain_of_links_that_the_system_does_not_follow_is_no_file(workspace):
    for number in range(1500):
        (workspace / f"link{number}").symlink_to(f"link{number + 1}")
    (workspace / "link1500").symlink_to("README.md")
    assert exists(workspace, "link0").outcome == "failed"
    assert exists(workspace, "link*", negate=True).outcome == "failed"


def test_a_workspace_that_is_gone_is_errored(tmp_path):
    for path in ("a", "*"):
        assert exists(tmp_path / "gone", path, negate=True).outcome == "errored"


@pytest.mark.parametrize("fields", [{"type": "file_exists"}, {"type": "file_contains", "value": "x"}])
def test_without_a_workspace_it_is_errored(fields):
    found = verdict(session(), path="a", **fields)
    assert (found.outcome, found.reasoning) == ("errored", "no workspace is kept with this transcript")


CHANGES = {"added": ["src/new.py"], "modified": ["README.md", "src/app.py"], "deleted": ["old/gone.py"]}


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"expect": "README.md"}, "passed"),
        ({"expect": ["src/*.py", "old/**"]}, "passed"),
        ({"expect": ["src/*.py", "docs/**"]}, "failed"),
        ({"expect": "*.py"}, "failed"),
        ({"only": ["src/**", "old/*", "*.md"]}, "passed"),
        ({"only": ["src/**", "*.md"]}, "failed"),
        ({"forbid": ["tests/**", "*.lock"]}, "passed"),
        ({"forbid": "**/gone.py"}, "failed"),
        ({"expect": "README.md", "forbid": "src/**"}, "failed"),
    ],
)
def test_the_right_files_changed(fields, outcome):
    found = verdict(session(workspace_changes=CHANGES), type="files_changed", **fields)
    assert (found.outcome, found.score) == (outcome, float(outcome == "passed"))


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"forbid": "**/*.lock"}, "errored"),
        ({"forbid": "deep/**"}, "errored"),
        ({"expect": "deep/*/*/x"}, "errored"),
        ({"only": ["src/**", "deep/*"]}, "errored"),
        ({"only": ["src/**", "deep/**"]}, "passed"),
        ({"expect": "src/*.py", "forbid": "tests/**"}, "passed"),
        ({"expect": "docs/**", "forbid": "deep/**"}, "failed"),  # whatever is there, this is missing
        ({"only": "deep/**"}, "failed"),
    ],
)
def test_changes_that_nobody_could_look_at_are_errored_where_the_verdict_depends_on_them(fields, outcome):
    context = session(workspace_changes={"added": ["src/new.py", "deep/down/"]})
    assert verdict(context, type="files_changed", **fields).outcome == outcome


def test_misses_name_the_files_that_changed():
    found = verdict(
        session(workspace_changes=CHANGES),
        type="files_changed",
        expect="docs/**",
        only=["src/**"],
        forbid=["*.md", "**/*.py"],
    )
    assert found.misses == (
        'no change of "docs/**"; changed: README.md, old/gone.py, src/app.py, src/new.py',
        'changed beside "src/**": README.md, old/gone.py',
        'changed, though "*.md" forbids it: README.md',
        'changed, though "**/*.py" forbids it: old/gone.py, src/app.py, src/new.py',
    )


def test_a_session_that_changed_nothing_is_not_one_without_a_record():
    assert verdict(session(workspace_changes={}), type="files_changed", forbid="**").outcome == "passed"
    assert verdict(session(workspace_changes={}), type="files_changed", expect="**").outcome == "failed"
    assert verdict(session(), type="files_changed", forbid="**").outcome == "errored"
