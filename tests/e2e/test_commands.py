"""The commands on runs, in real processes: on a run of a directory, and on a fleet with a real worker."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import redis

from farm.queue.broker import Broker
from farm.queue.server import private_server
from tests.e2e.terminal import PATIENCE_SECONDS, Terminal, until

RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


@dataclass(frozen=True)
class Site:
    """A project, and where its runs are carried out."""

    directory: Path
    env: Mapping[str, str]
    mark: str  # in the command line of every process that a session starts
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def has_fleet(self) -> bool:
        return "FARM_BROKER_URL" in self.env

    @property
    def gate(self) -> Path:
        """A file that sessions wait for."""
        return self.directory.parent / f"gate-{self.mark}"

    def farm(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "farm", *arguments],
            cwd=self.directory,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command, and go on."""
        process = subprocess.Popen(
            [sys.executable, "-m", "farm", *arguments],
            cwd=self.directory,
            env=dict(self.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.started.append(process)
        return process

    def begin(self, *paths: str) -> tuple[str, subprocess.Popen[str] | None]:
        """Begin a run; without a fleet, a process carries it out."""
        if self.has_fleet:
            return self.farm("submit", *paths).stdout.strip(), None
        process = self.start("run", *paths)
        until(self.runs, "a run")
        (run_id,) = self.runs()
        return run_id, process

    def runs(self) -> list[str]:
        return [path.parent.parent.name for path in self.directory.glob(".farm/runs/*/ledger/socket")]

    def status(self, run_id: str) -> dict[str, object]:
        done = self.farm("status", run_id, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {"state": "unknown", "sessions": []}

    def await_session(self, run_id: str, case_id: str) -> None:
        """Wait until a case's session is running."""
        until(lambda: case_id in str(self.status(run_id)["sessions"]), f"a session of {case_id}")

    def processes(self) -> str:
        """Name what sessions have left running."""
        table = subprocess.run(["ps", "axww", "-o", "pid,args"], capture_output=True, text=True).stdout
        return "\n".join(line for line in table.splitlines() if self.mark in line)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Site]:
    """A project whose runs are carried out by the command that submits them."""
    # Short: a server's socket is in it. Nothing but the cache may be left there in the end.
    scratch = Path(tempfile.mkdtemp(prefix="farm-t-", dir="/tmp"))
    mark = uuid.uuid4().hex
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FARM_", "GIT_"))}
    own.pop("FORCE_COLOR", None)
    project = tmp_path / "project"
    project.mkdir()
    site = Site(project, {**own, "TMPDIR": str(scratch), "PYTHONIOENCODING": "utf-8"}, mark)
    (project / "farm.yaml").write_text("name: demo\nisolation: process\nretries: 0\n")
    write(site, "good", "[{say: hello}]")
    write(site, "bad", "[{say: 'go away'}]")
    # Two sessions that wait; the second one's process leaves its group.
    wait = f"until test -e {site.gate}; do sleep 0.05; done # {mark}"
    write(
        site,
        "waits",
        f"[{{tool: Bash, input: {{command: 'echo begun'}}}}, {{tool: Bash, input: {{command: '{wait}'}}}}, {{say: hello}}]",
    )
    write(
        site, "hides", f"[{{tool: Bash, input: {{command: 'setsid -w sh -c \"{wait}\"'}}}}, {{say: hello}}]"
    )
    yield site
    for process in site.started:
        process.kill()
        process.communicate()
    until(lambda: not site.processes(), "the end of all sessions")

    def left() -> list[str]:
        return [path.name for path in scratch.iterdir() if not path.name.startswith("farm-cache-")]

    # What was killed is cleaned up by others, in their own time.
    until(lambda: not left(), "the end of all servers, and of all directories")
    shutil.rmtree(scratch)


@pytest.fixture
def fleet(directory: Site) -> Iterator[Site]:
    """The same project on a server of its own, with a real worker."""
    with private_server() as server:
        site = replace(directory, env={**directory.env, "FARM_BROKER_URL": server.broker_url})
        with worker(site):
            yield site


@pytest.fixture(params=["directory", pytest.param("fleet", marks=pytest.mark.long)])
def site(request: pytest.FixtureRequest) -> Site:
    """Both, one after the other; on a fleet only where there is time for it."""
    found: Site = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["directory", "fleet"])
def each_site(request: pytest.FixtureRequest) -> Site:
    """Both, one after the other."""
    found: Site = request.getfixturevalue(request.param)
    return found


class worker:  # noqa: N801 — used like a function
    """A real worker, ended by its process id."""

    def __init__(self, site: Site, *arguments: str) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "farm", "worker", "--concurrency", "4", "--grace", "0", *arguments],
            cwd=site.directory,
            env=dict(site.env),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def __enter__(self) -> worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self._log.close()


