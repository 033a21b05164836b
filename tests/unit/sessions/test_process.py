import gc
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from farm.errors import SessionError
from farm.sessions import process_table
from farm.sessions.process import CommandNotStartedError, ProcessResult, run_process
from farm.sessions.process_table import MARKER
from tests.unit.sessions.processes import escape_command, is_alive, linux_only, wait_until


@pytest.fixture
def run(tmp_path):
    def run(command, *, timeout_seconds=10.0, env=None, **options) -> ProcessResult:
        given = {"PATH": os.environ["PATH"], **(env or {})}
        return run_process(command, cwd=tmp_path, env=given, timeout_seconds=timeout_seconds, **options)

    return run


def escaped_pid(directory: Path) -> int:
    return int((directory / "escaped").read_text())


def test_output_exit_code_and_duration_come_back(run):
    result = run("echo out; echo err >&2; exit 3")

    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
    assert not result.timed_out
    assert not result.truncated
    assert result.duration_ms > 0


def test_a_list_is_run_without_the_shell(run):
    assert run(["printf", "%s", "$HOME *"]).stdout == b"$HOME *"


def test_a_program_beside_the_working_directory_is_found(run, tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "tool").chmod(0o755)

    assert run(["./tool"]).stdout == b"mine\n"


def test_standard_input_is_what_was_given_and_nothing_else(run):
    assert run("cat", stdin=b"\x00line\nlast").stdout == b"\x00line\nlast"


def test_standard_input_is_empty_by_default(run):
    assert run("cat; readlink /proc/self/fd/0").stdout in (b"/dev/null\n", b"")


def test_a_large_input_that_nobody_reads_does_not_block(run):
    assert run("exit 0", stdin=b"x" * 5_000_000).exit_code == 0


def test_binary_output_comes_back_unchanged(run):
    assert run("printf '\\000\\377\\n\\r\\n'").stdout == b"\x00\xff\n\r\n"


def test_twenty_megabytes_on_both_streams_do_not_deadlock(run):
    each = 20_000_000
    result = run(
        f"head -c {each} /dev/zero & head -c {each} /dev/zero >&2; wait", output_limit_bytes=30_000_000
    )

    assert (len(result.stdout), len(result.stderr)) == (each, each)
    assert not result.truncated


def test_output_beyond_the_limit_is_drained_and_its_head_kept(run):
    result = run("echo head; head -c 3000000 /dev/zero; echo end >&2", output_limit_bytes=1000)

    assert result.stdout.startswith(b"head\n")
    assert len(result.stdout) == 1000
    assert result.stderr == b"end\n"
    assert result.truncated
    assert result.exit_code == 0


@linux_only
def test_what_is_still_in_the_pipe_when_the_command_ends_is_collected(run):
    code = (
        "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 2**20); os.write(1, bytes(2**20)); os._exit(0)"
    )

    assert len(run([sys.executable, "-I", "-S", "-c", code]).stdout) == 2**20


def test_output_of_exactly_the_limit_is_not_truncated(run):
    assert not run("head -c 1000 /dev/zero", output_limit_bytes=1000).truncated


def test_a_command_that_closes_its_output_is_waited_for(run, tmp_path):
    result = run("exec >&- 2>&-; sleep 0.2; echo done > later")

    assert (tmp_path / "later").read_text() == "done\n"
    assert result.duration_ms >= 200


def test_a_command_is_stopped_when_its_time_is_up_and_its_output_kept(run):
    result = run("echo begun; sleep 60", timeout_seconds=3)

    assert result.timed_out
    assert result.exit_code == -signal.SIGKILL
    assert result.stdout == b"begun\n"
    assert result.duration_ms < 50_000


def set_when_exists(path: Path, stop: threading.Event) -> threading.Thread:
    def wait() -> None:
        for _ in range(10_000):
            if path.exists():
                break
            time.sleep(0.01)
        stop.set()

    watcher = threading.Thread(target=wait)
    watcher.start()
    return watcher


