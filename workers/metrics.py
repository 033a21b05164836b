"""Serve figures to Prometheus: what came of this worker's trials, what it is at, and how the fleet stands.

Imported only by a worker that is asked for them. Whatever goes wrong here, the worker goes on.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from celery.worker.state import active_requests
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from farm.agents.registry import AGENTS
from farm.errors import FarmError
from farm.queue.broker import Broker
from farm.queue.ended import Ended
from farm.queue.figures import FleetFigures, fleet_figures
from farm.queue.janitor import Janitor
from farm.queue.names import CARRY_OUT, CONTROL_QUEUE, agent_queue
from workers.tally import Tally

_FLEET_SECONDS = 5.0  # so long one look at the fleet is good for all who ask
_PATIENCE_SECONDS = 1.0  # with a broker that is away
_REQUEST_SECONDS = 10.0
_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)

_log = logging.getLogger(__name__)


class TrialFigures:
    """Counts what came of trials."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._trials = Counter(
            "farm_trials", "Trials with a result, by its outcome", ["agent", "outcome"], registry=registry
        )
        self._retried = Counter(
            "farm_attempts_retried", "Attempts that errored and are made again", ["agent"], registry=registry
        )
        self._dropped = Counter(
            "farm_messages_dropped", "Messages that led to no result, by why", ["why"], registry=registry
        )
        self._seconds = Histogram(
            "farm_session_seconds", "How long sessions took", ["agent"], buckets=_BUCKETS, registry=registry
        )
        self._cost = Counter(
            "farm_cost_usd",
            "What sessions and their judges cost, as far as known",
            ["agent"],
            registry=registry,
        )

    def count(self, ended: Ended) -> None:
        """Take one trial into account."""
        agent = ended.agent or "unknown"
        match ended.how:
            case "passed" | "failed" | "errored" | "skipped":
                self._trials.labels(agent, ended.how).inc()
            case "again":
                self._retried.labels(agent).inc()
            case _:
                self._dropped.labels(ended.how).inc()
        if ended.seconds is not None:
            self._seconds.labels(agent).observe(ended.seconds)
        if ended.cost_usd > 0:
            self._cost.labels(agent).inc(ended.cost_usd)


class FleetCollector(Collector):
    """Looks at the fleet when somebody asks, but not for each who does."""

    def __init__(self, look: Callable[[], FleetFigures]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._seen: FleetFigures | None = None
        self._good_until = 0.0

    def describe(self) -> list[Metric]:
        """Say nothing beforehand: else it would have to look at once."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Give the figures, or that there are none."""
        seen = self._figures()
        yield GaugeMetricFamily("farm_ledger_up", "Whether the ledger can be read", value=seen is not None)
        if seen is None:
            return
        queued = GaugeMetricFamily("farm_queue_messages", "Messages that nobody has taken", labels=["queue"])
        for queue, count in seen.queued.items():
            queued.add_metric([queue], count)
        yield queued
        runs = GaugeMetricFamily("farm_runs", "Runs that the ledger knows, by state", labels=["state"])
        for state, count in seen.runs.items():
            runs.add_metric([state], count)
        yield runs
        for name, what, value in (
            ("farm_fleet_trials_waiting", "Trials that are not begun, of runs that go on", seen.waiting),
            ("farm_fleet_sessions", "Sessions that run, on all workers", seen.sessions),
            ("farm_fleet_workers", "Workers that live", seen.workers),
            ("farm_fleet_slots", "Sessions that all workers can run at once", seen.slots),
        ):
            yield GaugeMetricFamily(name, what, value=value)

    def _figures(self) -> FleetFigures | None:
        with self._lock:
            if time.monotonic() >= self._good_until:
                try:
                    self._seen = self._look()
                except FarmError as error:
                    _log.warning("the fleet can't be looked at: %s", error)
                    self._seen = None
                self._good_until = time.monotonic() + _FLEET_SECONDS
            return self._seen


class JanitorCollector(Collector):
    """Tells what this worker's janitor had to do."""

    def __init__(self, janitor: Janitor) -> None:
        self._janitor = janitor

    def describe(self) -> list[CounterMetricFamily]:
        """Name the one figure."""
        return [
            CounterMetricFamily("farm_trials_queued_again", "Trials that the janitor queued", labels=["why"])
        ]

    def collect(self) -> Iterator[Metric]:
        """Give it."""
        (family,) = self.describe()
        for why in ("due", "lost_message", "lost_worker"):
            family.add_metric([why], self._janitor.queued_again[why])
        yield family


class Metrics:
    """The figures of one worker, and the server that tells them."""

    def __init__(self, address: tuple[str, int], broker: Broker, tally: Tally) -> None:
        self._registry = CollectorRegistry()
        self._trials = TrialFigures(self._registry)
        self._tally = tally
        impatient = replace(broker, patience_seconds=_PATIENCE_SECONDS)
        queues = (CONTROL_QUEUE, *map(agent_queue, AGENTS))
        self._registry.register(FleetCollector(lambda: fleet_figures(impatient, queues)))
        sessions = Gauge("farm_sessions_running", "Sessions that run on this worker", registry=self._registry)
        sessions.set_function(_sessions)
        self._server = _bind(address, self._registry)

    def serve(self, janitor: Janitor) -> None:
        """Begin to count and to answer; not before the pool has forked, which must fork no thread at work."""
        self._registry.register(JanitorCollector(janitor))
        threading.Thread(target=self._count, name="farm-tally", daemon=True).start()
        threading.Thread(target=self._server.serve_forever, name="farm-metrics", daemon=True).start()
        host, port = self._server.server_address[:2]
        _log.info("figures are served on http://%s:%s/metrics", host, port)

    def _count(self) -> None:
        for ended in self._tally.noted():
            self._trials.count(ended)


def _sessions() -> int:
    # Copied at once: while we look, others come and go.
    requests = [request() for request in tuple(active_requests.data)]
    return sum(request is not None and request.name == CARRY_OUT for request in requests)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        _log.info("whoever asked for figures has gone", exc_info=_log.isEnabledFor(logging.DEBUG))


def _bind(address: tuple[str, int], registry: CollectorRegistry) -> ThreadingHTTPServer:
    class Server(_Server):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET

    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/healthz":
                # It says that this process lives. A broker that is away is no reason to kill its sessions.
                self._answer(HTTPStatus.OK, "text/plain", b"ok\n")
            elif path == "/metrics":
                self._answer(*_scrape(registry))
            else:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"there are /metrics and /healthz\n")

        def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            _log.debug(format, *arguments)

    return Server(address, Handler)


def _scrape(registry: CollectorRegistry) -> tuple[HTTPStatus, str, bytes]:
    try:
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)
    except Exception:  # noqa: BLE001 — figures are no reason for anything else to stop
        _log.exception("the figures could not be written")
        return HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"the worker's log says why\n"