def write(
    site: Site, name: str, script: str, evaluators: str = "[{type: contains, value: hello}]", more: str = ""
) -> None:
    text = f"name: {name}\nprompt: Say hello\nscript: {script}\nassertions: {evaluators}\n{more}"
    (site.directory / f"{name}.yaml").write_text(text)


def finish(process: subprocess.Popen[str] | None) -> tuple[int | None, str, str]:
    """Wait for a command that was started."""
    if process is None:
        return None, "", ""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


def report_of(site: Site, run_id: str) -> dict[str, object]:
    report: dict[str, object] = json.loads(site.farm("report", run_id, "--format", "json").stdout)
    return report


def outcomes(report: dict[str, object]) -> dict[str, str]:
    return {case["id"]: case["outcome"] for case in report["cases"]}  # type: ignore[attr-defined]


# status


def test_status_tells_how_a_run_stands_while_it_goes_on(site):
    run_id, process = site.begin("good.yaml", "bad.yaml", "waits.yaml")
    until(lambda: site.status(run_id).get("done") == 2, "two results")
    until(lambda: "echo begun" in str(site.status(run_id)["sessions"]), "the last tool call")
    facts = site.status(run_id)
    assert (facts["state"], facts["total"]) == ("running", 3)
    assert facts["outcomes"] == {"passed": 1, "failed": 1}
    assert [session["case_id"] for session in facts["sessions"]] == ["waits"]
    assert [worker["concurrency"] for worker in facts["workers"]] == [4]
    shown = site.farm("status", run_id).stdout
    assert f"run {run_id} of demo: running" in shown
    assert "trials: 2/3 done; 1 passed, 1 failed; 1 running" in shown
    assert "Bash(command='echo begun')" in shown
    assert f"`farm cancel {run_id}` ends it" in shown
    assert run_id in site.farm("status").stdout
    site.gate.touch()
    finish(process)
    until(lambda: site.status(run_id)["state"] == "complete", "the end")
    shown = site.farm("status").stdout
    assert re.search(rf"{run_id}  complete .* demo  2 passed, 1 failed\n", shown)
    (row,) = json.loads(site.farm("status", "--json").stdout)
    assert (row["run_id"], row["state"], row["cases"]["passed"]) == (run_id, "complete", 2)
    assert f"`farm retry {run_id} --failed` tries again" in site.farm("status", run_id).stdout


def test_status_without_runs_says_so(site):
    done = site.farm("status")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no runs " in done.stderr
    assert json.loads(site.farm("status", "--json").stdout) == []


def test_status_names_what_no_worker_serves(directory):
    with private_server() as server:
        site = replace(directory, env={**directory.env, "FARM_BROKER_URL": server.broker_url})
        run_id = site.farm("submit", "good.yaml").stdout.strip()
        shown = site.farm("status", run_id).stdout
        assert "no living worker serves scripted: `farm worker --agents scripted`" in shown
        # Nobody is there to end it: the command does so itself.
        done = site.farm("cancel", run_id)
        assert (done.returncode, done.stderr) == (0, "")
        assert outcomes(report_of(site, run_id)) == {"good": "cancelled"}


# watch


def test_watch_follows_a_run_of_another_command_to_its_end(site):
    run_id, process = site.begin("bad.yaml", "waits.yaml")
    site.await_session(run_id, "waits")
    watching = site.start("watch", run_id)
    site.gate.touch()
    code, out, err = finish(watching)
    assert code == 1, err
    assert "✗ bad\n" in out
    assert "✓ waits\n" in out
    assert "Results: 1/2 passed, 1 failed\n" in out
    finish(process)


