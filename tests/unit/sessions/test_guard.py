"""Whatever ends the process that runs sessions, nothing of them is left: real processes, really killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.sessions.processes import escape_command, guards_of, is_alive, start_owner, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what a guard needs")

# Opens a workspace, and runs in it a command given on the command line.
RUN = """
import json, os, sys, threading
from farm.sessions.process import run_process
from farm.sessions.workspace import open_workspace

def run_session():
    with open_workspace() as workspace:
        run_process(json.loads(sys.argv[1]), cwd=workspace.directory, env=workspace.environment(), timeout_seconds=300)
"""
IN_MAIN_THREAD = RUN + "run_session()"
IN_A_THREAD = RUN + "thread = threading.Thread(target=run_session); thread.start(); thread.join()"
# Like a prefork pool: the guard is started first, the sessions run in forked children.
IN_FORKED_CHILDREN = (
    RUN
    + """
import pathlib, time
from farm.sessions.guarding import start_guard
start_guard()
for number in range(2):
    if os.fork() == 0:
        run_session()
        os._exit(0)
print("forked", flush=True)
time.sleep(300)
"""
)


class Place:
    """A temporary directory for owners, and what can be seen in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def escaped(self) -> dict[Path, int]:
        return {path.parent: int(path.read_text()) for path in self.path.glob("farm-*/workspace/escaped")}

    def directories(self) -> list[Path]:
        return list(self.path.iterdir())

    def owner_of(self, workspace: Path) -> int:
        return int(json.loads((workspace.parent / ".owner").read_text())["pid"])


@pytest.fixture
def place(tmp_path):
    directory = tmp_path / "t"
    directory.mkdir()
    return Place(directory)


def command(*, keep_environment: bool = True) -> str:
    return json.dumps(escape_command("time.sleep(300)", keep_environment=keep_environment))


@pytest.mark.parametrize("program", [IN_MAIN_THREAD, IN_A_THREAD], ids=["main thread", "another thread"])
@pytest.mark.parametrize("keep_environment", [True, False])
def test_nothing_survives_the_sigkill_of_the_process_that_runs_a_session(place, program, keep_environment):
    with start_owner(program, command(keep_environment=keep_environment), tmp=place.path) as owner:
        wait_until(lambda: bool(place.escaped()))
        ((_, escaped),) = place.escaped().items()
        (guard,) = guards_of(owner.pid)
        owner.kill()
    wait_until(lambda: not is_alive(escaped))
    wait_until(lambda: place.directories() == [])
    wait_until(lambda: not is_alive(guard))


def test_the_sessions_of_a_killed_pool_child_end_and_those_of_its_sibling_go_on(place):
    with start_owner(IN_FORKED_CHILDREN, command(), tmp=place.path, stdout=subprocess.PIPE) as parent:
        wait_until(lambda: len(place.escaped()) == 2)
        (first, first_pid), (second, second_pid) = place.escaped().items()
        assert len(guards_of(parent.pid)) == 1
        assert guards_of(place.owner_of(first)) == []
        os.kill(place.owner_of(first), signal.SIGKILL)
        wait_until(lambda: not is_alive(first_pid))
        wait_until(lambda: place.directories() == [second.parent])
        assert is_alive(second_pid)
        # Now all of them, as systemd or an administrator would.
        os.kill(place.owner_of(second), signal.SIGKILL)
        parent.kill()
    wait_until(lambda: not is_alive(second_pid))
    wait_until(lambda: place.directories() == [])


def test_a_closed_terminal_takes_the_sessions_with_it(place):
    # The owner dies of SIGHUP, sent to all of its process group: the guard is not among them.
    options = {"start_new_session": True}
    with start_owner(IN_MAIN_THREAD, command(), tmp=place.path, **options) as owner:
        wait_until(lambda: bool(place.escaped()))
        ((_, escaped),) = place.escaped().items()
        os.killpg(owner.pid, signal.SIGHUP)
    wait_until(lambda: not is_alive(escaped))
    wait_until(lambda: place.directories() == [])


SEVERAL = (
    RUN
    + """
for _ in sys.stdin:
    run_session()
    print("done", flush=True)
"""
)


