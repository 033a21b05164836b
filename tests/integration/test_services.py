"""When the service behind an agent is busy, all workers wait before they start more sessions of it."""

from __future__ import annotations

import secrets
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from farm.cli.status import run as farm_status
from farm.evaluators import llm
from farm.model.agent import AnthropicSpec, ScriptedSpec
from farm.model.job import CaseJob
from farm.model.suite import Case, Suite
from farm.queue import fleet
from farm.queue.broker import Broker
from farm.queue.carry_out import WorkPlace, carry_out
from farm.queue.ended import Ended
from farm.queue.heartbeat import Heartbeat
from farm.queue.ledger import Ledger, Limit, Refused
from farm.queue.planning import RunOptions
from farm.queue.server import Server
from farm.queue.submit import new_run_id, submit_run
from farm.settings import Settings
from tests.integration.ledger_builders import a_minute_later, claimed, jobs, status_of
from tests.unit.builders import case as make_case
from tests.unit.sessions.processes import wait_until


@pytest.fixture
def ledger(client) -> Ledger:
    return Ledger(client)


@pytest.fixture
def name() -> str:
    """A service of this test's own."""
    return f"anthropic:{secrets.token_hex(6)}"


def over(client: redis.Redis, name: str) -> None:
    """Let a service's pause pass."""
    client.delete(f"farm:limit:{name}:pause")
    client.zrem("farm:pauses", name)


def strike(ledger: Ledger, client: redis.Redis, name: str, began_ms: int) -> int:
    over(client, name)
    return ledger.note_busy(name, began_ms)


def server_ms(client: redis.Redis) -> int:
    seconds, microseconds = client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def test_each_strike_in_a_row_doubles_the_pause_up_to_the_longest(ledger, client, name):
    far = server_ms(client) + 3_600_000  # of sessions that began after all strikes so far
    pauses = [strike(ledger, client, name, far) for _ in range(12)]
    for number, pause in enumerate(pauses):
        most = min(fleet.FIRST_PAUSE_MS * 2**number, fleet.LONGEST_PAUSE_MS)
        assert most / 2 <= pause <= most


def test_sessions_that_are_turned_away_together_are_one_strike(ledger, client, name):
    began = server_ms(client) - 1000
    first = ledger.note_busy(name, began)
    assert all(ledger.note_busy(name, began + number) <= first for number in range(20))
    assert int(client.hget(f"farm:limit:{name}:strikes", "count")) == 1


def test_a_session_that_was_served_since_makes_the_next_strike_a_first_one(ledger, client, name):
    far = server_ms(client) + 3_600_000
    for _ in range(6):
        strike(ledger, client, name, far)
    ledger.note_served(name, 1)  # it began before the trouble, and proves nothing
    assert strike(ledger, client, name, far) > 2 * fleet.FIRST_PAUSE_MS
    ledger.note_served(name, far)
    assert strike(ledger, client, name, far) <= fleet.FIRST_PAUSE_MS


def test_what_the_service_asks_for_is_kept_within_bounds(ledger, client, name):
    assert ledger.note_busy(name, 1, told_ms=120_000) == 120_000
    over(client, name)
    assert ledger.note_busy(name, 1, told_ms=10**9) == 2 * fleet.LONGEST_PAUSE_MS
    assert ledger.pauses()[name] <= 2 * fleet.LONGEST_PAUSE_MS


def test_a_start_that_has_to_wait_is_no_attempt_and_becomes_due(ledger, client, name, run_id):
    job, other = jobs(run_id, 2)
    ledger.create_run(run_id, [job, other])
    ledger.note_busy(name, 1, told_ms=20_000)
    answer = ledger.claim(job, limits=[Limit(name)])
    assert isinstance(answer, Refused)
    assert answer.reason == "limited"
    assert 19_000 <= answer.wait_ms <= 21_500
    assert status_of(ledger, run_id).executions == 0
    claimed(ledger, other, limits=[Limit(f"{name}-other")])  # another service
    over(client, name)
    a_minute_later(client, run_id)
    assert ledger.due(run_id) == (job,)
    assert claimed(ledger, job, limits=[Limit(name)]).attempt == 1


