"""Whoever aggregates a run, and however often, there is one report of it."""

from __future__ import annotations

import io
import json
import time

import redis

from farm.model.agent import ScriptedSpec
from farm.model.job import CaseJob, CasePlan, TrialRecord
from farm.model.report import TrialReport
from farm.model.suite import Case
from farm.queue.broker import Broker
from farm.queue.collect import aggregate
from farm.queue.ledger import Claim
from farm.queue.rows import dump_plan, dump_record
from farm.queue.server import Server


def broker_of(server: Server, lease_ms: int = 30_000) -> Broker:
    return Broker(server.broker_url, lease_ms=lease_ms)


def submit(broker: Broker, run_id: str, cases: int) -> list[CaseJob]:
    plans = [
        CasePlan(
            case=Case(id=f"case{number}", name="-", file="t.yaml", input_messages=(), evaluators=()),
            agent="scripted",
            spec=ScriptedSpec(),
            timeout_seconds=10,
        )
        for number in range(cases)
    ]
    jobs = [CaseJob(run_id=run_id, case_id=plan.case.id) for plan in plans]
    rows = [(plan.case.id, dump_plan(plan)) for plan in plans]
    broker.ledger.create_run(run_id, jobs, cases=rows, suite="s", kinds='["scripted"]')
    return jobs


def claim(broker: Broker, job: CaseJob) -> Claim:
    claimed = broker.ledger.claim(job, worker="w")
    assert isinstance(claimed, Claim), claimed
    return claimed


def complete(broker: Broker, claimed: Claim) -> str:
    report = TrialReport(trial=1, attempt=claimed.attempt, outcome="passed", worker="w")
    return broker.ledger.complete(claimed, dump_record(TrialRecord(report=report), broker.blobs))


def report_of(broker: Broker, run_id: str) -> bytes:
    file = io.BytesIO()
    broker.archive.read(run_id, "report.json", file)
    return file.getvalue()


def test_a_run_is_aggregated_once_however_often_it_is_asked_for(server: Server, run_id: str) -> None:
    broker = broker_of(server)
    for job in submit(broker, run_id, 3):
        last = complete(broker, claim(broker, job))
    assert last == "last"
    assert aggregate(run_id, broker)
    first = report_of(broker, run_id)
    assert not aggregate(run_id, broker)
    assert report_of(broker, run_id) == first
    assert json.loads(first)["totals"]["passed"] == 3


def test_two_aggregators_at_once_write_the_same_though_a_late_duplicate_comes_between(
    server: Server, client: redis.Redis, run_id: str
) -> None:
    broker = broker_of(server, lease_ms=1)
    (job,) = submit(broker, run_id, 1)
    lost = claim(broker, job)
    time.sleep(0.05)  # and it is not renewed
    found = claim(broker, job)
    assert complete(broker, found) == "last"
    assert aggregate(run_id, broker)
    first = report_of(broker, run_id)
    # As if the second had begun before the first one ended.
    client.hset(f"farm:run:{run_id}", "state", "aggregating")
    assert complete(broker, lost) == "duplicate"
    assert aggregate(run_id, broker)
    assert report_of(broker, run_id) == first
