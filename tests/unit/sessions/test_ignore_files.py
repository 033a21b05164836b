import os
import random
import subprocess
from pathlib import Path

import pytest

from farm.sessions.ignore_files import IgnoreFiles

NAMES = [
    f"{directory}{name}"
    for directory in ("", "a/", "b/", "a/b/", "a/a/", "b/a/b/", "é/", "ab/")
    for name in ("x.log", "y.txt", "c", "a.log", " z", "z ", "#h", "!n", "]", "a-b", "B\n", "\\")
]
ATOMS = [
    *("a", "b", "c", "é", "*", "**", "***", "?", "a*", "a**", "**a", "?**", "x.log", "*.log", "y.txt"),
    *("[ab]", "[!a]", "[a-c]", "[]a]", "[!]]", "[", "[a", "[a-]*", "[\\]]", "[--a]", "[+-\\]]", "\\"),
    *("[[:alpha:]]", "[^[:alpha:][:punct:]]", "[[:nothing:]]", "[[:]", "[[:digit:]-z]"),
    *("\\ z", " z", "z\\ ", "z ", "#h", "\\#h", "\\!n", "\\*"),
]


def listed(root: Path, files: IgnoreFiles) -> set[str]:
    found = set()
    for directory, subdirectories, names in os.walk(root):
        here = Path(directory).relative_to(root)
        subdirectories[:] = [
            name
            for name in subdirectories
            if name != ".git" and not files.ignores(here / name, is_directory=True)
        ]
        found |= {str(here / name) for name in names if not files.ignores(here / name, is_directory=False)}
    return found


def random_line(pick: random.Random) -> str:
    parts = [
        "".join(pick.choices(ATOMS, k=pick.choice((1, 1, 1, 1, 2)))) for _ in range(pick.choice((1, 1, 2, 3)))
    ]
    negated, anchored, only_directories = (pick.random() < 0.3 for _ in range(3))
    ending = pick.choice(("", "", "", "", "\r"))
    return f"{'!' * negated}{'/' * anchored}{'/'.join(parts)}{'/' * only_directories}{ending}"


@pytest.mark.parametrize("seed", range(3))
def test_random_ignore_files_mean_what_they_mean_to_git(tmp_path, seed):
    pick = random.Random(seed)
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    subprocess.run(("git", "init", "-q", tmp_path), check=True)
    for _ in range(60):
        written = {}
        for directory in ("", "a", "b"):
            lines = [random_line(pick) for _ in range(pick.randint(1, 4))]
            written[directory] = lines if not directory or pick.random() < 0.4 else []
            (tmp_path / directory / ".ignored").write_bytes("\n".join(written[directory]).encode())
        command = ("git", "ls-files", "--others", "--exclude-per-directory=.ignored", "-z")
        output = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout

        expected = {name for name in output.decode().split("\0") if name}
        assert listed(tmp_path, IgnoreFiles(".ignored", tmp_path)) == expected, written


def test_files_above_the_root_count_unless_they_ignore_the_root(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / ".ignored").write_text("*.bin\n/app/data\n")
    assert IgnoreFiles(".ignored", tmp_path / "app", top=tmp_path).ignores(Path("x.bin"), is_directory=False)
    assert IgnoreFiles(".ignored", tmp_path / "app", top=tmp_path).ignores(Path("data"), is_directory=True)

    (tmp_path / ".ignored").write_text("*.bin\napp/\n")
    (tmp_path / "app/.ignored").write_text("*.tmp\n")
    files = IgnoreFiles(".ignored", tmp_path / "app", top=tmp_path)
    assert not files.ignores(Path("x.bin"), is_directory=False)
    assert files.ignores(Path("x.tmp"), is_directory=False)
