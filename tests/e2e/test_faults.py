"""What goes wrong on a fleet, one thing at a time: real servers, workers and submitters, really killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from farm.model.job import CaseJob
from farm.queue import names
from tests.e2e.fleet import (
    Fleet,
    Pool,
    Worker,
    children_of,
    is_alive,
    kill,
    open_fleet,
    program_of,
    start,
    wait_until,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the process table to look at")

BOTH_POOLS = pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=pytest.mark.long)])

# The agent of these tests: writes down that it began, does what its prompt says, and says so.
AGENT = r"""
import os, pathlib, subprocess, sys, time
place, name = pathlib.Path(sys.argv[1]), sys.argv[2].rpartition("::")[2]
attempt, prompt = sys.argv[3], open(sys.argv[4]).read()
with open(place / f"{name}.began", "a") as file:
    file.write(f"{attempt} {os.getpid()} {time.time()}\n")
for word in prompt.split():
    order, _, value = word.partition("=")
    if order == "escape" and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(place / f"{name}.escaped", "a") as file:
                file.write(f"{os.getpid()}\n")
            os.closerange(0, 64)
            os.execv("/bin/sleep", ["sleep", "600"])
        os._exit(0)
    if order == "sleep":
        time.sleep(float(value))
    if order == "wait":
        while not (place / value).exists():
            time.sleep(0.02)
    if order == "crash-before" and int(attempt) < int(value):
        sys.exit(f"attempt {attempt} crashes on purpose")
    if order == "kill-worker":
        os.kill(os.getppid(), 9)  # nothing is between us and it
        time.sleep(60)
    if order == "alone":
        (place / f"{name}.{os.getpid()}.here").touch()
        time.sleep(0.3)
        (place / f"{name}.together").write_text(str(len(list(place.glob("*.here")))))
        (place / f"{name}.{os.getpid()}.here").unlink()
    if order == "cost":
        print('{"text": "done", "cost_usd": %s}' % value)
        sys.exit()
print("done")
"""


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with open_fleet() as opened:
        prepare(opened)
        yield opened
        sys.stderr.write(opened.logs())  # pytest shows it if the test failed


def prepare(fleet: Fleet, **settings: Any) -> None:
    """Write the project that all these tests have: an agent that does what it is told."""
    agent = fleet.root / "agent.py"
    agent.write_text(AGENT)
    place = fleet.root / "place"
    place.mkdir(exist_ok=True)
    command = f"exec {sys.executable} -I -S {agent} {place} {{EVAL_ID}} {{ATTEMPT}} {{PROMPT_FILE}}"
    agents = {"obedient": {"kind": "command", "command": command}}
    fleet.write(
        "farm.yaml", json.dumps({"isolation": "process", "workspace": "empty", **settings, "agents": agents})
    )
    fleet.write("empty/.gitkeep", "")


def suite(fleet: Fleet, **prompts: str | dict[str, Any]) -> Path:
    """Write a suite: by case the orders to the agent, or the case itself."""
    cases = []
    for name, prompt in prompts.items():
        case = {"input": prompt} if isinstance(prompt, str) else prompt
        evaluators = [{"type": "contains", "value": "done"}]
        cases.append({"id": name, "agent": "obedient", "evaluators": evaluators, **case})
    return fleet.write("tests/suite.yaml", json.dumps({"cases": cases}))


SCRIPTED = {"agent": "scripted", "input": "-", "script": [{"say": "done"}]}


def begun(fleet: Fleet, case: str) -> list[list[str]]:
    """Give what the agent wrote down at each beginning: attempt, process, time."""
    path = fleet.root / "place" / f"{case}.began"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def go(fleet: Fleet, name: str) -> None:
    """Let the agents go on that wait for this."""
    (fleet.root / "place" / name).touch()


def trial(report: dict[str, Any], case: str) -> dict[str, Any]:
    """Give the only trial of a case."""
    (found,) = [each for each in report["cases"] if each["id"].endswith(f"::{case}")]
    (only,) = found["trials"]
    result: dict[str, Any] = only
    return result


def holder(fleet: Fleet, run_id: str, case: str) -> Worker:
    """Give the worker that carries out a case now."""
    (running,) = [
        each for each in fleet.broker.ledger.running(run_id) if each.job.case_id.endswith(f"::{case}")
    ]
    pids = {record.name: record.pid for record in fleet.broker.ledger.workers()}
    (found,) = [worker for worker in fleet.workers if worker.pid == pids[running.worker]]
    return found


def name_of(fleet: Fleet, worker: Worker) -> str:
    """Give the name under which reports know a worker."""
    (name,) = [record.name for record in fleet.broker.ledger.workers() if record.pid == worker.pid]
    return name


def await_beginning(fleet: Fleet, case: str, times: int = 1) -> None:
    """Wait until a case's session runs, for the so-many-th time."""
    wait_until(lambda: len(begun(fleet, case)) >= times, f"{case} begins")


