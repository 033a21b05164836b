"""Measure what more hosts bring: in one run, which one worker host begins and to which three more are added.

The hosts are network namespaces of this machine, each with a worker that runs two sessions at once. A session
only waits, for a second, as one does that waits for an API: this measures the fleet, not the machine's cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass

from farm.queue.broker import Broker
from tests.e2e.fleet import Fleet, open_fleet, server_program, start, wait_until
from tests.e2e.network import Host, network, why_no_network

HOSTS = 4
AT_ONCE = 2
MEASURED_SECONDS = 15.0
CASES = round(AT_ONCE * MEASURED_SECONDS * 2 + HOSTS * AT_ONCE * MEASURED_SECONDS * 2)


@dataclass(frozen=True)
class Farm:
    """A fleet whose broker and workers have hosts of their own."""

    fleet: Fleet
    broker: Broker  # as this process sees it, which is on none of the hosts

    def done(self, run_id: str) -> int:
        """Count the sessions that have ended."""
        status = self.broker.ledger.status(run_id)
        assert status is not None
        assert status.state == "running", "the run is too short to be measured"
        return status.done

    def add(self, host: Host) -> None:
        """Start a worker on a host."""
        command = (sys.executable, "-m", "workers", "--name", host.name, "--concurrency", str(AT_ONCE))
        log = self.fleet.root / f"{host.name}.log"
        process = start(*host.command(*command), log=log, env=self.fleet.env, cwd=self.fleet.root)
        self.fleet.others.append(process)

    def rate(self, run_id: str, hosts: int) -> float:
        """Measure the sessions a second once so many hosts work."""
        wait_until(lambda: len(self.broker.ledger.workers()) == hosts, f"{hosts} workers are ready")
        time.sleep(2.0)  # so that all of them have begun, and ended something
        started, before = time.monotonic(), self.done(run_id)
        time.sleep(MEASURED_SECONDS)
        return (self.done(run_id) - before) / (time.monotonic() - started)


def main() -> None:
    """Print sessions a second with one host and with four."""
    if reason := why_no_network():
        sys.exit(f"this can't be measured here: {reason}")
    with ExitStack() as stack:
        server, *hosts = stack.enter_context(network(HOSTS + 1))
        fleet = stack.enter_context(open_fleet(FARM_LEASE_SECONDS="30"))
        farm = Farm(fleet, _start_server(fleet, server))
        farm.add(hosts[0])
        run_id = _submit(fleet, server)
        one = farm.rate(run_id, 1)
        for host in hosts[1:]:
            farm.add(host)
        all_of_them = farm.rate(run_id, HOSTS)
        print(f"sessions of 1 s, {AT_ONCE} at once on each host, in one run of {CASES}:")
        print(f"  1 host  {one:5.2f} sessions/s ({one / AT_ONCE:.0%} of what is possible)")
        possible = all_of_them / AT_ONCE / HOSTS
        print(f"  {HOSTS} hosts {all_of_them:5.2f} sessions/s ({possible:.0%}), {all_of_them / one:.2f} x")
        farm.broker.ledger.cancel(run_id)


def _start_server(fleet: Fleet, host: Host) -> Broker:
    directory = fleet.root / "server"
    directory.mkdir()
    options = ("--bind", host.address, "--protected-mode", "no", "--save", "", "--dir", directory)
    command = host.command(server_program(), *options, "--unixsocket", directory / "s")
    log = fleet.root / "server.log"
    fleet.others.append(start(*command, log=log, env=fleet.env, cwd=fleet.root))
    wait_until(lambda: (directory / "s").exists(), "the server listens")
    fleet.env["FARM_BROKER_URL"] = f"redis://{host.address}:6379/0"
    return Broker(f"unix://{directory / 's'}")


def _submit(fleet: Fleet, host: Host) -> str:
    agents = {"waiting": {"kind": "command", "command": "sleep 1; echo done"}}
    fleet.write("farm.yaml", json.dumps({"isolation": "process", "workspace": "empty", "agents": agents}))
    fleet.write("empty/.gitkeep", "")
    evaluators = [{"type": "contains", "value": "done"}]
    cases = [{"id": f"case-{number}", "input": "-"} for number in range(CASES)]
    path = fleet.write(
        "suite.yaml", json.dumps({"target": "waiting", "evaluators": evaluators, "cases": cases})
    )
    command = host.command(sys.executable, "-m", "farm", "submit", "--json", path)
    done = subprocess.run(command, cwd=fleet.project, env=fleet.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run_id: str = json.loads(done.stdout)["run_id"]
    return run_id


if __name__ == "__main__":
    main()
