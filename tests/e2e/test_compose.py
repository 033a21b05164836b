"""What docker-compose.yml starts is started: on hosts of their own, with its commands, users and secrets."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.compose import Compose
from tests.e2e.fleet import open_fleet, wait_until
from tests.e2e.network import Host, needed_network

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has network namespaces")

ASK = """
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen({!r}).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def test_the_services_of_the_compose_file_carry_out_a_run_on_four_hosts() -> None:
    with needed_network(4, "bwrap", "setpriv") as (broker, first, second, people), open_fleet() as fleet:
        compose = Compose(fleet, {"redis": broker})

        def await_health(service: str, host: Host, container: subprocess.Popen[bytes]) -> None:
            says = {"redis": "Ready to accept", "worker": " ready.", "flower": "Connected to"}[service]
            log = compose.log(service, host)
            wait_until(lambda: container.poll() is not None or says in log.read_text(), f"{service} is ready")
            assert container.poll() is None, fleet.logs()
            assert compose.is_healthy(service, host), fleet.logs()

        await_health("redis", broker, compose.start("redis", broker))
        assert not compose.is_healthy("worker", first)
        workers = {host: compose.start("worker", host) for host in (first, second)}
        flower = compose.start("flower", people)
        for host, worker in workers.items():
            await_health("worker", host, worker)
        await_health("flower", people, flower)

        done = compose.run("submit", people)
        assert done.returncode == 0, done.stdout + done.stderr + fleet.logs()
        # What the fleet says of itself, to somebody who has the secrets.
        found = json.loads(compose.run("submit", people, "farm", "doctor", "--json").stdout)
        said = {finding["name"]: finding for finding in found}
        assert said["broker"]["works"], said
        assert said["workers"]["said"].startswith("2 live, 8 sessions at once"), said
        assert said["signing"]["works"], said
        # Who has none is let in nowhere.
        asked = compose.run("flower", people, "python", "-c", ASK.format("http://127.0.0.1:5555/workers"))
        assert asked.stdout.strip() == "401", asked
        (compose.secrets / "broker_url").chmod(0o644)
        (compose.secrets / "broker_url").write_text("redis://redis:6379/0")
        refused = compose.run("submit", people)
        assert refused.returncode == 3
        assert "password" in refused.stderr

        for worker in workers.values():
            compose.stop(worker)
        assert [worker.wait(60) for worker in workers.values()] == [0, 0], fleet.logs()