def messages(text: str) -> list[str]:
    """Give what a user was told: no traceback may be in it."""
    assert "Traceback" not in text, text
    return text.strip().splitlines()


@BOTH_POOLS
def test_a_case_whose_worker_is_killed_is_carried_out_by_another_and_nothing_of_its_session_survives(
    fleet: Fleet, pool: Pool
) -> None:
    fleet.start_server()
    workers = [fleet.start_worker(pool, 2, ready=False) for _ in range(2)]
    for worker in workers:
        fleet.await_worker(worker)
    run_id = fleet.queue_run(suite(fleet, lost="escape wait=go", other="sleep=0.1"))
    await_beginning(fleet, "lost")
    escaped = fleet.root / "place" / "lost.escaped"
    wait_until(lambda: escaped.exists() and escaped.read_text().endswith("\n"), "it has escaped")
    grandchild, session = int(escaped.read_text()), int(begun(fleet, "lost")[0][1])
    assert is_alive(grandchild)

    victim = holder(fleet, run_id, "lost")
    (heir,) = [name_of(fleet, worker) for worker in workers if worker is not victim]
    victim.kill()

    wait_until(
        lambda: not is_alive(grandchild) and not is_alive(session), "the dead worker's session is dead"
    )
    await_beginning(fleet, "lost", times=2)
    go(fleet, "go")
    report = fleet.await_run(run_id)
    assert report["totals"]["passed"] == 2
    assert trial(report, "lost")["worker"] == heir
    assert trial(report, "lost")["attempt"] == 2
    assert [error["kind"] for error in trial(report, "lost")["earlier_errors"]] == ["worker_lost"]
    assert report["engine"]["executions"] == 3
    assert report["engine"]["duplicate_executions"] == 0


def test_a_case_whose_pool_process_is_killed_is_carried_out_again_by_the_same_worker(fleet: Fleet) -> None:
    fleet.start_server()
    worker = fleet.start_worker("prefork", 2)
    run_id = fleet.queue_run(suite(fleet, lost="escape wait=go", other="sleep=0.1"))
    await_beginning(fleet, "lost")
    session = int(begun(fleet, "lost")[0][1])
    (victim,) = [pid for pid in worker.pool_processes() if session in children_of(pid)]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_alive(session), "its session is dead")
    go(fleet, "go")
    report = fleet.await_run(run_id)
    assert report["totals"]["passed"] == 2
    assert trial(report, "lost")["attempt"] == 2