def test_ctrl_c_ends_the_watching_and_not_the_run(site):
    run_id, process = site.begin("good.yaml", "waits.yaml")
    site.await_session(run_id, "waits")
    terminal = Terminal("watch", run_id, cwd=site.directory, env=site.env)
    try:
        terminal.await_text("✓ good")
        terminal.press_ctrl_c()
        assert terminal.await_end() == 130
        assert (
            f"no longer watching; the run goes on, and `farm watch {run_id}` follows it"
            in terminal.plain_text
        )
    finally:
        terminal.close()
    assert site.status(run_id)["state"] == "running"
    site.gate.touch()
    finish(process)
    assert site.farm("watch", run_id).returncode == 0


# cancel, resume


def test_a_run_is_cancelled_by_another_command_and_resumed(each_site):
    run_id, process = each_site.begin("good.yaml", "waits.yaml", "hides.yaml")
    until(lambda: each_site.status(run_id).get("done") == 1, "a result")
    each_site.await_session(run_id, "waits")
    each_site.await_session(run_id, "hides")
    done = each_site.farm("cancel", run_id)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        f"cancelled with 1 of 3 trials done; `farm resume {run_id}` carries out the rest\n"
    )
    code, out, _ = finish(process)
    assert code in (3, None)
    assert (process is None) or "Results: 1/3 passed, 2 cancelled" in out
    assert each_site.processes() == ""
    assert outcomes(report_of(each_site, run_id)) == {
        "good": "passed",
        "hides": "cancelled",
        "waits": "cancelled",
    }
    assert f"run {run_id} is over already: cancelled" in each_site.farm("cancel", run_id).stdout
    each_site.gate.touch()
    done = each_site.farm("resume", run_id, "--wait")
    assert done.returncode == 0, done.stderr
    assert f"2 trials of run {run_id} left to be carried out" in done.stderr
    assert "Results: 3/3 passed" in done.stdout
    again = each_site.farm("resume", run_id)
    assert (again.returncode, again.stdout) == (0, f"nothing is left to do in run {run_id}\n")


def test_resume_on_a_fleet_queues_and_leaves(fleet):
    run_id, _ = fleet.begin("waits.yaml")
    fleet.await_session(run_id, "waits")
    assert fleet.farm("cancel", run_id).returncode == 0
    fleet.gate.touch()
    assert json.loads(fleet.farm("resume", run_id, "--json").stdout) == {"run_id": run_id, "trials": 1}
    assert fleet.farm("watch", run_id).returncode == 0


def test_ctrl_c_cancels_in_order_and_the_rest_can_be_resumed(directory):
    terminal = Terminal(
        "run", "good.yaml", "waits.yaml", "hides.yaml", cwd=directory.directory, env=directory.env
    )
    try:
        terminal.await_text("✓ good")
        terminal.await_text("hides")
        terminal.await_text("echo begun")
        terminal.press_ctrl_c()
        assert terminal.await_end() == 130
        assert directory.processes() == ""
        assert "cancelling: running sessions are being ended; once more leaves at once" in terminal.plain_text
        assert "Results: 1/3 passed, 2 cancelled" in terminal.plain_text
        (run_id,) = directory.runs()
        assert f"cancelled; `farm resume {run_id}` carries out the rest" in terminal.plain_text
    finally:
        terminal.close()
    assert outcomes(report_of(directory, run_id))["good"] == "passed"
    directory.gate.touch()
    done = directory.farm("resume", run_id)
    assert (done.returncode, "Results: 3/3 passed" in done.stdout) == (0, True), done.stderr


def test_ctrl_c_twice_leaves_at_once_with_nothing_left_running(directory):
    terminal = Terminal(
        "run", "good.yaml", "waits.yaml", "hides.yaml", cwd=directory.directory, env=directory.env
    )
    try:
        terminal.await_text("✓ good")
        terminal.await_text("hides")
        # Both reach it as one: nothing can be ended in order between them.
        terminal.press_ctrl_c()
        terminal.press_ctrl_c()
        assert terminal.await_end() == 130
        (run_id,) = directory.runs()
        assert f"`farm resume {run_id}` carries out the rest" in terminal.plain_text
        assert "Traceback" not in terminal.plain_text
    finally:
        terminal.close()
    until(lambda: not directory.processes(), "the end of all sessions")
    directory.gate.touch()
    done = directory.farm("resume", run_id)
    assert (done.returncode, "Results: 3/3 passed" in done.stdout) == (0, True), done.stderr


