from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.sessions.removal import remove_tree, walk_tree

NAME = "d" * 50
LEVELS = 1100  # more than functions may be called; the path is much longer than one may be
NOBODY = 65534


def make_deep(root: Path, levels: int = LEVELS, *, mode: int = 0o700) -> None:
    """Make a tree that has no name at its end, with directories of this mode, a file and a link in each."""
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(NAME, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.symlink("/etc", "link", dir_fd=here)
        below = os.open(NAME, os.O_RDONLY, dir_fd=here)
        os.fchmod(here, mode)
        os.close(here)
        here = below
    os.close(here)


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Let this process have only a few more files open than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 16, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def own() -> Iterator[Path]:
    """A directory of somebody for whom modes mean something: root may enter and empty any directory."""
    directory = Path(tempfile.mkdtemp())
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield directory
    if is_root:
        os.seteuid(0)
    shutil.rmtree(directory)


def test_a_link_in_place_of_a_directory_is_removed_and_what_it_points_to_is_untouched(tmp_path):
    other = tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    (other / "sub").chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(other)

    assert remove_tree(link)
    assert not link.is_symlink()
    assert (other / "sub").stat().st_mode & 0o777 == 0o755


def test_what_is_not_there_is_gone(tmp_path):
    assert remove_tree(tmp_path / "never")


@pytest.mark.parametrize("mode", [0o700, 0o500, 0o000], ids=oct)
def test_a_tree_is_removed_however_deep_it_is_and_whatever_is_closed_in_it(own, few_descriptors, mode):
    make_deep(own / "tree", mode=mode)
    assert remove_tree(own / "tree")
    assert list(own.iterdir()) == []
    assert Path("/etc/passwd").exists()


def test_what_is_in_an_open_directory_is_removed_whatever_it_is(tmp_path):
    make_deep(tmp_path / "tree", 3)
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    directory = os.open(tmp_path, os.O_RDONLY)
    for name in ("tree", "link", "pipe"):
        assert remove_tree(name, directory)
    os.close(directory)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_can_not_even_be_looked_for_is_not_said_to_be_gone(tmp_path):
    assert not remove_tree(tmp_path / "too-long" / ("x" * 5000))


def test_a_walk_does_not_go_on_where_somebody_moved_its_directory_to(tmp_path):
    (tmp_path / "tree" / "a" / "b").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("x")
    entered = 0

    def enter(directory: int) -> list[str]:
        nonlocal entered
        entered += 1
        if entered == 2:  # we are in `a`
            (tmp_path / "tree" / "a").rename(tmp_path / "elsewhere" / "a")
        return [name for name in os.listdir(directory) if name in ("a", "b")]

    def remove(directory: int, name: str) -> None:
        shutil.rmtree(name, dir_fd=directory)

    with pytest.raises(OSError, match="'a' was moved to another directory"):
        walk_tree(tmp_path / "tree", enter, remove, remove)
    assert (tmp_path / "elsewhere" / "precious").exists()
