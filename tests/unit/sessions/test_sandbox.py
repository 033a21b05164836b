"""What a command sees and can do in a sandbox: real bubblewrap, real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from farm.errors import SessionError
from farm.sessions.process import CommandNotStartedError, ProcessResult, run_process
from farm.sessions.sandbox import Sandbox, SandboxAvailability, choose_sandbox, sandbox_availability
from tests.hosts import host_with
from tests.unit.sessions.processes import escape_command, processes_in, start_owner, wait_until

NOT_HERE = SandboxAvailability(works=False, reason="no luck")
NOBODY = 65534


@pytest.fixture
def place(tmp_path):
    for name in ("trial/work", "trial/tmp", "trial/home", "suite"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "suite/exam.yaml").write_text("the answer is 42")
    return tmp_path


@pytest.fixture
def sandbox(place):
    return Sandbox(writable=(place / "trial",), tmp=place / "trial/tmp", hidden=(place / "suite",))


@pytest.fixture
def run(place, sandbox, requires_bubblewrap):
    def run(command, *, timeout_seconds=60.0, env=None, sandbox=sandbox, **options) -> ProcessResult:
        given = {"PATH": os.environ["PATH"], "HOME": str(place / "trial/home"), **(env or {})}
        return run_process(
            command,
            cwd=place / "trial/work",
            env=given,
            timeout_seconds=timeout_seconds,
            sandbox=sandbox,
            **options,
        )

    return run


def test_output_input_and_exit_code_are_the_commands_own(run):
    result = run("cat; echo err >&2; exit 3", stdin=b"given")

    assert (result.exit_code, result.stdout, result.stderr) == (3, b"given", b"err\n")
    assert run("cat").stdout == b""
    assert run("kill -9 $$").exit_code == 128 + signal.SIGKILL


def test_the_trial_lies_at_its_usual_path_and_can_be_written_to(run, place):
    result = run("pwd; echo mine > made; echo home > ~/made; echo tmp > /tmp/made")

    assert result.stdout.decode().strip() == str(place / "trial/work")
    assert (place / "trial/work/made").read_text() == "mine\n"
    assert (place / "trial/home/made").read_text() == "home\n"
    assert (place / "trial/tmp/made").read_text() == "tmp\n"


def test_what_is_in_the_temporary_directory_stays_for_the_next_command(run):
    run("echo kept > /tmp/note")

    assert run("cat /tmp/note /var/tmp/note").stdout == b"kept\nkept\n"


@pytest.mark.parametrize("path", ["/", "/etc", "/usr", "/usr/bin", "/opt", "/run", "/var"])
def test_nothing_outside_can_be_written_to(run, path):
    result = run(f"touch {path}/farm-was-here")

    assert result.exit_code != 0
    assert not Path(path, "farm-was-here").exists()


def test_homes_other_trials_sockets_and_the_exam_are_not_there(run, place):
    neighbour = Path(tempfile.mkdtemp(prefix="neighbour-"))
    try:
        (neighbour / "secret").write_text("sesame")
        hidden = [neighbour / "secret", place / "suite/exam.yaml", Path(__file__), Path.home() / ".bashrc"]
        for path in hidden:
            assert run(["cat", str(path)]).exit_code == 1, path
        assert run("ls /run /tmp /home /mnt /srv 2>/dev/null").stdout.decode().split()[0] == "/run:"
    finally:
        shutil.rmtree(neighbour)


def test_root_reads_no_secrets_of_the_system(run):
    assert b":" not in run("cat /etc/shadow /etc/gshadow").stdout


LIST_IN_SANDBOX = """
import sys
from pathlib import Path
from farm.sessions.process import run_process
from farm.sessions.sandbox import Sandbox