def test_a_session_longer_than_the_brokers_time_out_runs_once(fleet: Fleet) -> None:
    # Celery's own setting, and far below the length of the session.
    hasty = "from workers.app import app; app.conf.broker_transport_options = {'visibility_timeout': 1}; "
    hasty += "app.worker_main(['worker', '--pool', 'threads', '--concurrency', '4', '--loglevel', 'INFO'])"
    server = fleet.start_server()
    fleet.others.append(
        start(sys.executable, "-c", hasty, log=fleet.root / "w.log", env=fleet.env, cwd=fleet.root)
    )
    wait_until(lambda: fleet.broker.ledger.workers(), "the worker is ready")
    run_id = fleet.queue_run(suite(fleet, long="wait=go"))
    await_beginning(fleet, "long")
    time.sleep(1.5)  # beyond the time-out
    _restore_unacknowledged(fleet)
    job = CaseJob(run_id=run_id, case_id="tests/suite::long")
    for _ in range(3):  # as a broker does that takes the session for lost
        fleet.broker.publish([(job, "command")])
    with server.client() as client:
        wait_until(lambda: not client.llen("agent.command"), "all messages have been taken")
    time.sleep(1.0)  # enough to begin, if it were let
    go(fleet, "go")
    report = fleet.await_run(run_id)
    assert [attempt for attempt, *_ in begun(fleet, "long")] == ["1"]
    assert report["engine"]["executions"] == 1


def _restore_unacknowledged(fleet: Fleet) -> None:
    """Do what every client of the broker does from time to time with messages whose time-out is over."""
    with fleet.broker.celery.connection_for_write() as connection:
        channel = connection.default_channel
        channel.visibility_timeout = 0
        channel.qos.restore_visible(interval=1)


@BOTH_POOLS
def test_a_worker_that_is_told_to_end_lets_sessions_end_and_hands_on_those_that_do_not(
    fleet: Fleet, pool: Pool
) -> None:
    fleet.start_server()
    fleet.env["FARM_GRACE_SECONDS"] = "4"
    first = fleet.start_worker(pool, 2)
    first_name = name_of(fleet, first)
    run_id = fleet.queue_run(suite(fleet, short="wait=end", long="wait=go"))
    await_beginning(fleet, "short")
    await_beginning(fleet, "long")
    session = int(begun(fleet, "long")[0][1])
    second = name_of(fleet, fleet.start_worker(pool, 2))

    first.process.send_signal(signal.SIGTERM)
    go(fleet, "end")
    assert first.process.wait(60) == 0
    assert not is_alive(session)
    await_beginning(fleet, "long", times=2)
    go(fleet, "go")
    report = fleet.await_run(run_id)
    assert report["totals"]["passed"] == 2
    assert trial(report, "short")["worker"] == first_name
    assert trial(report, "long")["worker"] == second
    # It was not the case's fault, and so no attempt of it.
    assert [trial(report, case)["attempt"] for case in ("short", "long")] == [1, 1]


def test_a_case_that_kills_its_worker_each_time_is_given_up_and_harms_no_other(fleet: Fleet) -> None:
    fleet.env["FARM_LEASE_SECONDS"] = "1"
    fleet.start_server()
    fleet.start_worker("prefork", 3)
    others = {f"other{number}": "sleep=0.2" for number in range(6)}
    done = fleet.farm("submit", "--wait", suite(fleet, poison="kill-worker", **others), "--out", "out")
    assert done.returncode == 3, done.stderr
    report = json.loads((fleet.project / "out" / "report.json").read_text())
    assert (report["totals"]["passed"], report["totals"]["errored"]) == (6, 1)
    assert trial(report, "poison")["error"]["kind"] == "worker_lost"
    assert 2 <= len(begun(fleet, "poison")) <= 10


def test_a_worker_gets_no_case_for_an_agent_that_it_lacks_and_who_waits_is_told(fleet: Fleet) -> None:
    fleet.start_server()
    scripted = name_of(fleet, fleet.start_worker(env={"FARM_AGENTS": "scripted"}))
    submitter = fleet.start_farm("submit", "--wait", suite(fleet, a="-", b=SCRIPTED), "--out", "out")
    log = fleet.root / "farm.log"
    wait_until(lambda: "no living worker serves command" in log.read_text(), "the submitter is told")
    assert not begun(fleet, "a")
    command = name_of(fleet, fleet.start_worker(env={"FARM_AGENTS": "command"}))
    assert submitter.wait(60) == 0
    report = json.loads((fleet.project / "out" / "report.json").read_text())
    assert trial(report, "a")["worker"] == command
    assert trial(report, "b")["worker"] == scripted


