"""Two hosts that share a broker and nothing else: network namespaces, each with a file system of its own."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet, is_alive, open_fleet, server_program, start, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has network namespaces")

PASSWORD = "correct-horse"
_numbers = itertools.count()


@dataclass(frozen=True)
class Host:
    """A network namespace with an address."""

    name: str
    address: str

    def command(self, *command: str | Path, hides: Path | None = None) -> list[str]:
        """Give a command as it is run on this host; what it hides is an empty directory there."""
        entered = ["ip", "netns", "exec", self.name]
        if hides is None:
            return [*entered, *map(str, command)]
        hidden = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
        return [*entered, "unshare", "--mount", "sh", "-c", hidden, str(hides), *map(str, command)]


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Set up two hosts with a cable between them."""
    reason = _why_not()
    if reason is not None:
        assert os.geteuid() != 0 or not os.environ.get("CI"), f"CI must be able to do this: {reason}"
        pytest.skip(reason)
    # Of this process and test alone; an interface's name has no more than 15 characters.
    mark = f"{os.getpid() % 10**6}{next(_numbers)}"
    third = os.getpid() % 250 + 1
    hosts = Host(f"farm-a-{mark}", f"10.231.{third}.1"), Host(f"farm-b-{mark}", f"10.231.{third}.2")
    cables = f"fa{mark}", f"fb{mark}"
    with ExitStack() as stack:
        for host in hosts:
            _ip("netns", "add", host.name)
            stack.callback(_ip, "netns", "delete", host.name)
        _ip(
            "link",
            "add",
            cables[0],
            "netns",
            hosts[0].name,
            "type",
            "veth",
            "peer",
            cables[1],
            "netns",
            hosts[1].name,
        )
        for host, cable in zip(hosts, cables, strict=True):
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", cable)
            _ip("-n", host.name, "link", "set", cable, "up")
            _ip("-n", host.name, "link", "set", "lo", "up")
        yield hosts


def _why_not() -> str | None:
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if not (shutil.which("ip") and shutil.which("unshare")):
        return "iproute2 and util-linux are not installed"
    name = f"farm-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"network namespaces do not work here: {tried.stderr.strip()}"
    _ip("netns", "delete", name)
    return None


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


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
        submitters, workers = stack.enter_context(two_hosts())
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
