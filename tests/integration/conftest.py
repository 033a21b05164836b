"""A real server for every test process, on a socket of its own, and a place to carry trials out in."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
import redis

from farm.queue.broker import Broker
from farm.queue.carry_out import WorkPlace
from farm.queue.heartbeat import Heartbeat
from farm.queue.server import Server, private_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A private Valkey server."""
    with private_server() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """A connection to it."""
    with redis.Redis.from_url(server.url) as connected:
        yield connected


@pytest.fixture
def run_id() -> str:
    """A run of this test's own: the server is shared by many."""
    return f"run-{secrets.token_hex(6)}"


@pytest.fixture(params=["broker", "store"])
def broker(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker, once with blobs on it, once with a store beside it."""
    store = tmp_path_factory.mktemp("store").as_uri() if request.param == "store" else None
    connected = Broker(server.broker_url, store)
    yield connected
    connected.client.close()


@pytest.fixture
def place(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> WorkPlace:
    """A worker's place, in this very process."""
    heartbeat = Heartbeat(broker.ledger, lease_ms=broker.lease_ms)
    return WorkPlace("here", broker, heartbeat, tmp_path_factory.mktemp("cache"))