def test_an_errored_trial_is_tried_again_each_time_later_and_the_report_says_how_often(fleet: Fleet) -> None:
    fleet.start_server()
    fleet.start_worker()
    path = suite(fleet, heals="crash-before=3", never="crash-before=99")
    done = fleet.farm("submit", "--wait", path, "--retries", "2", "--out", "out")
    assert done.returncode == 3, done.stderr
    report = json.loads((fleet.project / "out" / "report.json").read_text())
    assert (trial(report, "heals")["outcome"], trial(report, "heals")["attempt"]) == ("passed", 3)
    assert (trial(report, "never")["outcome"], trial(report, "never")["attempt"]) == ("errored", 3)
    assert trial(report, "never")["error"]["kind"] == "crashed"
    for case in ("heals", "never"):
        earlier = trial(report, case)["earlier_errors"]
        assert [(error["attempt"], error["kind"]) for error in earlier] == [(1, "crashed"), (2, "crashed")]
        assert "attempt 2 crashes on purpose" in earlier[1]["message"]
        assert earlier[1]["worker"] == trial(report, case)["worker"]
    times = [float(at) for _, _, at in begun(fleet, "heals")]
    assert [attempt for attempt, *_ in begun(fleet, "heals")] == ["1", "2", "3"]
    # At least half of 1 s, then of 3 s.
    assert times[1] - times[0] >= 0.5
    assert times[2] - times[1] >= 1.5


@BOTH_POOLS
def test_the_sessions_of_a_cancelled_run_die_and_the_rest_is_not_begun(fleet: Fleet, pool: Pool) -> None:
    fleet.start_server()
    fleet.start_worker(pool, 2)
    cases = {f"case{number}": "escape wait=never" for number in range(4)}
    submitter = fleet.start_farm("submit", "--wait", suite(fleet, **cases), "--out", "out")
    wait_until(lambda: len(list((fleet.root / "place").glob("*.escaped"))) == 2, "two sessions run")
    (run_id,) = fleet.broker.ledger.runs()
    sessions = [int(begun(fleet, case)[0][1]) for case in cases if begun(fleet, case)]
    assert fleet.farm("cancel", run_id).returncode == 0
    assert submitter.wait(60) == 3
    wait_until(lambda: not any(map(is_alive, sessions)), "the sessions are dead")
    report = json.loads((fleet.project / "out" / "report.json").read_text())
    assert (report["state"], report["totals"]["cancelled"]) == ("cancelled", 4)
    # The worker is free for others, and the run can go on.
    go(fleet, "never")
    assert fleet.farm("resume", run_id, "--wait").returncode == 0
    assert fleet.report(run_id)["totals"]["passed"] == 4


def embedded_worker(submitter: subprocess.Popen[bytes]) -> int:
    """Find the worker that an embedded farm has started."""

    def workers() -> list[int]:
        return [pid for pid in children_of(submitter.pid) if "-m workers --embedded" in program_of(pid)]

    wait_until(lambda: len(workers()) == 1, "there is an embedded worker")
    return workers()[0]


def test_two_embedded_runs_at_once_in_one_directory_do_not_disturb_each_other(fleet: Fleet) -> None:
    path = suite(fleet, a="wait=go", b=SCRIPTED, c="-")
    submitters = [fleet.start_farm("submit", path, log=f"farm{number}.log") for number in range(2)]
    await_beginning(fleet, "a", times=2)  # so both run at the same time
    go(fleet, "go")
    assert [submitter.wait(60) for submitter in submitters] == [0, 0]
    reports = [json.loads(path.read_text()) for path in fleet.project.glob(".farm/runs/*/report.json")]
    assert [report["totals"]["passed"] for report in reports] == [3, 3]
    assert [report["engine"]["executions"] for report in reports] == [3, 3]