@linux_only
def test_a_command_and_all_that_it_started_is_killed_when_somebody_asks_for_it(run, tmp_path):
    stop = threading.Event()
    watcher = set_when_exists(tmp_path / "escaped", stop)
    result = run(
        escape_command("print('begun', flush=True); time.sleep(300)"), timeout_seconds=200, stop=stop
    )
    watcher.join()

    assert (result.stopped, result.timed_out) == (True, False)
    assert result.exit_code == -signal.SIGKILL
    assert result.duration_ms < 100_000
    assert not is_alive(escaped_pid(tmp_path))


def test_a_command_is_not_begun_when_it_was_stopped_before(run, tmp_path):
    stop = threading.Event()
    stop.set()

    assert run("echo > begun", stop=stop).stopped
    assert not (tmp_path / "begun").exists()


def test_a_command_that_nobody_stops_runs_to_its_end(run):
    result = run("sleep 0.5; echo done", stop=threading.Event())

    assert (result.stopped, result.stdout) == (False, b"done\n")


def test_a_background_child_that_holds_the_output_open_is_not_waited_for(run):
    result = run("sleep 60 & echo $!")

    assert result.duration_ms < 50_000
    assert not is_alive(int(result.stdout))


def test_a_background_child_that_never_stops_writing_is_not_waited_for(run):
    result = run("yes & sleep 0.1; echo done >&2", output_limit_bytes=1000)

    assert result.stderr == b"done\n"
    assert result.duration_ms < 50_000


@linux_only
@pytest.mark.parametrize("keep_environment", [True, False])
def test_a_grandchild_that_left_its_session_is_gone_after_a_normal_end(run, tmp_path, keep_environment):
    result = run(escape_command(keep_environment=keep_environment))

    assert result.exit_code == 0
    assert not is_alive(escaped_pid(tmp_path))


@linux_only
@pytest.mark.parametrize("keep_environment", [True, False])
def test_a_grandchild_that_left_its_session_is_gone_after_a_timeout(run, tmp_path, keep_environment):
    result = run(escape_command("time.sleep(60)", keep_environment=keep_environment), timeout_seconds=1)

    assert result.timed_out
    assert not is_alive(escaped_pid(tmp_path))


@linux_only
def test_a_grandchild_is_gone_when_this_thread_is_interrupted(run, tmp_path, monkeypatch):
    def pump_until_exit(pipes, _deadline, _stop):
        os.write(pipes._stdin.fileno(), b"\n")
        while not (tmp_path / "escaped").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr("farm.sessions.process._Pipes.pump_until_exit", pump_until_exit)

    with pytest.raises(KeyboardInterrupt):
        run(escape_command("time.sleep(60)"))
    assert not is_alive(escaped_pid(tmp_path))


@linux_only
def test_processes_that_keep_forking_are_gone_in_the_end(run, tmp_path):
    # Each passes itself on to a new process with a new session every few milliseconds.
    (tmp_path / "runner.sh").write_text("echo $$ >> pids; sleep 0.005; setsid sh runner.sh &\n")
    run("for i in 1 2 3; do setsid sh runner.sh & done; sleep 0.3")
    seen = (tmp_path / "pids").read_text().split()
    time.sleep(0.1)

    assert len(seen) > 3
    assert (tmp_path / "pids").read_text().split() == seen


@linux_only
def test_what_a_sealed_command_starts_can_not_write_to_its_output_but_by_being_given_it(run):
    forge = "echo forged > /proc/$PPID/fd/1; echo forged > /proc/$PPID/fd/2"
    script = (
        f"sh -c '{forge}' > /dev/null 2> refused; sh -c 'echo given'; head -c 500000 /dev/zero; echo loud >&2"
    )
    result = run(script, sealed=True)
    assert result.stdout == b"given\n" + b"\0" * 500_000
    assert result.stderr == b"loud\n"