def start_talker(program: str, command: str, *, tmp: Path) -> subprocess.Popen[str]:
    """Start an owner that goes on with every line it is given."""
    return subprocess.Popen(
        [sys.executable, "-c", program, command],
        env={**os.environ, "TMPDIR": str(tmp)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def tell(owner: subprocess.Popen[str]) -> None:
    assert owner.stdin is not None
    print("go", file=owner.stdin)


def tell_end(owner: subprocess.Popen[str]) -> None:
    assert owner.stdin is not None
    owner.stdin.close()


def hear(owner: subprocess.Popen[str]) -> str:
    assert owner.stdout is not None
    return owner.stdout.readline()


def test_a_guard_that_was_killed_is_replaced_with_the_next_session(place):
    with start_talker(SEVERAL, '["true"]', tmp=place.path) as owner:
        tell(owner)
        hear(owner)
        (guard,) = guards_of(owner.pid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(guard, number)  # none of which it dies of
        tell(owner)
        hear(owner)
        assert guards_of(owner.pid) == [guard]
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: not is_alive(guard))
        tell(owner)
        hear(owner)
        (other,) = guards_of(owner.pid)
        assert other != guard
        tell_end(owner)
    wait_until(lambda: not is_alive(other))


OPEN_AND_ONE_MORE = (
    RUN
    + """
with open_workspace() as kept:
    run_process(["touch", "escaped"], cwd=kept.directory, env={"PATH": os.environ["PATH"]}, timeout_seconds=300)
    print(kept.root, flush=True)
    sys.stdin.readline()
    run_session()
"""
)


def test_a_new_guard_knows_the_directories_that_were_open_before(place):
    with start_talker(OPEN_AND_ONE_MORE, '["sleep", "300"]', tmp=place.path) as owner:
        hear(owner)
        (guard,) = guards_of(owner.pid)
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: not is_alive(guard))
        tell(owner)
        wait_until(lambda: len(place.directories()) == 2)
        wait_until(lambda: bool(guards_of(owner.pid)))
        owner.kill()
    wait_until(lambda: place.directories() == [])


def test_a_directory_that_nobody_may_write_to_is_removed_as_well(place):
    lock = "import os; os.makedirs('a/b'); open('a/b/c', 'w'); os.chmod('a/b', 0); os.chmod('a', 0o555)\n"
    code = lock + "open('escaped', 'w').write('1'); import time; time.sleep(300)"
    with start_owner(IN_MAIN_THREAD, json.dumps([sys.executable, "-c", code]), tmp=place.path) as owner:
        wait_until(lambda: bool(list(place.path.glob("farm-*/workspace/escaped"))))
        owner.kill()
    wait_until(lambda: place.directories() == [])


def test_a_process_that_runs_no_session_has_no_guard():
    code = (
        "import farm.sessions.process, farm.sessions.workspace, farm.running, farm.cli.main, os, pathlib\n"
        "print(any(b'guard.main()' in (p / 'cmdline').read_bytes() for p in pathlib.Path('/proc').glob('[0-9]*')"
        " if (p / 'stat').exists() and (p / 'stat').read_text().rpartition(')')[2].split()[1] == str(os.getpid())))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_a_pipe_that_the_owner_inherited_is_not_kept_open_by_the_guard(place):
    # `farm … 3>pipe`: whoever reads that pipe waits until all who hold it are gone.
    then_close = "run_session()\nos.close(int(sys.argv[2]))\nimport time; time.sleep(300)"
    reader, writer = os.pipe()
    with start_owner(RUN + then_close, '["true"]', str(writer), tmp=place.path, pass_fds=(writer,)) as owner:
        os.close(writer)
        assert os.read(reader, 1) == b""
        owner.kill()
    os.close(reader)


AS_A_DAEMON = (
    RUN
    + """
import pathlib
from farm.sessions.guarding import start_guard
start_guard()
os.closerange(3, 256)  # as who makes a daemon of itself does
others = [os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(8)]
run_session()
assert all(os.fstat(other).st_size == 0 for other in others)
"""
)


def test_a_descriptor_that_has_become_another_files_is_neither_written_to_nor_closed(place, tmp_path):
    # Owners that close all descriptors lose the way to their guard; the next session gets another one.
    with start_owner(AS_A_DAEMON, '["true"]', str(tmp_path / "other"), tmp=place.path) as owner:
        assert owner.wait(60) == 0
    wait_until(lambda: place.directories() == [])
