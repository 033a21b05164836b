"""What is left when owner and guard both were killed, and what must not be touched: real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from farm.sessions.leftovers import remove_leftovers
from farm.sessions.owned_directory import RECORD, OwnerRecord
from farm.sessions.workspace import open_workspace
from tests.unit.sessions.processes import escape_command, guards_of, is_alive, start_owner, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a process table to search")

OWNER = """
import json, sys
from farm.sessions.process import run_process
from farm.sessions.workspace import open_workspace

with open_workspace() as workspace:
    run_process(json.loads(sys.argv[1]), cwd=workspace.directory, env=workspace.environment(), timeout_seconds=300)
"""


@pytest.fixture
def place(tmp_path):
    directory = tmp_path / "t"
    directory.mkdir()
    return directory


def escaped_in(place: Path) -> dict[Path, int]:
    return {path.parents[1]: int(path.read_text()) for path in place.glob("farm-*/workspace/escaped")}


def start_session(place: Path, *, keep_environment: bool = True) -> subprocess.Popen[bytes]:
    known = set(escaped_in(place))
    command = escape_command("time.sleep(300)", keep_environment=keep_environment)
    owner = start_owner(OWNER, json.dumps(command), tmp=place)
    wait_until(lambda: len(escaped_in(place)) > len(known))
    return owner


def kill_with_guard(owner: subprocess.Popen[bytes]) -> None:
    """Kill an owner as a power cut would: nobody is left to clean up."""
    (guard,) = guards_of(owner.pid)
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: not is_alive(guard))
    owner.kill()
    owner.wait()


def end(owner: subprocess.Popen[bytes]) -> None:
    owner.kill()
    owner.wait()


@pytest.mark.parametrize("keep_environment", [True, False])
def test_the_dead_ones_are_cleaned_up_and_a_living_ones_session_is_not_touched(place, keep_environment):
    living = start_session(place)
    try:
        ((kept, survivor),) = escaped_in(place).items()
        dead = start_session(place, keep_environment=keep_environment)
        left, escaped = next(item for item in escaped_in(place).items() if item[0] != kept)
        kill_with_guard(dead)

        remove_leftovers(place)

        assert not is_alive(escaped)
        assert not left.exists()
        assert is_alive(survivor)
        assert (kept / "workspace").is_dir()
        assert remove_leftovers(place).directories == ()
    finally:
        end(living)
    wait_until(lambda: not is_alive(survivor))


def test_what_was_removed_is_told(place):
    dead = start_session(place)
    (left,) = escaped_in(place)
    kill_with_guard(dead)

    assert remove_leftovers(place).directories == (left,)


def test_a_directory_that_was_kept_stays(place, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with open_workspace(keep=lambda: True) as workspace:
        record = json.loads((workspace.root / RECORD).read_text())
    assert record["pid"] == os.getpid()
    assert not (workspace.root / RECORD).exists()

    assert remove_leftovers(place).directories == ()
    assert workspace.directory.is_dir()


def owned(place: Path, name: str, **changes: object) -> Path:
    """Make a directory of a process that is no more, except for what the test changes."""
    with subprocess.Popen(["true"]) as process:
        pass
    record = {
        **OwnerRecord.of_this_process().__dict__,
        "pid": process.pid,
        "started": 1,
        **changes,
    }
    directory = place / name
    directory.mkdir()
    (directory / RECORD).write_text(json.dumps(record))
    return directory


def test_a_directory_of_an_earlier_boot_is_removed_even_if_the_id_is_in_use_again(place):
    directory = owned(place, "farm-old", boot="another", pid=os.getpid())

    assert remove_leftovers(place).directories == (directory,)


@pytest.mark.parametrize(
    "changes",
    [
        {"machine": "another", "boot": "another"},
        {"namespace": "pid:[1]"},
        {"pid": "1"},
        {"pid": None},
        {"pid": True},
        {"boot": 7},
        {"unknown": 1},
    ],
)
def test_a_directory_of_elsewhere_or_with_a_strange_record_is_left_alone(place, changes):
    directory = owned(place, "farm-elsewhere", **changes)

    assert remove_leftovers(place).directories == ()
    assert directory.exists()


def test_what_is_not_ours_is_left_alone(place):
    other_name = owned(place, "theirs")
    real = owned(place, "real")
    (place / "farm-link").symlink_to(real)
    (place / "farm-empty").mkdir()
    (place / "farm-file").write_text("")
    pipe = place / "farm-pipe"
    pipe.mkdir()
    os.mkfifo(pipe / RECORD)
    link = place / "farm-record-link"
    link.mkdir()
    (link / RECORD).symlink_to(real / RECORD)
    if os.geteuid() == 0:
        os.chown(owned(place, "farm-of-nobody"), 65534, 65534)
    before = sorted(place.iterdir())

    assert remove_leftovers(place).directories == ()
    assert sorted(place.iterdir()) == before
    assert other_name.exists()


def test_a_directory_of_a_living_owner_is_left_alone_while_it_is_used(place, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with open_workspace() as workspace:
        assert remove_leftovers(place).directories == ()
        assert workspace.directory.is_dir()


def test_an_agent_that_made_something_else_of_the_record_can_not_break_keeping(place, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with open_workspace(keep=lambda: True) as workspace:
        (workspace.root / RECORD).unlink()
        (workspace.root / RECORD / "deep").mkdir(parents=True)

    assert workspace.directory.is_dir()
    assert not (workspace.root / RECORD).exists()
