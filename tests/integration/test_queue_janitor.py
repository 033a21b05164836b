"""What the janitor does, and what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from farm.queue.janitor import Janitor
from farm.queue.names import agent_queue
from farm.queue.server import Server, private_server
from tests.integration.test_queue_aggregation import broker_of, claim, complete, submit


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server of this test's own: a janitor looks after all runs."""
    with private_server() as running:
        yield running


def test_a_message_that_was_lost_is_queued_again_only_once_the_queue_is_known_to_be_empty(
    own_server: Server, run_id: str
) -> None:
    broker = broker_of(own_server)
    jobs = submit(broker, run_id, 3)  # a submitter that died before it published anything
    queue = agent_queue("scripted")
    janitor = Janitor(broker, "janitor")
    janitor.reconcile()
    assert broker.queued([queue]) == 0  # one look proves nothing
    janitor.reconcile()
    assert broker.queued([queue]) == 3
    for _ in range(5):
        janitor.reconcile()
    assert broker.queued([queue]) == 3  # they wait for their turn
    # Taken and claimed: not lost, however empty the queue.
    broker.client.delete(queue)
    claims = [claim(broker, job) for job in jobs]
    for _ in range(5):
        janitor.reconcile()
    assert broker.queued([queue]) == 0
    assert [complete(broker, each) for each in claims] == ["stored", "stored", "last"]
    # The one that wrote the last result died before it could ask for the report.
    for _ in range(3):
        janitor.reconcile()
    assert broker.queued(["control"]) == 1


def test_a_trial_whose_delay_is_over_is_queued_once(own_server: Server, run_id: str) -> None:
    broker = broker_of(own_server)
    (job,) = submit(broker, run_id, 1)
    janitor = Janitor(broker, "janitor")
    broker.ledger.give_back(claim(broker, job), delay_ms=500)
    deadline = time.monotonic() + 30
    while not broker.queued([agent_queue("scripted")]) and time.monotonic() < deadline:
        janitor.reconcile()  # all the while the queue is empty
        time.sleep(0.05)
    assert broker.queued([agent_queue("scripted")]) == 1
    assert janitor.queued_again == {"lost_worker": 0, "due": 1}


def test_a_run_that_can_not_be_read_costs_no_other_its_recovery(own_server: Server, run_id: str) -> None:
    broker = broker_of(own_server)
    torn, broken = f"{run_id}-torn", f"{run_id}-broken"
    submit(broker, torn, 1)
    broker.client.hset(f"farm:run:{torn}:cases", "case0", b"no plan")
    submit(broker, broken, 1)
    broker.client.hset(f"farm:run:{broken}:delays", "1:case0", "no sorted set")
    submit(broker, run_id, 3)
    janitor = Janitor(broker, "janitor")
    for _ in range(2):
        janitor.reconcile()
    # What can't be read is queued as well: who carries it out says so in its case's place.
    assert broker.queued([agent_queue("scripted")]) == 4


def test_one_janitor_at_a_time_keeps_house(own_server: Server, run_id: str) -> None:
    broker = broker_of(own_server)
    submit(broker, run_id, 1)
    first, second = Janitor(broker, "first"), Janitor(broker, "second")
    first.reconcile()
    for _ in range(5):
        second.reconcile()
    assert broker.queued([agent_queue("scripted")]) == 0
    first.reconcile()
    assert broker.queued([agent_queue("scripted")]) == 1


def test_every_task_that_is_sent_by_name_is_one_that_workers_know(server: Server) -> None:
    # In a process of its own: the application is made from the environment, once.
    program = (
        "import farm.queue.names as names; from workers.app import app; app.loader.import_default_modules();"
        "sent = {value for name, value in vars(names).items() if isinstance(value, str) and value.startswith('farm.') and name.isupper()};"
        "assert sent, 'no task has a name'; assert sent <= set(app.tasks), sent - set(app.tasks)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "FARM_BROKER_URL": server.broker_url},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
