"""The worker's figures: what is counted, and that nothing which goes wrong with them goes further."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from dataclasses import replace
from itertools import islice
from typing import get_args

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from farm.errors import UsageError
from farm.queue.broker import Broker
from farm.queue.ended import Ended, How
from farm.queue.figures import FleetFigures, parse_address
from farm.queue.janitor import Janitor
from farm.queue.ledger import LedgerError
from workers.metrics import FleetCollector, Metrics, TrialFigures
from workers.tally import Tally

FIGURES = FleetFigures({"agent.claude": 7}, {"running": 2}, waiting=7, sessions=3, workers=1, slots=4)


def texts(registry: CollectorRegistry) -> list[str]:
    return generate_latest(registry).decode().splitlines()


@pytest.fixture
def tally():
    tally = Tally()
    yield tally
    tally.close()


def test_what_is_noted_comes_out_but_for_words(tally: Tally) -> None:
    noted = tally.noted()
    for ended in (Ended("passed", agent="claude", seconds=12.5, cost_usd=0.25), Ended("waits")):
        tally.note(replace(ended, why="ä" * 10_000))
        assert next(noted) == ended


def test_a_burst_of_trials_is_counted_whole(tally: Tally) -> None:
    burst = [Ended("passed", agent="claude", seconds=number / 7, cost_usd=1 / 3) for number in range(300)]
    for ended in burst:
        tally.note(ended)
    assert list(islice(tally.noted(), 300)) == burst


def test_no_trial_waits_for_somebody_to_count_it(tally: Tally) -> None:
    for _ in range(10_000):
        tally.note(Ended("passed"))


def test_each_end_is_counted_once() -> None:
    registry = CollectorRegistry()
    figures = TrialFigures(registry)
    for how in get_args(How):
        figures.count(Ended(how, "why", "claude", 20.0, 0.5))
    figures.count(Ended("not_ours", "done"))
    lines = texts(registry)
    for outcome in ("passed", "failed", "errored", "skipped"):
        assert f'farm_trials_total{{agent="claude",outcome="{outcome}"}} 1.0' in lines
    assert 'farm_attempts_retried_total{agent="claude"} 1.0' in lines
    assert 'farm_messages_dropped_total{why="not_ours"} 2.0' in lines
    assert 'farm_messages_dropped_total{why="cancelled"} 1.0' in lines
    assert 'farm_session_seconds_count{agent="claude"} 9.0' in lines
    assert 'farm_session_seconds_bucket{agent="claude",le="10.0"} 0.0' in lines
    assert 'farm_session_seconds_bucket{agent="claude",le="30.0"} 9.0' in lines
    assert 'farm_cost_usd_total{agent="claude"} 4.5' in lines
    assert not any('why="why"' in line for line in lines)


def test_one_look_at_the_fleet_serves_many_who_ask() -> None:
    looks = []

    def look() -> FleetFigures:
        looks.append(1)
        return FIGURES

    registry = CollectorRegistry()
    registry.register(FleetCollector(look))
    assert looks == [], "nobody has asked yet"
    for _ in range(3):
        assert 'farm_queue_messages{queue="agent.claude"} 7.0' in texts(registry)
    assert looks == [1]


def test_a_ledger_that_is_away_is_a_figure_and_no_error() -> None:
    def look() -> FleetFigures:
        raise LedgerError("the broker can't be reached")

    registry = CollectorRegistry()
    registry.register(FleetCollector(look))
    lines = texts(registry)
    assert "farm_ledger_up 0.0" in lines
    assert not any(line.startswith("farm_queue_messages{") for line in lines)


def test_a_worker_without_its_broker_still_answers_and_a_bug_is_an_answer_too(
    tally: Tally, monkeypatch
) -> None:
    broker = Broker("unix:///nonexistent/socket")
    metrics = Metrics(("127.0.0.1", 0), broker, tally)
    metrics.serve(Janitor(broker, "here"))
    at = "http://{}:{}".format(*metrics._server.server_address[:2])
    with urllib.request.urlopen(f"{at}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    assert "farm_ledger_up 0.0" in text
    assert 'farm_trials_queued_again_total{why="lost_worker"} 0.0' in text

    def bug(_registry: CollectorRegistry) -> bytes:
        raise RuntimeError("a bug")

    monkeypatch.setattr("workers.metrics.generate_latest", bug)
    with pytest.raises(urllib.error.HTTPError, match="500") as refused:
        urllib.request.urlopen(f"{at}/metrics", timeout=60)
    refused.value.close()
    with urllib.request.urlopen(f"{at}/healthz", timeout=60) as answer:
        assert answer.read() == b"ok\n"
    metrics._server.shutdown()
    metrics._server.server_close()


def test_a_port_that_is_taken_is_told_at_once(tally: Tally) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(OSError, match="in use"):
            Metrics(other.getsockname(), Broker("unix:///nonexistent/socket"), tally)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9100", ("127.0.0.1", 9100)),
        ("0.0.0.0:9100", ("0.0.0.0", 9100)),
        ("[::1]:9100", ("::1", 9100)),
        ("worker.internal:80", ("worker.internal", 80)),
    ],
)
def test_an_address_is_a_port_and_maybe_a_host(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":9100", "host", "host:", "65536", "-1", "9100x", "٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        parse_address(text)
