"""Flower and the worker's own figures, on a real fleet: each case is shown for what became of it, and no more."""

from __future__ import annotations

import base64
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.fleet import Fleet, Pool, open_fleet, program_of, wait_until

BROKER_PASSWORD = "mark-of-the-broker"
PASSWORD = "mark,of the:door"  # a comma, a colon and a space, which must change nothing
SECRETS = ("mark-of-the-broker", "mark,of", "mark-of-the-prompt", "mark-of-the-agent", "mark-of-the-test")
CASES: dict[str, dict[str, object]] = {
    "finished": {"script": [{"say": "mark-of-the-agent: hello"}]},
    "failing": {"script": [{"say": "mark-of-the-agent: bye"}]},
    "erroring": {"script": [{"crash": "mark-of-the-agent"}]},
    "endless": {"script": [{"sleep": 600}]},
    "elsewhere": {"agent": "greeter"},
}
EVALUATORS = [
    {"type": "contains", "name": "greets", "value": "hello"},
    {"type": "contains", "value": "mark-of-the-test", "negate": True},
]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass
class Watched:
    """A fleet with a run that has come to its end, and Flower, which has seen it all."""

    fleet: Fleet
    run_id: str
    flower: str
    metrics: list[str]  # of the worker with threads, and of that with processes
    flower_pid: int

    def get(self, path: str, *, password: str | None = PASSWORD) -> tuple[int, str]:
        login = base64.b64encode(f"team:{password}".encode()).decode()
        headers = {} if password is None else {"Authorization": f"Basic {login}"}
        return fetch(self.flower + path, headers)

    def tasks(self) -> dict[str, list[dict[str, Any]]]:
        """Give the tasks of each case, in the order in which they came."""
        status, text = self.get("/api/tasks")
        assert status == 200, text
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
        for task in sorted(json.loads(text).values(), key=lambda task: task["received"]):
            if task["name"] == "farm.carry_out":
                run_id, case_id, _trial = task["kwargs"].split(" ")
                assert run_id == self.run_id
                found[case_id.partition("::")[2]].append(task)
        return found


