"""Agents whose API is scripted, in whole runs: what travels, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.errors import InputError
from farm.model.agent import AnthropicSpec, ClaudeSpec
from farm.model.job import CaseJob
from farm.model.prices import Price
from farm.model.suite import Case, Suite
from farm.queue.broker import Broker
from farm.queue.carry_out import WorkPlace, carry_out
from farm.queue.collect import read_result
from farm.queue.heartbeat import Heartbeat
from farm.queue.planning import Planner, RunOptions
from farm.queue.server import Server
from farm.queue.submit import new_run_id, submit_run
from farm.settings import Settings
from tests.unit.builders import case as make_case


@pytest.fixture
def broker(server: Server):
    connected = Broker(server.broker_url, None)
    yield connected
    connected.client.close()


def settings(**spec: Any) -> Settings:
    agent = AnthropicSpec(api="scripted:scenarios/api.yaml", max_retries=0, **spec)
    prices = {"own-model": Price(input=1000.0, output=0.0)}
    return Settings(agents={"model": agent}, prices=prices, retries=0)


def write(root: Path, scenario: str) -> None:
    (root / "scenarios").mkdir()
    (root / "scenarios/api.yaml").write_text(scenario)


def test_scenario_and_prices_travel_to_the_worker(broker, tmp_path, tmp_path_factory):
    root = tmp_path_factory.mktemp("submitted")
    write(root, "turns: [{say: hello, usage: {input_tokens: 1000}}]")
    cases = (make_case(id="a", agent="model", model="own-model"), make_case(id="b", agent="model", model="x"))
    suite, run_id = Suite(name="demo", root=str(root), cases=cases), new_run_id()
    assert submit_run(suite, settings(), RunOptions(workspace=tmp_path), broker, run_id)
    (root / "scenarios/api.yaml").unlink()  # a worker on another machine has no such file
    heartbeat = Heartbeat(broker.ledger, lease_ms=broker.lease_ms)
    place = WorkPlace("here", broker, heartbeat, tmp_path_factory.mktemp("cache"))
    reports = {}
    for job in (CaseJob(run_id=run_id, case_id=case.id) for case in cases):
        carry_out(job, place)
        (row,) = broker.ledger.results_of(run_id, [job])
        reports[job.case_id] = read_result(job, row or b"", broker).report
    assert {report.outcome for report in reports.values()} == {"passed"}
    assert (reports["a"].cost_usd, reports["a"].warnings) == (1.0, ())
    assert reports["b"].cost_usd is None
    assert 'price of the model "x" is not known' in reports["b"].warnings[0]


@pytest.mark.parametrize(
    ("scenario", "problem"),
    [
        ("turns: [{sya: hello}]", r'scenarios/api\.yaml:1:10: unknown key "sya".*did you mean "say"'),
        ("turns: [", r"scenarios/api\.yaml:2:1: not valid YAML"),
        ("name: x\nturns: [{say: a}]\n---\nname: y\nturns: [{say: b}]", r'api\.yaml:1:1: .*none named "a"'),
    ],
)
def test_a_wrong_scenario_is_told_before_anything_runs(broker, tmp_path, scenario, problem):
    write(tmp_path, scenario)
    suite = Suite(name="demo", root=str(tmp_path), cases=(make_case(id="a", agent="model"),))
    with pytest.raises(InputError, match=problem):
        Planner(suite, settings(), RunOptions(workspace=tmp_path), broker).plan(suite.cases[0])


@pytest.mark.parametrize(("kind", "is_cut_off"), [(ClaudeSpec, True), (AnthropicSpec, False)])
def test_a_cli_without_a_network_can_not_reach_it_but_our_own_loop_can(broker, tmp_path, kind, is_cut_off):
    write(tmp_path, "turns: [{say: hello}]")
    found = Settings(agents={"model": kind(api="scripted:scenarios/api.yaml")})
    case: Case = make_case(id="a", agent="model", network=False, file="a.yaml", line=3)
    planner = Planner(
        Suite(name="demo", root=str(tmp_path), cases=(case,)), found, RunOptions(workspace=tmp_path), broker
    )
    if is_cut_off:
        with pytest.raises(InputError, match=r"a\.yaml:3:1: `network: false` cuts"):
            planner.plan(case)
    else:
        assert list(planner.plan(case).files) == ["scenarios/api.yaml"]