def test_an_embedded_run_completes_though_its_worker_is_killed(fleet: Fleet) -> None:
    submitter = fleet.start_farm("submit", suite(fleet, a="escape wait=go", b="-"), "--out", "out")
    await_beginning(fleet, "a")
    session = int(begun(fleet, "a")[0][1])
    os.kill(embedded_worker(submitter), signal.SIGKILL)
    wait_until(lambda: not is_alive(session), "the dead worker's session is dead")
    go(fleet, "go")
    assert submitter.wait(60) == 0
    report = json.loads((fleet.project / "out" / "report.json").read_text())
    assert report["totals"]["passed"] == 2
    assert trial(report, "a")["attempt"] == 2


def test_an_embedded_farm_that_is_killed_leaves_nothing_running_and_can_be_resumed(fleet: Fleet) -> None:
    submitter = fleet.start_farm("submit", suite(fleet, a="escape wait=go", b="-"))
    await_beginning(fleet, "a")
    wait_until((fleet.root / "place" / "a.escaped").exists, "it has escaped")
    worker = embedded_worker(submitter)
    below = [pid for child in children_of(submitter.pid) for pid in (child, *children_of(child))]
    assert any("valkey-server" in program_of(pid) for pid in below)
    assert worker in below
    kill(submitter)
    wait_until(lambda: not fleet.processes(), "no worker and no session is left", 30)
    wait_until(lambda: not any(map(is_alive, below)), "no server is left", 30)
    fleet.assert_nothing_is_left()
    go(fleet, "go")
    (run_directory,) = (fleet.project / ".farm" / "runs").iterdir()
    resumed = fleet.farm("resume", run_directory.name)
    assert resumed.returncode == 0, resumed.stderr
    report = json.loads((run_directory / "report.json").read_text())
    assert report["totals"]["passed"] == 2


def told(done: subprocess.CompletedProcess[str], code: int, *words: str) -> str:
    """Check that a command ended with one clear message, and give it."""
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("farm: ")]
    for word in words:
        assert word in line, line
    return line


def test_a_broker_that_is_down_is_named_in_one_message(fleet: Fleet) -> None:
    fleet.env["FARM_BROKER_URL"] = f"redis+socket://{fleet.root}/nobody"
    told(fleet.farm("submit", suite(fleet, a="-")), 3, "the broker can't be reached", "FARM_BROKER_URL")
    told(fleet.farm("worker"), 3, "the broker can't be reached", "FARM_BROKER_URL")


def test_a_broker_that_goes_down_during_a_run_costs_nothing_but_time(fleet: Fleet) -> None:
    server = fleet.start_server()
    worker = fleet.start_worker("threads", 2)
    submitter = fleet.start_farm(
        "submit", "--wait", suite(fleet, a="wait=go", b="sleep=1 wait=go"), "--out", "out"
    )
    await_beginning(fleet, "a")
    await_beginning(fleet, "b")
    server.kill()
    go(fleet, "go")  # so that both end while nobody takes their results
    time.sleep(2.0)
    server.start()
    assert submitter.wait(60) == 0, worker.said()
    report = json.loads((fleet.project / "out" / "report.json").read_text())
    assert report["totals"]["passed"] == 2
    assert report["engine"]["duplicate_executions"] == 0


def test_a_wrong_password_is_named_in_one_message_that_does_not_show_it(fleet: Fleet) -> None:
    server = fleet.start_server(password="correct-horse")
    fleet.env["FARM_BROKER_URL"] = f"redis+socket://:battery-staple@{server.socket}"
    for command in (("submit", str(suite(fleet, a="-"))), ("worker",), ("status",)):
        line = told(fleet.farm(*command), 3, "refuses the user or password of FARM_BROKER_URL")
        assert "battery-staple" not in line
    fleet.env["FARM_BROKER_URL"] = server.url
    fleet.start_worker()
    assert fleet.farm("submit", "--wait", suite(fleet, a="-")).returncode == 0