def fetch(url: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()
    except OSError:
        return 0, ""


def figures(worker: str) -> dict[str, float]:
    """Read what a worker tells."""
    status, text = fetch(f"{worker}/metrics")
    assert status == 200
    lines = re.findall(r"^([a-z_]+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with open_fleet() as fleet:
        fleet.start_server(password=BROKER_PASSWORD)
        port, *metrics_ports = free_port(), free_port(), free_port()
        flower = fleet.start_farm(
            *("flower", "--port", str(port)),
            env={"FARM_FLOWER_AUTH": f"team:{PASSWORD}"},
            log="flower.log",
        )
        pools: dict[Pool, str] = {"threads": "scripted", "prefork": "command"}
        for (pool, kind), at in zip(pools.items(), metrics_ports, strict=True):
            fleet.start_worker(pool, 2, env={"FARM_METRICS": str(at), "FARM_AGENTS": kind}, ready=False)
        for worker in fleet.workers:
            fleet.await_worker(worker)
        flowers = f"http://127.0.0.1:{port}"
        wait_until(
            lambda: fetch(f"{flowers}/metrics")[1].count("flower_worker_online{") == 2, "it hears the workers"
        )
        cases = [
            {"id": name, "input": "mark-of-the-prompt", "evaluators": EVALUATORS, **case}
            for name, case in CASES.items()
        ]
        fleet.write("farm.yaml", "agents: {greeter: {kind: command, command: echo hello}}")
        fleet.write("suite.yaml", json.dumps({"agent": "scripted", "cases": cases}))
        run_id = fleet.queue_run("suite.yaml", "--retries", "1")
        metrics = [f"http://127.0.0.1:{port}" for port in metrics_ports]
        watched = Watched(fleet, run_id, flowers, metrics, flower.pid)
        wait_until(lambda: fleet.status(run_id).done == 4, "all but one have ended")
        wait_until(lambda: figures(metrics[0])["farm_sessions_running"] == 1, "one runs")
        cancelled = fleet.farm("cancel", run_id)
        assert cancelled.returncode == 0, cancelled.stderr
        wait_until(lambda: watched.tasks()["endless"][-1]["state"] != "STARTED", "Flower hears of the end")
        yield watched


def test_flower_shows_each_case_for_what_became_of_it(watched: Watched) -> None:
    tasks = watched.tasks()
    shown = {
        name: [(task["state"], task["result"] or task["exception"]) for task in tasks[name]] for name in CASES
    }
    assert shown == {
        "finished": [("SUCCESS", "'passed, score 1'")],
        "failing": [("FAILURE", "CaseFailed('1 of 2 evaluators failed: greets')")],
        "erroring": [
            ("RETRY", "CaseErrored('crashed')"),
            ("FAILURE", "CaseErrored('crashed, attempt 2')"),
        ],
        "endless": [("REVOKED", "cancelled: closed")],
        "elsewhere": [("SUCCESS", "'passed, score 1'")],
    }
    assert "Traceback" not in watched.fleet.logs()


def test_people_see_the_same_in_a_browser(watched: Watched, browser: Browser) -> None:
    context = browser.new_context(http_credentials={"username": "team", "password": PASSWORD})
    page = context.new_page()
    page.goto(f"{watched.flower}/tasks")
    rows = page.locator("table tbody tr", has_text=watched.run_id)
    for name, states in (
        ("finished", ["SUCCESS"]),
        ("failing", ["FAILURE"]),
        ("erroring", ["RETRY", "FAILURE"]),
        ("endless", ["REVOKED"]),
        ("elsewhere", ["SUCCESS"]),
    ):
        for state in states:
            row = rows.filter(has_text=f"::{name} ").filter(has_text=state)
            expect(row).to_have_count(1)
    page.goto(f"{watched.flower}/task/{watched.tasks()['failing'][0]['uuid']}")
    expect(page.locator("#task-page")).to_contain_text("greets")
    expect(page.locator("#task-page .badge")).to_have_text("FAILURE")
    context.close()


def test_nothing_that_flower_shows_is_a_secret_or_what_an_agent_was_asked_or_said(watched: Watched) -> None:
    tasks = [task for tasks in watched.tasks().values() for task in tasks]
    _, workers = watched.get("/api/workers?refresh=1")
    paths = ["/", "/workers", "/tasks", "/broker", "/metrics", "/api/tasks"]
    paths += [f"/worker/{worker}" for worker in json.loads(workers)]
    assert len(paths) == 8
    paths += ["/api/workers", "/api/queues/length", "/api/task/types"]
    paths += [f"{page}{task['uuid']}" for task in tasks for page in ("/task/", "/api/task/info/")]
    for path in paths:
        status, text = watched.get(path)
        assert status == 200, (path, text)
        assert [secret for secret in SECRETS if secret in text] == [], path
    assert "agent.scripted" in watched.get("/broker")[1]
    command = program_of(watched.flower_pid)
    assert "workers.flower" in command
    assert [secret for secret in SECRETS if secret in command] == []


def test_flower_refuses_who_has_no_password_and_lets_nobody_control_the_workers(watched: Watched) -> None:
    for path in ("/", "/tasks", "/broker", "/api/tasks", "/api/workers"):
        for password in (None, "wrong", "mark"):
            assert watched.get(path, password=password)[0] == 401, path
    login = base64.b64encode(f"team:{PASSWORD}".encode()).decode()
    request = urllib.request.Request(
        f"{watched.flower}/api/worker/shutdown/any",
        method="POST",
        headers={"Authorization": f"Basic {login}"},
    )
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(request, timeout=60)
    refused.value.close()


def test_a_worker_tells_its_own_figures_and_those_of_the_fleet(watched: Watched) -> None:
    threads, processes = watched.metrics
    assert fetch(f"{threads}/healthz") == (200, "ok\n")
    assert fetch(f"{threads}/other")[0] == 404
    wait_until(lambda: figures(threads)["farm_fleet_sessions"] == 0, "an old look at the fleet is forgotten")
    seen = figures(threads)
    expected = {
        'farm_trials_total{agent="scripted",outcome="passed"}': 1,
        'farm_trials_total{agent="scripted",outcome="failed"}': 1,
        'farm_trials_total{agent="scripted",outcome="errored"}': 1,
        'farm_attempts_retried_total{agent="scripted"}': 1,
        'farm_messages_dropped_total{why="cancelled"}': 1,
        'farm_session_seconds_count{agent="scripted"}': 5,
        "farm_sessions_running": 0,
        'farm_trials_queued_again_total{why="lost_worker"}': 0,
        "farm_ledger_up": 1,
        'farm_queue_messages{queue="agent.scripted"}': 0,
        'farm_runs{state="cancelled"}': 1,
        "farm_fleet_workers": 2,
        "farm_fleet_slots": 4,
        "farm_fleet_trials_waiting": 0,
    }
    assert {name: seen.get(name) for name in expected} == expected
    other = figures(processes)
    assert other['farm_trials_total{agent="command",outcome="passed"}'] == 1
    assert other['farm_session_seconds_count{agent="command"}'] == 1
    # Whichever janitor looks after all, somebody queued the second attempt.
    due = 'farm_trials_queued_again_total{why="due"}'
    assert seen[due] + other[due] == 1
