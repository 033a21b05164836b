"""What a worker does beside its tasks: it announces itself, keeps house, and drains when it has to go."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from celery import signals
from celery.worker.control import inspect_command

from farm.errors import FarmError
from farm.queue.carry_out import prepare
from farm.queue.connection import shown
from farm.queue.figures import parse_address
from farm.queue.janitor import Janitor
from farm.queue.ledger import WorkerRecord
from farm.queue.names import GRACE_VARIABLE, METRICS_VARIABLE
from farm.sessions.guarding import start_guard
from farm.sessions.leftovers import remove_leftovers
from workers.app import broker
from workers.place import start_draining, tally, work_place

if TYPE_CHECKING:
    from workers.metrics import Metrics

_DEFAULT_GRACE_SECONDS = 30.0

_KEEP_HOUSE_EVERY_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1
_WORKER_PID = os.getpid()  # also in what it forks

_log = logging.getLogger(__name__)


@signals.worker_init.connect
def _prepare(**_: Any) -> None:
    # Before the pool forks: its processes share it all.
    work_place()
    start_guard()
    prepare()
    _metrics()


@signals.worker_process_init.connect
def _die_with_worker(**_: Any) -> None:
    """Have the system kill this pool process when its worker is: it would end its session alone."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != _WORKER_PID:  # it was killed before we could ask
            os._exit(1)


@signals.worker_ready.connect
def _begin(sender: Any, **_: Any) -> None:
    queues = sorted(sender.task_consumer.queues, key=lambda queue: queue.name)
    record = WorkerRecord(
        name=work_place().name,
        host=socket.gethostname(),
        pid=os.getpid(),
        agents=tuple(q.name.removeprefix("agent.") for q in queues if q.name.startswith("agent.")),
        concurrency=sender.pool.num_processes,
        started_at_ms=round(time.time() * 1000),
        key_id=broker.signer.key_id,
    )
    janitor = Janitor(broker, record.name)
    threading.Thread(target=_keep_house, args=(record, janitor), name="farm-janitor", daemon=True).start()
    if (metrics := _metrics()) is not None:
        metrics.serve(janitor)


@signals.worker_shutting_down.connect
def _drain(**_: Any) -> None:
    """Let sessions end by themselves for a while; then give them back."""
    timer = threading.Timer(_grace_seconds(), start_draining)
    timer.daemon = True
    timer.start()


@signals.worker_shutdown.connect
def _leave(**_: Any) -> None:
    try:
        broker.ledger.withdraw(work_place().name)
    except FarmError as error:
        _log.warning("could not say good-bye: %s", error)


@inspect_command()
def stats(state: Any, **_: Any) -> dict[str, Any]:
    """Answer as Celery does, but without a password: the address of a socket would have it."""
    told: dict[str, Any] = state.consumer.controller.stats()
    if isinstance(place := told.get("broker"), dict):
        place["hostname"] = shown(str(place.get("hostname")))
    return told


def _keep_house(record: WorkerRecord, janitor: Janitor) -> None:
    _remove_leftovers()
    while True:
        try:
            broker.ledger.announce(record)
            janitor.reconcile()
        except FarmError as error:
            _log.warning("the janitor waits: %s", error)
        except Exception:  # noqa: BLE001
            _log.exception("the janitor stumbled")  # and goes on: without it, what is lost stays lost
        time.sleep(_KEEP_HOUSE_EVERY_SECONDS)


@cache
def _metrics() -> Metrics | None:
    """Give the figures of this worker, if they are asked for; end it if they can't be served there."""
    counts = tally()
    if counts is None:
        return None
    from workers.metrics import Metrics

    told = os.environ[METRICS_VARIABLE]
    try:
        return Metrics(parse_address(told), broker, counts)
    except (FarmError, OSError) as error:
        sys.stderr.write(f"farm: {METRICS_VARIABLE}={told}: figures can't be served there: {error}\n")
        raise SystemExit(2) from None


def _remove_leftovers() -> None:
    try:
        found = remove_leftovers()
    except (FarmError, OSError) as error:
        _log.warning("what an earlier worker left could not be removed: %s", error)
        return
    if found.directories or found.processes:
        counts = (len(found.directories), found.processes)
        _log.warning("removed what an earlier worker left: %s directories, %s processes", *counts)


def _grace_seconds() -> float:
    told = os.environ.get(GRACE_VARIABLE)
    try:
        return float(told) if told else _DEFAULT_GRACE_SECONDS
    except ValueError:
        _log.warning('%s is "%s", which is no number of seconds', GRACE_VARIABLE, told)
        return _DEFAULT_GRACE_SECONDS
