from __future__ import annotations

import os
from pathlib import Path

import pytest

from farm.sessions.owned_directory import RECORD
from farm.sessions.trial_directories import PARTS, TrialDirectories


@pytest.fixture
def directories():
    made = TrialDirectories(recycles=True)
    yield made
    made.close()


def inhabit(root: Path) -> None:
    """Leave what an agent might."""
    (root / "workspace" / "deep" / "er").mkdir(parents=True)
    (root / "workspace" / "deep" / "er" / "file").write_text("x")
    (root / "home" / ".secret").write_text("x")
    (root / "tmp" / "link").symlink_to("/etc")
    os.mkfifo(root / "config" / "pipe")
    (root / "workspace" / "deep").chmod(0o500)


def test_a_directory_is_empty_when_it_is_used_again(directories):
    root = directories.make()
    inhabit(root)
    directories.remove(root)
    assert directories.make() == root
    assert {part: os.listdir(root / part) for part in PARTS} == {part: [] for part in PARTS}
    directories.remove(root)


def test_a_directory_with_paths_too_long_to_name_is_used_again(directories):
    root = directories.make()
    here = os.open(root / "workspace", os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d" * 50, dir_fd=here)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.fchmod(here, 0o700 if os.fstat(here).st_ino == (root / "workspace").stat().st_ino else 0)
        os.close(here)
        here = below
    os.close(here)
    directories.remove(root)
    assert directories.make() == root
    assert os.listdir(root / "workspace") == []
    directories.remove(root)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda root: (root / "home").chmod(0o777),
        lambda root: (root / "tmp").rmdir(),
        lambda root: ((root / "tmp").rmdir(), (root / "tmp").symlink_to("/tmp")),
        lambda root: (root / "more").mkdir(),
        lambda root: (root / RECORD).write_text("{}"),
        lambda root: (root / RECORD).unlink(),
    ],
    ids=["mode", "part gone", "part a link", "more", "another's record", "no record"],
)
def test_a_directory_that_is_not_as_it_was_made_is_not_used_again(directories, tamper):
    root = directories.make()
    tamper(root)
    directories.remove(root)
    assert not root.exists()
    again = directories.make()
    assert again != root
    directories.remove(again)


def test_a_kept_directory_is_not_used_again(directories):
    root = directories.make()
    directories.keep(root)
    again = directories.make()
    assert again != root
    directories.remove(again)
    TrialDirectories().remove(root)
    assert not root.exists()


def test_nothing_is_left_when_all_is_over(directories):
    roots = [directories.make() for _ in range(3)]
    for root in roots:
        directories.remove(root)
    directories.close()
    assert not any(root.exists() for root in roots)


def test_without_recycling_a_directory_is_removed_at_once():
    directories = TrialDirectories()
    root = directories.make()
    directories.remove(root)
    assert not root.exists()
