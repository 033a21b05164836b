"""Try what the farm does with a broker, a store and an embedded server, and say in a line how it went."""

from __future__ import annotations

import secrets
import time

from farm.queue.blobs import BlobError, open_store, store_errors
from farm.queue.broker import Broker
from farm.queue.connection import LedgerError, clear_errors
from farm.queue.server import private_server

_CELERY_KEYS = (
    "agent.doctor",
    "control.doctor",
    "doctor.celery.pidbox",
    "celeryev.doctor",
    "_kombu.doctor",
    "unacked.doctor",
)
_CELERY_CHANNELS = ("celery.pidbox", "celeryev/worker.*")


def examine_broker(broker: Broker) -> str:
    """Use the broker as a run does; LedgerError if it can't be used so."""
    name = f"doctor-{secrets.token_hex(4)}"
    started = time.monotonic()
    with clear_errors():
        broker.client.ping()
        took_ms = (time.monotonic() - started) * 1000
        facts = broker.client.info()
    broker.ledger.take_lock(name, name, 10_000)  # a script, as every step of a run
    broker.ledger.release_lock(name, name)
    check_rights(broker)
    program = "Valkey" if "valkey_version" in facts else "Redis"
    version = facts.get("valkey_version") or facts.get("redis_version")
    policy = str(facts.get("maxmemory_policy", "noeviction"))
    if facts.get("maxmemory") and policy != "noeviction":
        raise LedgerError(
            f"it drops what a run needs when it is full (maxmemory-policy {policy}); use noeviction"
        )
    kept = "" if facts.get("aof_enabled") else "; it keeps nothing on disk, so its restart loses all runs"
    return f"{program} {version}, answers in {took_ms:.1f} ms{kept}"


def check_rights(broker: Broker) -> None:
    """Try what Celery will need of the broker, and change nothing; LedgerError if it is not allowed.

    A worker that is not allowed it would try for ever.
    """
    database = broker.client.connection_pool.connection_kwargs.get("db") or 0
    with clear_errors():
        for key in _CELERY_KEYS:
            broker.client.persist(key)  # a write, but there is no such key
        broker.tell("doctor", "")
        with broker.client.pubsub() as listener:  # type: ignore[no-untyped-call]
            for channel in _CELERY_CHANNELS:
                listener.psubscribe(f"/{database}.{channel}")
                listener.get_message(timeout=5.0)


def examine_store(broker: Broker) -> str:
    """Write to the store, read it back, and remove it; BlobError if that can't be done."""
    assert broker.store_url is not None
    files, root = open_store(broker.store_url)
    path, data = f"{root}/.doctor-{secrets.token_hex(4)}", secrets.token_bytes(16)
    try:
        with store_errors():
            files.makedirs(root, exist_ok=True)
            files.pipe_file(path, data)
            same = files.cat_file(path) == data
            files.rm_file(path)
    except FileNotFoundError as error:
        raise BlobError(f"the store can't keep or give blobs: {error}") from None
    if not same:
        raise BlobError("the store gives back something else than was written to it")
    return "can be written and read"


def examine_server() -> str:
    """Start an embedded server, and end it; ServerError if there is none for this machine."""
    started = time.monotonic()
    with private_server():
        return f"starts in {(time.monotonic() - started) * 1000:.0f} ms"
