"""Trees so deep that a walk which calls itself fails, or no path reaches the bottom."""

from __future__ import annotations

import os
from pathlib import Path

from farm.sessions.removal import remove_tree

TOO_DEEP_TO_CALL_ITSELF = 1500  # Python allows a thousand calls
MOST_BYTES = 4095  # that the path of a file may have

_dug: list[Path] = []


def fill_up() -> None:
    """Remove what was dug: pytest could not."""
    while _dug:
        assert remove_tree(_dug.pop())


def dig(
    directory: Path, levels: int, *, name: str = "d", file: str = "bottom.txt", text: str = "deep"
) -> str:
    """Make directories in directories, with a file in the last; give its path below the first."""
    _dug.append(directory / name)
    here = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    with open(os.open(file, os.O_WRONLY | os.O_CREAT, dir_fd=here), "w") as stream:
        stream.write(text)
    os.close(here)
    return f"{name}/" * levels + file


def dig_out_of_reach(directory: Path, *, file: str = "bottom.txt", text: str = "deep") -> str:
    """Do it with directories that can't be listed for the length of their paths."""
    return dig(directory, 30, name="d" * 200, file=file, text=text)


def dig_to_the_limit(directory: Path, *, file: str, text: str = "deep") -> str:
    """Do it so that the last directory can be listed, but its file not be opened by its path."""
    room = MOST_BYTES - len(os.fsencode(directory))
    assert len(file) > 1
    return dig(directory, room // 2, file=file, text=text)
