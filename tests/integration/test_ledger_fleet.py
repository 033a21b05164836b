"""What workers share beside the runs: locks, and who of them lives."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Iterator

import pytest

from farm.queue.ledger import Ledger, WorkerRecord


@pytest.fixture
def ledger(client) -> Ledger:
    return Ledger(client)


@pytest.fixture
def name(ledger: Ledger) -> Iterator[str]:
    """A name of this test's own. What bears it goes with it: other tests look at all workers."""
    name = f"name-{secrets.token_hex(6)}"
    yield name
    ledger.withdraw(name)


def record(name: str) -> WorkerRecord:
    return WorkerRecord(name, "höst", 42, ("claude", "command"), 16, 1_700_000_000_000)


def test_a_lock_has_one_owner_at_a_time_who_may_keep_it(ledger, client, name):
    assert ledger.take_lock(name, "a", 60_000)
    assert not ledger.take_lock(name, "b", 60_000)
    client.pexpire(f"farm:lock:{name}", 1000)
    assert ledger.take_lock(name, "a", 60_000)
    assert client.pttl(f"farm:lock:{name}") > 1000
    assert not ledger.release_lock(name, "b")
    assert ledger.release_lock(name, "a")
    assert ledger.take_lock(name, "b", 60_000)


def test_a_dead_owners_lock_frees_itself(ledger, name):
    assert ledger.take_lock(name, "a", 1)
    time.sleep(0.02)
    assert ledger.take_lock(name, "b", 60_000)
    assert not ledger.release_lock(name, "a")


def test_workers_live_as_long_as_they_say_so(ledger, client, name):
    worker = record(name)
    ledger.announce(worker)
    assert worker in ledger.workers()
    changed = dataclasses.replace(worker, concurrency=3)
    ledger.announce(changed)
    assert [found for found in ledger.workers() if found.name == name] == [changed]
    ledger.withdraw(name)
    assert name not in {found.name for found in ledger.workers()}


def test_the_dead_are_removed(ledger, client, name):
    ledger.announce(record(name), ttl_ms=1)
    time.sleep(0.02)
    assert name not in {found.name for found in ledger.workers()}
    assert not client.hexists("farm:workers:records", name)


def test_a_worker_of_another_version_does_not_keep_us_from_seeing_the_others(ledger, client, name):
    ledger.announce(record(name))
    client.hset("farm:workers:records", f"{name}-odd", b'{"name": 1')
    client.zadd("farm:workers", {f"{name}-odd": 4e12})
    assert name in {found.name for found in ledger.workers()}
    ledger.withdraw(f"{name}-odd")