def test_a_run_whose_command_was_killed_is_resumed(directory):
    run_id, process = directory.begin("good.yaml", "bad.yaml", "waits.yaml", "hides.yaml")
    assert process is not None
    until(lambda: directory.status(run_id).get("done") == 2, "two results")
    directory.await_session(run_id, "hides")
    process.kill()
    finish(process)
    until(lambda: not directory.processes(), "the end of all sessions")
    assert re.search(rf"{run_id}  interrupted .* demo  2/4 trials\n", directory.farm("status").stdout)
    assert f"`farm resume {run_id}` carries out the rest" in directory.farm("status", run_id).stdout
    for command in ("watch", "report"):
        done = directory.farm(command, run_id)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"run {run_id} was interrupted; `farm resume {run_id}` carries out the rest" in done.stderr
    directory.gate.touch()
    done = directory.farm("resume", run_id, "--json")
    assert done.returncode == 1, done.stderr
    assert outcomes(json.loads(done.stdout)) == {
        "bad": "failed",
        "good": "passed",
        "hides": "passed",
        "waits": "passed",
    }


def test_latest_stands_for_the_run_that_was_submitted_last(directory):
    assert "there is no run here yet" in directory.farm("report", "latest").stderr
    run_id = json.loads(directory.farm("submit", "good.yaml", "--json").stdout)["run_id"]
    assert json.loads(directory.farm("report", "latest", "--format", "json").stdout)["run_id"] == run_id
    assert directory.farm("status", "latest").stdout.startswith(f"run {run_id} of")


def test_an_interrupted_run_can_be_cancelled_to_have_its_report(directory):
    run_id, process = directory.begin("good.yaml", "waits.yaml")
    assert process is not None
    until(lambda: directory.status(run_id).get("done") == 1, "a result")
    process.kill()
    finish(process)
    assert directory.farm("cancel", run_id).returncode == 0
    assert outcomes(report_of(directory, run_id)) == {"good": "passed", "waits": "cancelled"}


def interrupt(site: Site, *paths: str, done: int) -> str:
    """Begin a run of a directory, and kill what carries it out after some results."""
    run_id, process = site.begin(*paths)
    assert process is not None
    until(lambda: site.status(run_id).get("done") == done, "results")
    process.kill()
    finish(process)
    until(lambda: not site.processes(), "the end of all sessions")
    return run_id


def leave_the_desk_taken(site: Site, run_id: str) -> None:
    """Leave a run as an aggregator leaves it that is killed at its work."""
    ledger = site.directory / ".farm/runs" / run_id / "ledger"
    with private_server("--dir", str(ledger), "--appendonly", "yes") as server:
        broker = Broker(server.broker_url)
        broker.ledger.cancel(run_id)
        broker.ledger.take_lock(f"aggregate:{run_id}", "the dead", 600_000)


def test_a_run_whose_aggregator_was_killed_is_cancelled_at_once(directory):
    run_id = interrupt(directory, "good.yaml", "waits.yaml", done=1)
    leave_the_desk_taken(directory, run_id)
    started = time.monotonic()
    done = directory.farm("cancel", run_id)
    assert (done.returncode, time.monotonic() - started < 20) == (0, True), done.stderr
    assert f"run {run_id} had ended before, with 1 of 2 trials done" in done.stdout
    assert outcomes(report_of(directory, run_id)) == {"good": "passed", "waits": "cancelled"}


def test_a_run_whose_aggregator_was_killed_is_resumed(directory):
    run_id = interrupt(directory, "good.yaml", "waits.yaml", done=1)
    leave_the_desk_taken(directory, run_id)
    directory.gate.touch()
    done = directory.farm("resume", run_id)
    assert (done.returncode, "Results: 2/2 passed" in done.stdout) == (0, True), done.stderr


