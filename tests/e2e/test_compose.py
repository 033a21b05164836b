"""What docker-compose.yml starts is started: on hosts of their own, with its commands, users and secrets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.compose import Compose
from tests.e2e.fleet import open_fleet, wait_until
from tests.e2e.network import Host, network, why_no_network

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has network namespaces")


@contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Set hosts up; skip where that is impossible, but not for root in CI."""
    reason = why_no_network() or (None if shutil.which("bwrap") else "bubblewrap is not installed")
    if reason is not None:
        assert os.geteuid() != 0 or not os.environ.get("CI"), f"CI must be able to do this: {reason}"
        pytest.skip(reason)
    with network(count) as made:
        yield made


def test_the_services_of_the_compose_file_carry_out_a_run_on_four_hosts() -> None:
    with hosts(4) as (broker, first, second, submitter), open_fleet() as fleet:
        compose = Compose(fleet, {"redis": broker})
        redis = compose.start("redis", broker)
        wait_until(lambda: redis.poll() is not None or compose.is_healthy("redis", broker), "redis is healthy")
        assert redis.poll() is None, fleet.logs()
        workers = {host: compose.start("worker", host) for host in (first, second)}
        for host, worker in workers.items():
            wait_until(
                lambda: worker.poll() is not None or compose.is_healthy("worker", host),  # noqa: B023
                f"the worker on {host.address} is healthy",
            )
            assert worker.poll() is None, fleet.logs()

        done = compose.run("submit", submitter)
        assert done.returncode == 0, done.stdout + done.stderr + fleet.logs()
        assert "passed" in done.stdout

        for worker in workers.values():
            _end(worker)
