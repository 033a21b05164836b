"""Hosts that share a broker and nothing else: network namespaces, with file systems and cables of their own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from farm.queue.broker import Broker
from farm.queue.records import RunStatus
from tests.e2e.fleet import Fleet, is_alive, open_fleet, server_program, start, wait_until
from tests.e2e.network import Host, needed_network
from tests.e2e.test_faults import await_beginning, begun, go, prepare, suite, trial

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has network namespaces")

PASSWORD = "correct-horse"


def project(fleet: Fleet) -> None:
    """Write a project that needs much of the submitter's directory: all of it must travel."""
    agent = 'test -f src/data.txt && test ! -e {marker} && echo "$(cat src/data.txt) on $(hostname -I)"'
    marker = fleet.project / "marker"
    marker.touch()
    fleet.write(
        "farm.yaml",
        json.dumps(
            {
                "isolation": "process",
                "agents": {"reader": {"kind": "command", "command": agent.format(marker=marker)}},
            }
        ),
    )
    fleet.write("app/src/data.txt", "data of the workspace")
    fleet.write("tests/recorded.json", json.dumps({"text": "recorded elsewhere"}))
    fleet.write(
        "tests/judge.py",
        "import json, pathlib, sys\n"
        "from wisdom import RIGHT\n"
        "asked = json.load(sys.stdin)\n"
        "score = float(RIGHT in asked['candidate_answer'])\n"
        f"print(json.dumps({{'score': score, 'reasoning': str(pathlib.Path({str(marker)!r}).exists())}}))\n",
    )
    fleet.write("tests/wisdom.py", "RIGHT = 'data of the workspace'\n")
    judge = {"type": "code_judge", "command": [sys.executable, "judge.py"], "files": ["wisdom.py"]}
    cases = [
        {"id": "workspace", "agent": "reader", "input": "-", "workspace": "../app", "evaluators": [judge]},
        {
            "id": "replay",
            "agent": "replay",
            "replay": "recorded.json",
            "input": "-",
            "evaluators": [{"type": "contains", "value": "recorded elsewhere"}],
        },
    ]
    fleet.write("tests/suite.yaml", json.dumps({"cases": cases}))


@contextmanager
def broker_on(host: Host, fleet: Fleet) -> Iterator[str]:
    """Run a server on a host's network, behind a password; give its URL."""
    directory = fleet.root / "server"
    directory.mkdir()
    options = (
        "--bind",
        host.address,
        "--port",
        "6379",
        "--requirepass",
        PASSWORD,
        "--dir",
        directory,
        "--save",
        "",
        "--unixsocket",
        directory / "s",  # for this process, which is on none of the hosts
    )
    process = start(
        *host.command(server_program(), *options),
        log=fleet.root / "server.log",
        env=fleet.env,
        cwd=fleet.root,
    )
    fleet.others.append(process)
    reachable = host.command(
        sys.executable, "-c", f"import socket; socket.create_connection(({host.address!r}, 6379), 5)"
    )
    wait_until(
        lambda: not subprocess.run(reachable, capture_output=True, check=False).returncode,
        "the server listens",
    )
    yield f"redis://:{PASSWORD}@{host.address}:6379/0"


def test_a_worker_on_another_host_needs_nothing_but_the_broker() -> None:
    with ExitStack() as stack:
        submitters, workers = stack.enter_context(needed_network(2))
        fleet = stack.enter_context(open_fleet())
        project(fleet)
        fleet.env["FARM_BROKER_URL"] = stack.enter_context(broker_on(submitters, fleet))

        worker_command = (sys.executable, "-m", "workers", "--concurrency", "2")
        worker = start(
            *workers.command(*worker_command, hides=fleet.project),
            log=fleet.root / "worker.log",
            env={**fleet.env, "FARM_CACHE_DIR": str(fleet.root / "cache-b")},
            cwd=fleet.root,
        )
        fleet.others.append(worker)
        done = subprocess.run(
            submitters.command(sys.executable, "-m", "farm", "submit", "--wait", "tests", "--out", "out"),
            cwd=fleet.project,
            env=fleet.env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads((fleet.project / "out" / "report.json").read_text())
        (replayed,), (carried_out,) = [case["trials"] for case in report["cases"]]
        assert (replayed["outcome"], carried_out["outcome"]) == ("passed", "passed")
        # It ran on the other host, and neither the agent nor the judge could see the submitter's directory.
        assert workers.address in carried_out["output"]
        assert carried_out["verdicts"][0]["reasoning"] == "False"
        transcript = json.loads((fleet.project / "out" / carried_out["transcript"]).read_text())
        assert "data of the workspace" in transcript["final_text"]
        assert is_alive(worker.pid)
        assert socket.gethostname() in carried_out["worker"]


def test_a_host_that_is_cut_off_for_longer_than_its_leases_costs_no_case_and_counts_none_twice() -> None:
    with ExitStack() as stack:
        broker, steady, cut = stack.enter_context(needed_network(3))
        fleet = stack.enter_context(open_fleet(FARM_LEASE_SECONDS="2"))
        prepare(fleet)
        fleet.env["FARM_BROKER_URL"] = stack.enter_context(broker_on(broker, fleet))
        ours = Broker(f"unix://:{PASSWORD}@{fleet.root / 'server' / 's'}")

        def start_worker(host: Host, name: str) -> None:
            log = fleet.root / f"{name}.log"
            command = (sys.executable, "-m", "workers", "--name", name, "--concurrency", "3")
            env = {**fleet.env, "FARM_WORKER_NAME": name}
            fleet.others.append(start(*host.command(*command), log=log, env=env, cwd=fleet.root))
            wait_until(lambda: " ready." in log.read_text(), f"{name} is ready")

        start_worker(cut, "cut")
        cases = ("first", "second", "last")
        path = suite(fleet, first="wait=go", second="wait=go", last="wait=end")
        queued = subprocess.run(
            broker.command(sys.executable, "-m", "farm", "submit", "--json", path),
            cwd=fleet.project,
            env=fleet.env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert queued.returncode == 0, queued.stderr
        run_id = json.loads(queued.stdout)["run_id"]

        def await_status(what: str, condition: Callable[[RunStatus], bool]) -> None:
            wait_until(lambda: (now := ours.ledger.status(run_id)) is not None and condition(now), what)

        for case in cases:
            await_beginning(fleet, case)
        cut.cut_off()
        start_worker(steady, "steady")
        # Nobody hears of the host's sessions: they are begun again, and go on where they were as well.
        for case in cases:
            await_beginning(fleet, case, times=2)
        go(fleet, "go")
        await_status("two are done", lambda now: now.done == 2)
        cut.plug_in()
        await_status("the host has told what it did meanwhile", lambda now: now.duplicate_executions >= 2)
        go(fleet, "end")
        await_status("the run is over", lambda now: now.state == "complete")

        with (fleet.root / "report.json").open("w+b") as file:
            ours.archive.read(run_id, "report.json", file)
        report = json.loads((fleet.root / "report.json").read_bytes())
        assert report["totals"]["passed"] == 3
        for case in cases:
            assert [attempt for attempt, *_ in begun(fleet, case)] == ["1", "2"]
            assert trial(report, case)["attempt"] == 2
            assert "steady" in trial(report, case)["worker"]
        assert report["engine"]["executions"] == 6
        assert report["engine"]["duplicate_executions"] >= 2
