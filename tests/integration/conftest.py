"""A real server for every test process, on a socket of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
import redis

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
