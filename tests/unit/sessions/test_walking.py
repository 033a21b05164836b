from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.sessions.removal import remove_tree
from farm.sessions.walking import walk
from tests.unit.sessions.deep_trees import TOO_DEEP_TO_CALL_ITSELF, dig, dig_out_of_reach
from tests.unit.sessions.trees import write


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A directory to fill that is removed even where pytest could not."""
    directory = tmp_path / "tree"
    directory.mkdir()
    yield directory
    remove_tree(directory)


def files_in(tree: Path) -> list[str]:
    return [listing.below(name) for listing in walk(tree) for name in listing.files]


def test_it_gives_what_os_walk_gives_in_the_same_order(tree):
    write(tree, "a", "b/c", "b/d/e", "b/f/g/h", "i/j", ".hidden/k")
    (tree / "empty").mkdir()
    os.mkfifo(tree / "b/pipe")
    (tree / "b/file-link").symlink_to("c")
    (tree / "b/directory-link").symlink_to("..")
    (tree / "b/circle").symlink_to("circle")
    (tree / "b/dangling").symlink_to("nowhere")
    open(os.fsencode(tree) + b"/bad-\xff", "w").close()

    listings = [
        (f"{tree}/{listing.path}".rstrip("/"), {*listing.subdirectories, *listing.links}, listing.files)
        for listing in walk(tree)
    ]
    assert listings == [(path, set(inner), files) for path, inner, files in os.walk(tree)]


def test_links_to_directories_are_told_apart_and_not_followed(tree):
    write(tree, "a/b")
    (tree / "link").symlink_to("a")
    first, second = walk(tree)

    assert (first.subdirectories, first.links, first.files) == (["a"], ["link"], [])
    assert second.path == "a"


def test_a_directory_that_is_taken_out_is_not_entered(tree):
    write(tree, "a/b/c", "x/b/c")
    entered = []
    for listing in walk(tree):
        entered.append(listing.path)
        listing.subdirectories[:] = [name for name in listing.subdirectories if name != "b"]

    assert sorted(entered) == ["", "a", "x"]


def test_the_depth_of_a_tree_has_no_limit_but_that_of_its_paths(tree):
    bottom = dig(tree, TOO_DEEP_TO_CALL_ITSELF)

    assert files_in(tree) == [bottom]


def test_what_can_not_be_listed_is_passed_over_or_told_of(tree):
    write(tree, "a/b")
    dig_out_of_reach(tree)
    refused: list[OSError] = []

    assert files_in(tree) == ["a/b"]
    assert [listing.path for listing in walk(tree, refused.append) if listing.files] == ["a"]
    assert [error.strerror for error in refused] == ["File name too long"]
    assert not list(walk(tree / "gone"))