class TestTwoWorkers:
    @pytest.fixture
    def places(self, server: Server, tmp_path_factory) -> Iterator[tuple[WorkPlace, WorkPlace]]:
        """Two workers with connections of their own."""
        brokers = [Broker(server.broker_url, None) for _ in range(2)]
        first, second = (
            WorkPlace(
                f"worker-{number}",
                broker,
                Heartbeat(broker.ledger, lease_ms=broker.lease_ms),
                tmp_path_factory.mktemp("cache"),
            )
            for number, broker in enumerate(brokers)
        )
        yield first, second
        for broker in brokers:
            broker.client.close()

    @pytest.fixture
    def model(self) -> str:
        return f"model-{secrets.token_hex(6)}"

    def submit(self, root: Path, place: WorkPlace, model: str, scenario: str) -> list[CaseJob]:
        (root / "busy.yaml").write_text(scenario)
        api = AnthropicSpec(api="scripted:busy.yaml", max_retries=0, model=model)
        settings = Settings(agents={"model": api, "double": ScriptedSpec()}, retries=1)
        cases: list[Case] = [make_case(id=f"c{number}", agent="model") for number in range(2)]
        cases.append(make_case(id="other", agent="double", script=[{"say": "hello"}]))
        run_id = new_run_id()
        suite = Suite(name="demo", root=str(root), cases=tuple(cases))
        assert submit_run(suite, settings, RunOptions(workspace=root), place.broker, run_id)
        return [CaseJob(run_id=run_id, case_id=case.id) for case in cases]

    @pytest.mark.parametrize("status", [429, 529])
    def test_what_one_is_turned_away_with_makes_the_other_wait(
        self, places, tmp_path, model, status, client, monkeypatch, capsys
    ):
        first, second = places
        scenario = f"turns: [{{fault: {{status: {status}, retry_after_seconds: 50}}}}]"
        one, two, other = self.submit(tmp_path, first, model, scenario)
        ledger = first.broker.ledger
        carry_out(one, first)
        carry_out(two, second)
        carry_out(other, second)
        found = status_of(ledger, one.run_id)
        # The second is not an attempt; the third asks no service.
        assert (found.executions, found.done, found.leased) == (2, 1, 0)
        service = f"anthropic:{model} at scripted:busy.yaml"
        assert 40_000 < ledger.pauses()[service] <= 50_000
        monkeypatch.setenv("FARM_BROKER_URL", first.broker.url)
        farm_status(Namespace(run=one.run_id, json=False))
        assert f"{service} is busy: nobody starts a session of it for 0:" in capsys.readouterr().out
        over(client, service)
        a_minute_later(client, one.run_id)
        assert set(ledger.due(one.run_id)) == {one, two}

    def test_one_that_is_served_ends_the_strikes(self, places, tmp_path, model, client):
        first, second = places
        service = f"anthropic:{model} at scripted:busy.yaml"
        one, two, _ = self.submit(tmp_path, first, model, "turns: [{say: hello}]")
        first.broker.ledger.note_busy(service, 1)
        over(client, service)
        time.sleep(0.005)  # by the server's clock it begins after the strike
        carry_out(one, first)
        assert not client.exists(f"farm:limit:{service}:strikes")
        carry_out(two, second)
        assert status_of(first.broker.ledger, one.run_id).done == 2

    def submit_judged(self, root: Path, place: WorkPlace, model: str, scenario: str) -> CaseJob:
        (root / "busy.yaml").write_text(scenario)
        api = AnthropicSpec(api="scripted:busy.yaml", max_retries=0, model=model)
        settings = Settings(agents={"model": api, "double": ScriptedSpec()}, retries=0)
        review = {"type": "stdout_review", "stdout": {"review": "should greet", "agent": "model"}}
        case = make_case(id="judged", agent="double", script=[{"say": "hello"}], evaluators=(review,))
        run_id = new_run_id()
        suite = Suite(name="demo", root=str(root), cases=(case,))
        assert submit_run(suite, settings, RunOptions(workspace=root), place.broker, run_id)
        return CaseJob(run_id=run_id, case_id=case.id)

    def test_a_judge_that_is_turned_away_makes_all_wait(self, places, tmp_path, model, monkeypatch):
        monkeypatch.setattr(llm, "SERVICE_ATTEMPTS", 1)
        first, second = places
        busy = "turns: [{fault: {status: 529, retry_after_seconds: 50}}]"
        judged = self.submit_judged(tmp_path, first, model, busy)
        assert carry_out(judged, first).how == "errored"
        assert 40_000 < second.broker.ledger.pauses()[f"anthropic:{model} at scripted:busy.yaml"] <= 50_000
        one, *_ = self.submit(tmp_path, second, model, busy)
        assert carry_out(one, second).how == "waits"

    def test_a_judge_waits_while_its_service_is_busy_and_ends_the_strikes(
        self, places, tmp_path, model, client
    ):
        first, second = places
        service = f"anthropic:{model} at scripted:busy.yaml"
        answer = '{"score": 9, "reasoning": "it does"}'
        judged = self.submit_judged(tmp_path, first, model, f"turns: [{{say: '{answer}'}}]")
        second.broker.ledger.note_busy(service, 1, first_ms=2000)
        ended: list[Ended] = []
        judging = threading.Thread(target=lambda: ended.append(carry_out(judged, first)))
        judging.start()
        ledger = second.broker.ledger
        waiting = f"a judge waits: {service} is busy"
        wait_until(lambda: waiting in [running.note for running in ledger.running(judged.run_id)])
        assert service in ledger.pauses()
        judging.join()
        assert [each.how for each in ended] == ["passed"]
        assert service not in ledger.pauses()
        assert not client.exists(f"farm:limit:{service}:strikes")
