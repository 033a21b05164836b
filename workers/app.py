"""The Celery application: `celery -A workers.app worker|beat|flower|inspect …`."""

from __future__ import annotations

import os

from celery import Celery
from kombu import Exchange, Queue

from farm.agents.availability import usable_agents
from farm.agents.registry import AGENTS
from farm.errors import FarmError
from farm.queue.broker import Broker, broker_from_environment
from farm.queue.names import AGENTS_VARIABLE, CONTROL_QUEUE, URL_VARIABLE, agent_queue
from workers.pool import use_for_threads
from workers.transport import use_for_redis


def _broker() -> Broker:
    try:
        broker = broker_from_environment()
    except FarmError as error:
        raise SystemExit(f"farm: {error}") from None
    if broker is None:
        raise SystemExit(
            f"farm: {URL_VARIABLE} is not set; a worker needs a broker, such as redis://127.0.0.1:6379/0"
        )
    return broker


def _agents() -> tuple[str, ...]:
    """Name the kinds of agents that this worker serves: those it is told to, else those that can run here."""
    if broker.is_embedded:
        return tuple(AGENTS)  # there is no other worker: who can't run says so as a result
    told = os.environ.get(AGENTS_VARIABLE)
    if told is None:
        return usable_agents()
    kinds = tuple(kind.strip() for kind in told.split(",") if kind.strip())
    if unknown := [kind for kind in kinds if kind not in AGENTS]:
        raise SystemExit(f"farm: unknown kind of agent {', '.join(unknown)}; known are {', '.join(AGENTS)}")
    return kinds


use_for_redis()
use_for_threads()
broker = _broker()
app: Celery = broker.celery
# Each with an exchange and a key of its own: by default all would share one, and get each other's messages.
app.conf.task_queues = [
    # no_ack: see workers.transport.
    Queue(name, Exchange(name), routing_key=name, no_ack=True)
    for name in (CONTROL_QUEUE, *(agent_queue(kind) for kind in _agents()))
]
app.conf.imports = ("workers.tasks", "workers.lifecycle")
app.conf.beat_scheduler = "farm.queue.scheduler:Scheduler"  # the schedules of farm.yaml