@linux_only
def test_other_commands_are_left_alone(run, tmp_path):
    results: list[ProcessResult] = []
    other = threading.Thread(target=lambda: results.append(run("touch begun; sleep 1; echo survived")))
    other.start()
    wait_until((tmp_path / "begun").exists)
    run("sleep 60 & exit 0")
    other.join()

    assert results[0].stdout == b"survived\n"
    assert results[0].exit_code == 0


@linux_only
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_command_that_can_not_be_killed_is_told_and_not_waited_for(run, tmp_path, monkeypatch):
    monkeypatch.setattr(process_table, "kill", lambda _processes: None)
    monkeypatch.setattr(process_table, "GIVE_UP_AFTER_SECONDS", 0.1)
    with pytest.raises(SessionError) as error:
        run("echo $$ > pid.part; mv pid.part pid; exec sleep 300", timeout_seconds=0.5)
    pid = int((tmp_path / "pid").read_text())
    assert (error.value.kind, error.value.retryable) == ("processes_survived", False)
    assert str(error.value) == f"processes that can't be killed: {pid}"
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)
    del error
    gc.collect()  # of the process, which warns now that nobody waited for it


def test_many_threads_can_run_commands_at_once(run):
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda n: run(f"echo {n}; sleep 0.05 & exit {n}"), range(48)))

    assert [(result.stdout, result.exit_code) for result in results] == [
        (f"{n}\n".encode(), n) for n in range(48)
    ]


def test_no_descriptor_is_left_open(run):
    run("true")
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        run("true")
        run("sleep 60", timeout_seconds=0.01)

    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("command", [["no-such-program"], ["./missing"], ["/"], [], ["a\0b"], [""]])
def test_a_command_that_does_not_exist_is_an_error_of_its_own(run, command):
    with pytest.raises(CommandNotStartedError, match="can't start"):
        run(command)


def test_a_missing_working_directory_is_an_error_of_its_own(tmp_path):
    with pytest.raises(CommandNotStartedError, match="no such directory"):
        run_process("true", cwd=tmp_path / "gone", env={}, timeout_seconds=1)


def test_nothing_of_our_environment_is_passed_on(run, monkeypatch):
    monkeypatch.setenv("FARM_BROKER_URL", "redis://secret")
    names = {line.split(b"=")[0] for line in run("env").stdout.splitlines()}

    assert names <= {b"PATH", b"PWD", b"SHLVL", b"_", b"OLDPWD", MARKER.encode()}


@pytest.mark.parametrize("timeout_seconds", [1e7, 1e300])
def test_a_time_out_may_be_as_long_as_its_author_likes(tmp_path, timeout_seconds):
    env = {"PATH": os.defpath}
    assert run_process("true", cwd=tmp_path, env=env, timeout_seconds=timeout_seconds).exit_code == 0


def test_lines_are_told_as_they_come_and_not_only_at_the_end(run, tmp_path):
    told: list[bytes] = []

    def go_on(line: bytes) -> None:
        told.append(line)
        (tmp_path / "go-on").touch()

    waits = "until [ -e go-on ]; do sleep 0.01; done"
    result = run(f"echo one; {waits}; printf 'two\\n\\nthree\\nrest'", on_line=go_on)

    assert told == [b"one", b"two", b"", b"three"]
    assert result.stdout == b"one\ntwo\n\nthree\nrest"


def test_long_lines_are_told_whole_and_only_what_is_kept_is_told(run):
    told: list[bytes] = []
    line = "head -c 300000 /dev/zero | tr '\\0' x; echo"
    result = run(f"{line}; echo >&2 no; {line}; {line}", on_line=told.append, output_limit_bytes=700_000)

    assert [len(line) for line in told] == [300_000, 300_000]
    assert result.truncated


def test_what_a_listener_raises_ends_the_command(run, tmp_path):
    def refuse(line: bytes) -> None:
        raise ValueError(line.decode())

    with pytest.raises(ValueError, match=r"^\d+$") as error:
        run("echo $$; exec sleep 300", on_line=refuse)
    assert not is_alive(int(str(error.value)))
