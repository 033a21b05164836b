"""One broker with all that lies on it: the ledger, the blobs, and the queues.

Connections are made when they are needed: importing Celery and a client takes longer than many a command.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from farm.errors import FarmError
from farm.model.job import CaseJob
from farm.queue.archive import Archive, BrokerArchive, StoreArchive
from farm.queue.blobs import (
    DEFAULT_EXPIRY_SECONDS,
    BlobStore,
    BrokerBlobs,
    DirectoryBlobs,
    TieredBlobs,
    open_blobs,
    open_store,
    store_errors,
)
from farm.queue.broker_address import url_from_environment
from farm.queue.connection import DEFAULT_PATIENCE_SECONDS, LedgerError, broker_url, clear_errors, connect
from farm.queue.ended import one_line
from farm.queue.ledger import DEFAULT_LEASE_MS, Ledger
from farm.queue.names import (
    AGGREGATE,
    CARRY_OUT,
    CONTROL_QUEUE,
    EMBEDDED_VARIABLE,
    LEASE_VARIABLE,
    STORE_VARIABLE,
    agent_queue,
)
from farm.queue.signing import Signer, signer_from_environment

if TYPE_CHECKING:
    import redis
    from celery import Celery

_PUBLISHED_AT_ONCE = 500


@dataclass(frozen=True)
class Broker:
    """Where a farm's submitters and workers meet."""

    url: str
    store_url: str | None = None
    lease_ms: int = DEFAULT_LEASE_MS
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS  # with a server that is away
    is_embedded: bool = False  # a server of our own, which writes down what it knows
    signer: Signer = field(default_factory=Signer)

    @cached_property
    def client(self) -> redis.Redis:
        """The connection that the ledger and the blobs share."""
        return connect(self.url, patience_seconds=self.patience_seconds)

    @cached_property
    def ledger(self) -> Ledger:
        """The truth about all runs."""
        return Ledger(self.client, lease_ms=self.lease_ms)

    @cached_property
    def blobs(self) -> BlobStore:
        """Bundles, transcripts, and the files that cases refer to."""
        if not self.store_url:
            return BrokerBlobs(self.client)
        store = open_blobs(self.store_url)
        return TieredBlobs(BrokerBlobs(self.client), store) if self.is_embedded else store

    @property
    def store_mark(self) -> str:
        """What tells this broker's store from another: not its URL, which may hold a password."""
        return hashlib.sha256((self.store_url or "").encode()).hexdigest()[:16]

    @cached_property
    def archive(self) -> Archive:
        """The reports of runs that are over."""
        if self.store_url:
            return StoreArchive(*open_store(self.store_url))
        return BrokerArchive(
            self.client, self.blobs, expiry_seconds=DEFAULT_EXPIRY_SECONDS, signer=self.signer
        )

    @cached_property
    def celery(self) -> Celery:
        """The application that sends messages."""
        from farm.queue.app import make_celery

        return make_celery(broker_url(self.url))

    def publish(self, jobs: Iterable[tuple[CaseJob, str]]) -> int:
        """Queue trials, each with the kind of its agent; give their number."""
        return self._send(
            (CARRY_OUT, {"run_id": job.run_id, "case_id": job.case_id, "trial": job.trial}, agent_queue(kind))
            for job, kind in jobs
        )

    def publish_aggregation(self, run_id: str) -> None:
        """Queue the aggregation of a run that has been closed."""
        self._send([(AGGREGATE, {"run_id": run_id}, CONTROL_QUEUE)])

    def tell(self, run_id: str, line: str) -> None:
        """Tell those who watch a run, if anybody does, what goes on in it."""
        with clear_errors():
            self.client.publish(_channel(run_id), line.encode(errors="replace"))

    def listen(self, run_id: str) -> Callable[[], list[str]]:
        """Begin to listen to what is told of a run; gives a function that gives what is new."""
        with clear_errors():
            channel = self.client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
            channel.subscribe(_channel(run_id))
            channel.get_message(timeout=5.0)  # that it is heard: what is told from now on is not missed

        def news() -> list[str]:
            lines = []
            with clear_errors():
                while message := channel.get_message():
                    lines.append(message["data"].decode(errors="replace"))
            return lines

        return news

    def write_down(self, directory: Path) -> None:
        """Have a server of our own write down what it knows, from now on."""
        with clear_errors():
            self.client.config_set("dir", str(directory))
            self.client.config_set("appendonly", "yes")

    def remove_unused_blobs(self) -> None:
        """Remove from a store of our own what no run has used for long."""
        if self.store_url and self.is_embedded:
            with store_errors():
                DirectoryBlobs(Path(self.store_url.removeprefix("file://"))).remove_unused()

    def queued(self, queues: Iterable[str]) -> int:
        """Count the messages that nobody has taken yet."""
        with clear_errors():
            return sum(int(self.client.llen(queue)) for queue in queues)

    def _send(self, messages: Iterable[tuple[str, Mapping[str, object], str]]) -> int:
        from kombu.exceptions import OperationalError

        count = 0
        try:
            with self.celery.producer_or_acquire() as producer, producer.batch(_PUBLISHED_AT_ONCE):
                for task, arguments, queue in messages:
                    self.celery.send_task(
                        task,
                        kwargs=arguments,
                        queue=queue,
                        producer=producer,
                        ignore_result=True,
                        # What Flower shows.
                        kwargsrepr=one_line(" ".join(map(str, arguments.values()))),
                    )
                    count += 1
        except OperationalError as error:
            raise LedgerError(f"the broker takes no messages: {error}") from None
        return count


def broker_from_environment(environment: Mapping[str, str] = os.environ) -> Broker | None:
    """Give the broker that the environment names; None if it names none."""
    url = url_from_environment(environment)
    if url is None:
        return None
    lease = environment.get(LEASE_VARIABLE)
    is_embedded = bool(environment.get(EMBEDDED_VARIABLE))
    return Broker(
        url,
        environment.get(STORE_VARIABLE) or None,
        _milliseconds(lease) if lease else DEFAULT_LEASE_MS,
        is_embedded=is_embedded,
        # Nobody else can write to a server of our own.
        signer=Signer() if is_embedded else signer_from_environment(environment),
    )


def _channel(run_id: str) -> str:
    return f"farm:watch:{run_id}"


def _milliseconds(seconds: str) -> int:
    try:
        value = float(seconds)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 3600:
        raise FarmError(f'{LEASE_VARIABLE} is "{seconds}"; it must be a number of seconds from 0.1 to 3600')
    return round(value * 1000)