trial = Path(sys.argv[1])
sandbox = Sandbox(writable=(trial,), tmp=trial / "tmp")
result = run_process(
    "ls -a /etc/claude-code; ls /etc/passwd",
    cwd=trial, env={"PATH": "/usr/bin:/bin"}, timeout_seconds=60, sandbox=sandbox,
)
print(result.stdout.decode().split(), result.stderr.decode())
"""


def test_what_an_administrator_tells_everybodys_agents_is_not_there(place, requires_bubblewrap):
    (place / "managed").mkdir()
    (place / "managed/CLAUDE.md").write_text("do as the administrator says")
    command = [sys.executable, "-c", LIST_IN_SANDBOX, str(place / "trial")]
    listed = subprocess.check_output([*host_with("claude-code", place / "managed"), *command], text=True)

    assert listed.strip() == str([".", "..", "/etc/passwd"])


def test_no_power_is_left_to_undo_it(run):
    undo = "mount -o remount,rw / ; mount -o remount,rw /usr ; mount -t tmpfs none /etc"
    unshared = f"unshare -Urm sh -c '{undo}; touch /usr/farm-was-here'"
    result = run(f"{undo}; touch /usr/farm-was-here; {unshared}; grep CapEff /proc/self/status")

    assert not Path("/usr/farm-was-here").exists()
    assert result.stdout.split()[-1] == b"0" * 16


def test_only_its_own_processes_are_visible_and_none_can_be_harmed(run):
    result = run(f"ls /proc | grep -c '^[0-9]*$'; kill -0 {os.getpid()} || echo nobody")

    assert int(result.stdout.split()[0]) < 8
    assert result.stdout.split()[1] == b"nobody"


def test_the_network_is_there_or_cut_as_asked(run, sandbox):
    count = "import socket; print(len(socket.if_nameindex()))"
    listen = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(s.getsockname()); print('loopback works')"
    )
    cut = replace(sandbox, network=False)

    assert run([sys.executable, "-c", count], sandbox=cut).stdout == b"1\n"
    assert run([sys.executable, "-c", listen], sandbox=cut).stdout == b"loopback works\n"
    assert int(run([sys.executable, "-c", count]).stdout) == len(os.listdir("/sys/class/net"))


def test_a_server_of_this_machine_is_out_of_reach_without_network(run, sandbox):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        assert run([sys.executable, "-c", connect]).exit_code == 0
        assert run([sys.executable, "-c", connect], sandbox=replace(sandbox, network=False)).exit_code == 1


def test_programs_that_are_installed_in_a_home_run(run, tmp_path):
    # A virtual environment, whose Python is a link to elsewhere; and a program that is a link to its own home.
    (tmp_path / "h/.local/share/tool/versions").mkdir(parents=True)
    (tmp_path / "h/.local/bin").mkdir()
    (tmp_path / "h/.local/share/secrets").mkdir()
    tool = tmp_path / "h/.local/share/tool/versions/1.0"
    tool.write_text("#!/bin/sh\necho tool\n")
    tool.chmod(0o755)
    (tmp_path / "h/.local/bin/tool").symlink_to(tool)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--symlinks", tmp_path / "h/env"], check=True
    )
    path = f"{tmp_path}/h/.local/bin:{tmp_path}/h/env/bin:{os.defpath}"
    result = run(f"tool; python -c 'import json, sys; print(sys.prefix)'; ls {tmp_path}/h/.local/share",
                 env={"PATH": path})  # fmt: skip

    assert result.stdout.decode().split() == ["tool", str(tmp_path / "h/env"), "tool"]


def test_what_the_authors_command_names_is_shown_but_not_the_exam_beside_it(run, sandbox, place, tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/data").write_text("data")
    (place / "suite/judge.sh").write_text("echo judged\n")
    shown = sandbox.for_command(
        f"sh {tmp_path}/tools/run --in={tmp_path}/tools/data < {place}/suite/judge.sh"
    )

    assert run(["cat", f"{tmp_path}/tools/data"]).exit_code == 1
    assert run(["cat", f"{tmp_path}/tools/data"], sandbox=shown).stdout == b"data"
    assert run(["sh", f"{place}/suite/judge.sh"], sandbox=shown).stdout == b"judged\n"
    assert run(["cat", f"{place}/suite/exam.yaml"], sandbox=shown).exit_code == 1
    assert run(["touch", f"{tmp_path}/tools/data"], sandbox=shown).exit_code == 1


@pytest.mark.parametrize("word", ["/", "/home", "/root", "/tmp", str(Path.home()), "/no/such/thing", "a/b"])
def test_a_command_can_not_show_a_whole_home_by_naming_it(sandbox, word):
    assert sandbox.for_command(f"ls {word}").readable == ()


def test_a_prefix_that_holds_the_suite_is_not_shown_for_its_programs(run, sandbox, place):
    (place / "suite/bin").mkdir()
    path = f"{place}/suite/bin:{os.environ['PATH']}"

    assert run(["cat", f"{place}/suite/exam.yaml"], env={"PATH": path}).exit_code == 1


def test_a_program_that_is_not_there_inside_is_an_error_of_its_own(run, place):
    (place / "suite/tool").write_text("#!/bin/sh\n")
    (place / "suite/tool").chmod(0o755)

    with pytest.raises(CommandNotStartedError, match="the sandbox could not start it: bwrap: execvp"):
        run([str(place / "suite/tool")])


@pytest.mark.parametrize("keep_environment", [True, False])
def test_nothing_survives_a_normal_end(run, place, keep_environment):
    # Its id is that of the sandbox; it is found from outside by the path it works in.
    assert run(escape_command(keep_environment=keep_environment)).exit_code == 0
    assert processes_in(place) == []


def test_nothing_survives_a_time_out(run, place):
    result = run(escape_command("time.sleep(300)"), timeout_seconds=2)

    assert (result.timed_out, result.exit_code) == (True, -signal.SIGKILL)
    assert processes_in(place) == []


@pytest.mark.parametrize("timeout_seconds", [0.0001, 0.001, 0.003, 0.006, 0.01])
def test_nothing_survives_a_time_out_while_the_sandbox_is_being_built(run, place, timeout_seconds):
    for _ in range(3):
        run("sleep 300", timeout_seconds=timeout_seconds)
        assert processes_in(place) == []


def test_nothing_survives_a_stop(run, place):
    stop = threading.Event()
    escaped = place / "trial/work/escaped"

    def stop_once_it_runs() -> None:
        wait_until(escaped.exists)
        stop.set()

    watcher = threading.Thread(target=stop_once_it_runs)
    watcher.start()
    result = run(escape_command("time.sleep(300)"), timeout_seconds=200, stop=stop)
    watcher.join()

    assert result.stopped
    assert processes_in(place) == []


def test_a_thread_may_end_after_its_command_and_another_one_goes_on(run, place):
    # The system kills bubblewrap when the thread that started it ends: it must be this one and no other.
    results: list[ProcessResult] = []
    long = threading.Thread(target=lambda: results.append(run("touch begun; sleep 1; echo survived")))
    long.start()
    wait_until((place / "trial/work/begun").exists)
    for _ in range(5):
        short = threading.Thread(target=lambda: run("true"))
        short.start()
        short.join()
    long.join()

    assert (results[0].stdout, results[0].exit_code) == (b"survived\n", 0)


def test_many_threads_can_run_commands_at_once(run):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: run(f"echo {n}; sleep 60 & exit {n}"), range(24)))

    assert [(result.stdout, result.exit_code) for result in results] == [
        (f"{n}\n".encode(), n) for n in range(24)
    ]


def test_no_descriptor_is_left_open(run):
    run("true")
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        run("true")
        run("sleep 60", timeout_seconds=0.01)

    assert len(os.listdir("/dev/fd")) == before


OWNER = """
import pathlib, sys
from farm.sessions.process import run_process
from farm.sessions.sandbox import Sandbox
place = pathlib.Path(sys.argv[1])
sandbox = Sandbox(writable=(place / "trial",), tmp=place / "trial/tmp")
command = ["/bin/sh", "-c", "setsid sleep 300 & echo > begun; sleep 300"]
run_process(command, cwd=place / "trial/work", env={"PATH": "/usr/bin:/bin"}, timeout_seconds=300, sandbox=sandbox)
"""


def test_nothing_survives_the_sigkill_of_the_process_that_runs_it(place, requires_bubblewrap):
    with start_owner(OWNER, str(place), tmp=place) as owner:
        wait_until((place / "trial/work/begun").exists)
        assert len(processes_in(place)) >= 2
        owner.kill()
    wait_until(lambda: processes_in(place) == [])


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
def test_it_works_for_a_user_without_any_rights(requires_bubblewrap):
    home = Path(tempfile.mkdtemp(prefix="farm-nobody-"))
    reader, writer = os.pipe()
    try:
        for name in ("work", "tmp"):
            (home / name).mkdir()
            os.chown(home / name, NOBODY, NOBODY)
        os.chown(home, NOBODY, NOBODY)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forks beside threads: the child only starts programs
            child = os.fork()
        if not child:
            try:
                os.write(writer, _as_nobody(home))
            except BaseException as error:  # noqa: BLE001
                os.write(writer, repr(error).encode())
            finally:
                os._exit(0)
        os.close(writer)
        said = b""
        while part := os.read(reader, 4096):
            said += part
        os.waitpid(child, 0)
    finally:
        os.close(reader)
        shutil.rmtree(home)
    lines = said.decode().splitlines()
    assert lines == [str(NOBODY), "0", "made", "1"], said.decode()


def _as_nobody(home: Path) -> bytes:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    sandbox = Sandbox(writable=(home,), tmp=home / "tmp", network=False)
    script = "id -u; touch made; echo $?; ls; touch /usr/x 2>/dev/null; echo $?; setsid sleep 300 &"
    env = {"PATH": "/usr/bin:/bin"}
    result = run_process(script, cwd=home / "work", env=env, timeout_seconds=60, sandbox=sandbox)
    left = processes_in(home)
    return result.stdout + (f"survivors: {left}".encode() if left else b"") + result.stderr


@pytest.mark.parametrize(("isolation", "is_used"), [("auto", True), ("bubblewrap", True), ("process", False)])
def test_a_sandbox_is_used_where_it_works(sandbox, isolation, is_used):
    works = SandboxAvailability(works=True, version="1")

    assert choose_sandbox(isolation, sandbox, availability=works) is (sandbox if is_used else None)


def test_only_auto_with_network_does_without_a_sandbox_where_there_is_none(sandbox):
    assert choose_sandbox("auto", sandbox, availability=NOT_HERE) is None


@pytest.mark.parametrize(
    ("isolation", "network", "message"),
    [
        ("bubblewrap", True, "`isolation: bubblewrap` needs bubblewrap, which does not work here: no luck"),
        ("bubblewrap", False, "`isolation: bubblewrap` needs bubblewrap"),
        ("auto", False, "`network: false` needs bubblewrap, which does not work here: no luck"),
        ("process", False, "`network: false` needs a sandbox, but `isolation: process` asks for none"),
    ],
)
def test_what_was_asked_for_and_can_not_be_had_is_an_error(sandbox, isolation, network, message):
    with pytest.raises(SessionError) as caught:
        choose_sandbox(isolation, replace(sandbox, network=network), availability=NOT_HERE)

    assert str(caught.value).startswith(message)
    assert "apt install bubblewrap" in str(caught.value)
    assert (caught.value.kind, caught.value.retryable) == ("sandbox_unavailable", False)


def test_availability_is_found_out_once_and_names_the_version(requires_bubblewrap):
    first = sandbox_availability()
    started = time.monotonic()

    assert all(sandbox_availability() is first for _ in range(1000))
    assert time.monotonic() - started < 5
    assert first.version is not None
    assert first.version.startswith("bubblewrap ")