def test_a_user_without_dangerous_commands_is_enough(fleet: Fleet) -> None:
    server = fleet.start_server()
    with server.client() as client:
        rules = ["on", ">secret", "~*", "&*", "+@all", "-@admin", "-@dangerous", "+info", "+client"]
        client.execute_command("ACL", "SETUSER", "farm", *rules)
    fleet.env["FARM_BROKER_URL"] = f"redis+socket://farm:secret@{server.socket}"
    fleet.start_worker("prefork", 2)
    fleet.start_worker("threads", 2)
    done = fleet.farm("submit", "--wait", suite(fleet, a="-", b=SCRIPTED))
    assert done.returncode == 0, done.stderr
    ping = celery(fleet, "inspect", "ping")
    assert ping.stdout.count("pong") == 2, ping.stdout + ping.stderr


def celery(fleet: Fleet, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Celery's own command line on the workers' application."""
    return subprocess.run(
        [sys.executable, "-m", "celery", "-A", "workers.app", *arguments],
        cwd=fleet.project,
        env=fleet.env,
        capture_output=True,
        text=True,
        timeout=60,
    )


_ENVELOPE = {
    "body": "e30=",
    "content-type": "application/json",
    "content-encoding": "utf-8",
    "properties": {
        "delivery_tag": "1",
        "body_encoding": "base64",
        "delivery_info": {"exchange": "", "routing_key": "agent.command"},
    },
}
_HEADERS: list[object] = [7, None, {}]
GARBAGE = [
    *(b"", b"\xff\xfe", b"{}", b"7", b'{"body": 1}', b'["a"]', b"x" * 100_000),
    # More of each than the worker has slots: none may cost one.
    *[json.dumps(_ENVELOPE | {"headers": headers}).encode() for headers in _HEADERS for _ in range(4)],
    *[json.dumps(_ENVELOPE | {"headers": {"task": [names.CARRY_OUT], "id": {}}}).encode() for _ in range(4)],
    *[
        json.dumps(_ENVELOPE | {"headers": {"task": names.CARRY_OUT, "id": "1", "eta": 5}}).encode()
        for _ in range(4)
    ],
]


def test_celerys_own_commands_know_the_workers_and_garbage_does_not_hurt_them(fleet: Fleet) -> None:
    server = fleet.start_server()
    fleet.start_worker("threads", 2)
    assert "1 node online" in celery(fleet, "status").stdout
    assert "pong" in celery(fleet, "inspect", "ping").stdout
    registered = celery(fleet, "inspect", "registered").stdout
    assert names.CARRY_OUT in registered
    assert names.AGGREGATE in registered
    app = fleet.broker.celery
    for arguments in (
        {},
        {"run_id": 1},
        {"run_id": "nobody", "case_id": "x", "trial": 1},
        {"run_id": "../..", "case_id": "", "trial": -1},
    ):
        app.send_task(names.CARRY_OUT, kwargs=arguments, queue="agent.command")
        app.send_task(names.AGGREGATE, kwargs=arguments, queue="control")
    app.send_task("no.such.task", queue="control")
    app.send_task(names.CARRY_OUT, args=[os.getcwd()], queue="agent.command", serializer="pickle")
    with server.client() as client:
        for garbage in GARBAGE:
            client.lpush("agent.command", garbage)
    done = fleet.farm("submit", "--wait", suite(fleet, a="-", b=SCRIPTED))
    assert done.returncode == 0, done.stderr


def test_the_limits_of_farm_yaml_hold_for_all_workers_together(fleet: Fleet) -> None:
    prepare(fleet, limits={"obedient": {"concurrency": 2}})
    fleet.start_server()
    for pool in ("threads", "prefork"):
        fleet.start_worker(pool, 4, ready=False)
    for worker in fleet.workers:
        fleet.await_worker(worker)
    cases = {f"case{number}": "alone" for number in range(8)}
    run_id = fleet.queue_run(suite(fleet, **cases))
    report = fleet.await_run(run_id)
    assert report["totals"]["passed"] == 8, [trial(report, case)["error"] for case in cases]
    seen = [int(path.read_text()) for path in (fleet.root / "place").glob("*.together")]
    assert len(seen) == 8
    assert max(seen) == 2


def test_a_budget_stops_a_run_which_can_then_be_resumed_with_more(fleet: Fleet) -> None:
    fleet.start_server()
    fleet.start_worker("threads", 2)
    cases: dict[str, Any] = {
        f"case{number}": {"input": "cost=0.5", "max_cost_usd": 0.5} for number in range(8)
    }
    path = suite(fleet, **cases)
    done = fleet.farm("submit", "--wait", path, "--max-cost", "1.6", "--out", "out")
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    report = json.loads((fleet.project / "out" / "report.json").read_text())
    assert report["state"] == "over_budget"
    assert (report["totals"]["passed"], report["totals"]["cancelled"]) == (3, 5)
    assert report["totals"]["cost_usd"] == 1.5
    resumed = fleet.farm("resume", report["run_id"], "--wait", "--max-cost", "100", "--out", "out")
    assert resumed.returncode == 0, resumed.stderr
    report = json.loads((fleet.project / "out" / "report.json").read_text())
    assert (report["state"], report["totals"]["passed"]) == ("complete", 8)
    assert sum(len(begun(fleet, case)) for case in cases) == 8


def test_an_unknown_run_is_an_error_of_one_line(fleet: Fleet) -> None:
    fleet.start_server()
    for command in ("status", "watch", "cancel", "resume", "report"):
        told(fleet.farm(command, "20260101-000000-abcdef"), 2, 'there is no run "20260101-000000-abcdef"')
    told(fleet.farm("status", "20260101-000000-abcdef", env={"FARM_BROKER_URL": ""}), 2, "there is no run")


def test_a_workspace_over_the_limit_is_refused_before_anything_runs(fleet: Fleet) -> None:
    server = fleet.start_server()
    with fleet.write("empty/huge", "").open("r+b") as huge:
        huge.truncate(2**40)  # sparse: it takes no room
    done = fleet.farm("submit", suite(fleet, a="-"))
    assert "Traceback" not in done.stderr
    assert done.returncode == 2, done.stderr
    assert "huge" in done.stderr
    with server.client() as client:
        assert not client.keys("farm:run*")


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_a_workspace_that_is_lost_on_the_way_is_an_error_of_its_case_and_can_be_tried_again(
    fleet: Fleet, damage: str
) -> None:
    server = fleet.start_server()
    replay = {"agent": "replay", "replay": "recorded.json", "input": "-"}
    fleet.write("tests/recorded.json", json.dumps({"text": "done"}))
    path = suite(fleet, workspace="-", file=replay)
    run_id = fleet.queue_run("--retries", "0", path)
    with server.client() as client:
        blobs = list(client.scan_iter("farm:blob:*"))
        assert len(blobs) == 2
        for blob in blobs:
            if damage == "missing":
                client.delete(blob)
            else:
                client.lset(blob, 1, b"what is no blob")
    fleet.start_worker("threads", 2)
    watched = fleet.farm("watch", run_id)
    assert watched.returncode == 3, watched.stderr
    report = fleet.report(run_id)
    for case in ("workspace", "file"):
        error = trial(report, case)["error"]
        assert error["kind"] in ("not_shipped", "workspace_failed"), error
        words = {"missing": ["is not in the store"], "corrupt": ["corrupt", "can't be decompressed"]}
        assert any(word in error["message"] for word in words[damage]), error
    with server.client() as client:
        client.delete(*blobs)
    fleet.queue_run(path)  # brings the blobs again
    retried = fleet.farm("retry", run_id, "--errored", "--wait")
    assert retried.returncode == 0, retried.stderr


@contextmanager
def small_disk(directory: Path, megabytes: int = 2) -> Iterator[Path]:
    """Mount a file system with little room."""
    directory.mkdir(parents=True, exist_ok=True)
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", directory], check=False
        ).returncode
    )
    if not mounted:
        assert os.geteuid() != 0 or not os.environ.get("CI"), "CI must be able to mount"
        pytest.skip("a small file system can only be mounted by root")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


def fill(directory: Path) -> Path:
    """Use up what room there is."""
    path = directory / "filling"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return path
    raise AssertionError("the disk is never full")


def test_a_report_that_does_not_fit_on_the_disk_is_one_message_and_can_be_had_later(fleet: Fleet) -> None:
    fleet.start_server()
    fleet.start_worker("threads", 2)
    with small_disk(fleet.project / "out") as out:
        filling = fill(out)
        done = fleet.farm("submit", "--wait", suite(fleet, a="-"), "--out", "out/here")
        line = told(done, 3 if "can't be written: No space" in done.stderr else 2, "No space left on device")
        filling.unlink()
        (run_id,) = [*fleet.broker.ledger.runs(), ""][:1]
        if run_id:
            assert fleet.farm("report", run_id, "--out", "out/here").returncode == 0, line
            assert json.loads((out / "here" / "report.json").read_text())["totals"]["passed"] == 1


def test_a_server_without_room_is_one_message_and_the_run_goes_on_when_there_is_some(fleet: Fleet) -> None:
    fleet.env["FARM_LEASE_SECONDS"] = "60"
    with small_disk(fleet.root / "server", 3) as disk:
        server = fleet.start_server()
        fleet.start_worker("threads", 2)
        run_id = fleet.queue_run(suite(fleet, a="wait=go", b="wait=go"))
        await_beginning(fleet, "a")
        filling = fill(disk)
        with server.client() as client:
            wait_until(lambda: _is_refused(client), "the server refuses to write")
        told(fleet.farm("submit", suite(fleet, c="-")), 3, "the broker")
        go(fleet, "go")
        time.sleep(2.0)
        filling.unlink()
        report = fleet.await_run(run_id)
        # What was done meanwhile was not done in vain.
        assert (report["totals"]["passed"], report["engine"]["executions"]) == (2, 2)
        fleet.end()


def _is_refused(client: redis.Redis) -> bool:
    try:
        client.set("x" * 100, "x" * 10000)
    except redis.RedisError:
        return True
    return False


def test_a_worker_without_room_errs_on_the_case_and_says_why(fleet: Fleet) -> None:
    fleet.start_server()
    with small_disk(fleet.root / "small") as disk:
        fleet.start_worker("threads", 2, env={"TMPDIR": str(disk)})
        # Before it is full: Python takes another directory if this one has no room at its first use.
        assert fleet.farm("submit", "--wait", suite(fleet, a="-")).returncode == 0
        filling = fill(disk)
        submitter = fleet.start_farm(
            "submit", "--wait", suite(fleet, a="-"), "--retries", "0", "--out", "out"
        )
        log = fleet.root / "farm.log"
        wait_until(lambda: "No space left on device" in log.read_text(), "the case is errored")
        filling.unlink()  # the report needs room, too
        assert submitter.wait(60) == 3
        assert "Traceback" not in log.read_text()
        report = json.loads((fleet.project / "out" / "report.json").read_text())
        assert "No space left on device" in trial(report, "a")["error"]["message"]
        assert fleet.farm("retry", report["run_id"], "--errored", "--wait").returncode == 0
        fleet.end()