def test_an_out_directory_that_can_not_be_used_is_told_before_anything_is_changed(site):
    run_id = json.loads(site.farm("run", "bad.yaml", "--json").stdout)["run_id"]
    mine = site.directory / "mine"
    mine.mkdir()
    (mine / "report.json").write_text("{}")
    before = site.status(run_id)
    done = site.farm("retry", run_id, "--failed", "--wait", "--out", "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert "mine/report.json exists, and is no report of the farm; choose another --out" in done.stderr
    assert site.status(run_id) == before
    done = site.farm("watch", run_id, "--out", "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert (mine / "report.json").read_text() == "{}"


def test_out_on_a_fleet_is_for_those_who_wait(fleet):
    done = fleet.farm("submit", "good.yaml", "--out", "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--out needs --wait" in done.stderr
    assert json.loads(fleet.farm("status", "--json").stdout) == []


@pytest.mark.parametrize("how", ["it is killed", "somebody cleans the temporary directory"])
def test_a_server_that_is_lost_is_told_soon_and_with_the_way_to_go_on(directory, how):
    run_id, process = directory.begin("good.yaml", "waits.yaml")
    assert process is not None
    until(lambda: directory.status(run_id).get("done") == 1, "a result")
    socket = (directory.directory / ".farm/runs" / run_id / "ledger/socket").read_text().strip()
    if how == "it is killed":
        with redis.Redis(unix_socket_path=socket) as client:
            os.kill(client.info()["process_id"], signal.SIGKILL)
    else:
        Path(socket).unlink()
    started = time.monotonic()
    code, _, err = finish(process)
    assert (code, time.monotonic() - started < 12) == (3, True), err
    assert err.splitlines()[-1] == (
        f"farm: the embedded server was lost; `farm resume {run_id}` carries out the rest"
    )
    directory.gate.touch()
    done = directory.farm("resume", run_id)
    assert (done.returncode, "Results: 2/2 passed" in done.stdout) == (0, True), done.stderr


def test_a_run_that_goes_on_is_not_resumed_by_another_command(directory):
    run_id, process = directory.begin("waits.yaml")
    directory.await_session(run_id, "waits")
    done = directory.farm("resume", run_id)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"another farm carries out run {run_id}; `farm watch {run_id}` follows it" in done.stderr
    directory.gate.touch()
    assert finish(process)[0] == 0


# retry


def test_errored_trials_are_tried_again(site):
    write(site, "fragile", "[{say: hello}]", more=f"setup: ['test -e {site.gate}']\n")
    first = site.farm("run", "good.yaml", "bad.yaml", "fragile.yaml", "--json")
    run_id = json.loads(first.stdout)["run_id"]
    assert outcomes(json.loads(first.stdout)) == {"bad": "failed", "fragile": "errored", "good": "passed"}
    site.gate.touch()
    done = site.farm("retry", run_id, "--errored", "--wait")
    assert done.returncode == 1, done.stderr
    assert f"1 trial of run {run_id} that errored, again" in done.stderr
    assert "✓ fragile\n" in done.stdout
    assert done.stdout.count("good") == 1
    report = report_of(site, run_id)
    assert outcomes(report) == {"bad": "failed", "fragile": "passed", "good": "passed"}
    nothing = site.farm("retry", run_id, "--errored")
    assert (nothing.returncode, nothing.stdout) == (1, f"no trial of run {run_id} errored\n")
    watched = site.farm("watch", run_id)
    assert watched.stdout.count("fragile") == 1


def test_failed_trials_are_tried_again(site):
    script = (
        f"[{{tool: Bash, input: {{command: 'test -e {site.gate} && touch done || true'}}}}, {{say: hello}}]"
    )
    write(site, "careless", script, "[{type: file_exists, path: done}]")
    run_id = json.loads(site.farm("run", "careless.yaml", "--json").stdout)["run_id"]
    site.gate.touch()
    done = site.farm("retry", run_id, "--failed", "--errored", "--wait")
    assert (done.returncode, "Results: 1/1 passed" in done.stdout) == (0, True), done.stderr


def test_retry_carries_out_what_an_interrupted_run_has_left(directory):
    run_id = interrupt(directory, "good.yaml", "waits.yaml", done=1)
    directory.gate.touch()
    done = directory.farm("retry", run_id, "--failed")
    assert (done.returncode, "Results: 2/2 passed" in done.stdout) == (0, True), done.stderr
    assert f"no trial of run {run_id} failed; 1 trial left to be carried out" in done.stderr


@pytest.mark.parametrize("command", [["resume"], ["retry", "--errored"]], ids=["resume", "retry"])
def test_nothing_to_do_is_json_too_where_that_is_asked_for(directory, command):
    report = json.loads(directory.farm("run", "good.yaml", "--json").stdout)
    done = directory.farm(*command, report["run_id"], "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, report)


def test_retry_asks_which_trials_are_meant(directory):
    done = directory.farm("retry", "some-run")
    assert (done.returncode, done.stdout) == (2, "")
    assert "say which trials: --errored, --failed, or both" in done.stderr


# report


def test_a_report_can_be_had_as_text_and_as_json(site, tmp_path):
    ran = site.farm("run", "good.yaml", "bad.yaml", "--out", str(tmp_path / "first"))
    run_id = RUN_ID.findall((tmp_path / "first/report.json").read_text())[0]
    shown = site.farm("report", run_id)
    assert shown.returncode == 0
    assert sorted(shown.stdout.splitlines()) == sorted(ran.stdout.splitlines()[:-1])
    assert shown.stdout.index("✗ bad") < shown.stdout.index("✓ good")
    assert '    ✓ contains "hello"' in site.farm("report", run_id, "-v").stdout
    as_json = site.farm("report", run_id, "--format", "json").stdout
    assert as_json == (tmp_path / "first/report.json").read_text()
    out = tmp_path / "second"
    assert site.farm("report", run_id, "--out", str(out)).stdout == f"Report: {out}/report.txt\n"
    assert (out / "report.txt").read_text() == shown.stdout
    assert (out / "report.json").read_text() == as_json
    assert len(list((out / "transcripts").iterdir())) == 2


def test_there_is_no_report_while_a_run_goes_on(site):
    run_id, process = site.begin("waits.yaml")
    site.await_session(run_id, "waits")
    done = site.farm("report", run_id)
    assert (done.returncode, done.stdout) == (3, "")
    assert (
        f"run {run_id} still goes on, 0 of 1 trials are done; `farm watch {run_id}` follows it" in done.stderr
    )
    site.gate.touch()
    finish(process)
    site.farm("watch", run_id)


def test_a_report_outlives_its_ledger(directory, tmp_path):
    run_id = json.loads(directory.farm("run", "good.yaml", "--json").stdout)["run_id"]
    shutil.rmtree(directory.directory / ".farm/runs" / run_id / "ledger")
    assert directory.farm("report", run_id).stdout == "✓ good\nResults: 1/1 passed\n"
    directory.farm("report", run_id, "--format", "json", "--out", str(tmp_path / "out"))
    assert {path.name for path in (tmp_path / "out").rglob("*.json")} == {"00001.json", "report.json"}
    assert "1 passed" in directory.farm("status").stdout
    assert "1 passed" in directory.farm("status", run_id).stdout
    assert directory.farm("resume", run_id).returncode == 2


def test_a_report_is_shown_where_its_ledger_is_empty_or_can_not_be_opened(directory):
    run_id = json.loads(directory.farm("run", "good.yaml", "--json").stdout)["run_id"]
    ledger = directory.directory / ".farm/runs" / run_id / "ledger"
    shutil.rmtree(ledger)
    ledger.mkdir()
    assert directory.farm("report", run_id).stdout == "✓ good\nResults: 1/1 passed\n"
    assert "1 passed" in directory.farm("status", run_id).stdout
    resumed = directory.farm("resume", run_id)
    assert (resumed.returncode, f"only its report is left of run {run_id}" in resumed.stderr) == (2, True)
    shutil.rmtree(ledger)
    (ledger / "lock").mkdir(parents=True)  # what nobody can open, not even root
    assert directory.farm("report", run_id).stdout == "✓ good\nResults: 1/1 passed\n"
    assert "1 passed" in directory.farm("status", run_id).stdout
    resumed = directory.farm("resume", run_id)
    assert (resumed.returncode, resumed.stdout) == (3, "")
    assert f".farm/runs/{run_id}/ledger: can't be opened: Is a directory" in resumed.stderr


def test_a_report_is_not_destroyed_before_another_is_there(directory):
    run_id = json.loads(directory.farm("run", "good.yaml", "--json", "--out", "out").stdout)["run_id"]
    out, kept = directory.directory / "out", directory.directory / ".farm/runs" / run_id
    shown = (out / "report.json").read_text()
    assert directory.farm("report", "20260102-030405-abcdef", "--out", "out").returncode == 2
    assert (out / "report.json").read_text() == shown
    assert (out / "transcripts/00001.json").exists()
    shutil.rmtree(kept / "ledger")
    done = directory.farm("report", run_id, "--out", str(kept))
    assert (done.returncode, (kept / "report.json").read_text()) == (0, shown), done.stderr


def test_a_text_report_does_not_take_the_place_of_anothers(directory):
    run_id = json.loads(directory.farm("run", "good.yaml", "--json").stdout)["run_id"]
    (directory.directory / "report.txt").write_text("mine")
    done = directory.farm("report", run_id, "--out", ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert "report.txt exists, and is no report of the farm" in done.stderr
    assert (directory.directory / "report.txt").read_text() == "mine"


def test_a_report_that_can_not_be_read_is_told_in_one_sentence(directory):
    runs = [json.loads(directory.farm("run", "good.yaml", "--json").stdout)["run_id"] for _ in range(2)]
    run_id, other = runs
    kept = directory.directory / ".farm/runs" / run_id
    for content in ("garbage", '{\n  "schema": "farm.report/1",\n  "cases": []\n}\n'):
        (kept / "report.json").write_text(content)
        _is_told_as_unreadable(directory, run_id, other)
    shutil.rmtree(kept / "ledger")
    done = directory.farm("status", run_id)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    _is_told_as_unreadable(directory, run_id, other)


def _is_told_as_unreadable(directory, run_id: str, other: str) -> None:
    done = directory.farm("report", run_id)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert f"the report of run {run_id}: can't be read" in done.stderr
    listed = directory.farm("status")
    assert listed.returncode == 0
    assert f"{run_id}  unreadable" in listed.stdout
    assert f"{other}  complete" in listed.stdout


def test_runs_that_can_not_be_listed_are_no_bug(directory):
    (directory.directory / ".farm").mkdir()
    (directory.directory / ".farm/runs").touch()
    done = directory.farm("status")
    assert (done.returncode, done.stderr) == (2, "farm: .farm/runs: can't be read: Not a directory\n")


# worker


def test_a_worker_has_a_name_and_ends_when_it_is_told_to(directory):
    with private_server() as server:
        site = replace(directory, env={**directory.env, "FARM_BROKER_URL": server.broker_url})
        with worker(site, "--name", "ada", "--agents", "scripted,replay") as started:
            run_id = site.farm("submit", "waits.yaml").stdout.strip()
            site.await_session(run_id, "waits")
            (record,) = site.status(run_id)["workers"]
            assert record["name"].startswith("ada@")
            assert record["agents"] == ["replay", "scripted"]
            assert record["pid"] == started.process.pid  # it became the worker
            assert "✓ workers: 1 live" in site.farm("doctor").stdout
        # It had no grace: its session was handed on, and waits for another worker.
        until(lambda: not site.status(run_id)["workers"], "the worker's good-bye")
        assert site.processes() == ""
        site.gate.touch()
        with worker(site):
            assert site.farm("watch", run_id).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agents", "scriptd"], 'unknown kind of agent "scriptd"; did you mean "scripted"?'),
        (["--agents", "mine"], '"mine" is an agent of farm.yaml; a worker serves its kind, command'),
        (["--concurrency", "0"], "0 is not a whole number from 1 to 1000"),
        (["--grace", "long"], "long is not a number of seconds"),
        (["--name", "a b"], '"a b" is no name'),
    ],
)
def test_a_worker_that_could_not_work_is_not_started(directory, arguments, message):
    with (directory.directory / "farm.yaml").open("a") as file:
        file.write("agents: {mine: {kind: command, command: 'true'}}\n")
    done = directory.farm("worker", *arguments, env={"FARM_BROKER_URL": "redis://127.0.0.1:1"})
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


# doctor


def test_doctor_says_what_works_here(site):
    done = site.farm("doctor")
    assert done.returncode == 0, done.stdout
    assert "✓ agent scripted: can run here\n" in done.stdout
    assert "✓ embedded server: starts in" in done.stdout
    assert ("✓ broker: redis+socket://" in done.stdout) == site.has_fleet
    findings = {finding["name"]: finding for finding in json.loads(site.farm("doctor", "--json").stdout)}
    assert findings["temporary files"]["works"] is True


def test_doctor_tries_the_store(fleet, tmp_path):
    store = tmp_path / "store"
    done = fleet.farm("doctor", env={"FARM_STORE_URL": store.as_uri()})
    assert f"✓ store: {store.as_uri()}: can be written and read\n" in done.stdout
    assert list(store.iterdir()) == []
    (tmp_path / "file").touch()
    done = fleet.farm("doctor", env={"FARM_STORE_URL": (tmp_path / "file/store").as_uri()})
    assert done.returncode == 3
    assert "✗ store: " in done.stdout


# What goes wrong


@pytest.mark.parametrize("command", ["status", "watch", "cancel", "resume", "retry", "report"])
@pytest.mark.parametrize("run_id", ["20260102-030405-abcdef", "../../etc", ""])
def test_an_unknown_run_is_told_in_one_sentence(directory, command, run_id):
    done = directory.farm(command, run_id, *(["--failed"] if command == "retry" else []))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    if run_id:
        assert f'there is no run "{run_id}" here; `farm status` lists those there are' in done.stderr


@pytest.mark.parametrize(
    "command", ["status", "watch", "cancel", "resume", "retry", "report", "worker", "doctor"]
)
def test_a_broker_that_is_down_or_refuses_us_is_told_without_our_password(directory, command):
    arguments = {
        "status": [],
        "worker": [],
        "doctor": [],
        "retry": ["some-run", "--failed"],
    }.get(command, ["some-run"])
    with private_server("--requirepass", "right") as server:
        refused = f"redis+socket://:geheim@{server.socket}"
        for url, why in (("redis://:geheim@127.0.0.1:1/0", "can't be reached"), (refused, "password")):
            done = directory.farm(command, *arguments, env={"FARM_BROKER_URL": url})
            said = done.stdout if command == "doctor" else done.stderr
            assert done.returncode == 3, said
            assert why in said
            assert "geheim" not in done.stdout + done.stderr
            assert "Traceback" not in done.stderr


# What a person sees


HOSTILE = r"[{say: \"go away \x1b[31m[bold]\u202e\"}]".replace('\\"', '"')


def test_a_terminal_shows_progress_below_and_hostile_text_as_it_is(directory):
    write(directory, "hostile", HOSTILE)
    terminal = Terminal("run", "hostile.yaml", "waits.yaml", "-v", cwd=directory.directory, env=directory.env)
    try:
        terminal.await_text("  · waits: Bash(command='echo begun')")
        terminal.await_text("1/2")
        terminal.resize(30, 5)
        directory.gate.touch()
        assert terminal.await_end() == 1
    finally:
        terminal.close()
    assert r"go away \x1b[31m[bold]\u202e" in terminal.plain_text
    assert "\x1b[31m[bold]" not in terminal.plain_text
    assert "1 failed" in terminal.plain_text
    assert terminal.text.count("\x1b[?25l") > terminal.text.count("\x1b[?25h") > 0
    # Nothing of the progress is left: the last lines are the results.
    shown = terminal.plain_text
    last = shown[shown.rindex("Results: 1/2 passed, 1 failed") :].replace("\r\n", "\n")
    assert re.fullmatch(r"Results: .*\nReport: .*/report\.json\s+Page: .*/report\.html\s*", last, re.DOTALL)


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=["dumb", "no color"])
def test_a_terminal_that_wants_no_colours_gets_none(directory, env):
    terminal = Terminal("run", "good.yaml", "bad.yaml", cwd=directory.directory, env={**directory.env, **env})
    try:
        assert terminal.await_end() == 1
    finally:
        terminal.close()
    assert "✗ bad" in terminal.plain_text
    assert re.findall(r"\x1b\[[0-9;]*[1-9][0-9]m", terminal.text) == []
    assert ("\x1b" in terminal.text) == ("NO_COLOR" in env)


def test_tool_calls_are_streamed_to_pipes_too_and_never_into_json(site):
    site.gate.touch()
    shown = site.farm("run", "waits.yaml", "-v")
    assert "  · waits: Bash(command='echo begun')\n" in shown.stdout
    as_json = site.farm("run", "waits.yaml", "-v", "--json")
    assert outcomes(json.loads(as_json.stdout)) == {"waits": "passed"}
    assert "  · waits: Bash(command='echo begun')\n" in as_json.stderr


def test_a_piped_run_does_not_wait_for_rich(directory):
    code = "import sys; sys.argv = ['farm', 'run', 'good.yaml']; from farm.cli.main import main\ntry: main()\nfinally: print([name for name in sys.modules if name.split('.')[0] == 'rich'], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory.directory,
        env=dict(directory.env),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")
