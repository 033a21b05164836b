"""Runs with a signing key: who can write to the broker, but has no key, neither runs commands nor passes cases."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import redis

from farm.errors import UsageError
from farm.model.agent import ScriptedSpec
from farm.model.job import CaseJob, CasePlan
from farm.queue import signing
from farm.queue.blobs import BlobError, put_bytes
from farm.queue.broker import Broker
from farm.queue.carry_out import WorkPlace, carry_out
from farm.queue.collect import aggregate
from farm.queue.following import follow_run
from farm.queue.heartbeat import Heartbeat
from farm.queue.ledger import WorkerRecord
from farm.queue.reopening import resume_run, retry_run
from farm.queue.report_directory import fetch_report
from farm.queue.rows import dump_plan, parse_plan
from farm.queue.server import Server
from farm.queue.signing import SignatureError, Signer, unsigned
from farm.reporting.json import parse_report
from tests.integration.test_runs import Running, scripted

OURS = Signer(b"a key that submitters and workers share")
THEIRS = Signer(b"a key that somebody else has made up for it")


def place_with(broker: Broker, cache: Path) -> WorkPlace:
    return WorkPlace("here", broker, Heartbeat(broker.ledger, lease_ms=broker.lease_ms), cache)


@pytest.fixture
def broker(server: Server) -> Iterator[Broker]:
    connected = Broker(server.broker_url, signer=OURS)
    yield connected
    connected.client.close()


@pytest.fixture
def run(broker: Broker, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Running:
    return Running(place_with(broker, tmp_path_factory.mktemp("cache")), tmp_path)


@pytest.fixture
def keyless(run: Running) -> WorkPlace:
    """A worker on the same broker, without the key."""
    place = run.place
    return place_with(replace(place.broker, signer=Signer()), place.cache_directory)


def results_of(run: Running, run_id: str) -> dict[str, tuple[str, str | None]]:
    """Aggregate and fetch a run; give the outcome and the kind of error of each case."""
    assert aggregate(run_id, run.place.broker)
    report = parse_report(fetch_report(run.place.broker, run_id, run.root / "out").read_bytes())
    errors = {case.id: case.trials[0].error if case.trials else None for case in report.cases}
    return {
        case.id: (case.outcome, error.kind if (error := errors[case.id]) else None) for case in report.cases
    }


def rows(client: redis.Redis, run_id: str, what: str) -> dict[bytes, bytes]:
    return cast("dict[bytes, bytes]", client.hgetall(f"farm:run:{run_id}:{what}"))


def touching(case_id: str, file: Path) -> bytes:
    """A plan that would run a command of somebody else's."""
    case = scripted(case_id, setup=[f"touch {file}"])
    return dump_plan(CasePlan(case=case, agent="scripted", spec=ScriptedSpec(), timeout_seconds=10))


def test_a_signed_run_ends_as_any_other(run, client):
    run_id = run.submit(scripted("a"), scripted("b", "bye"), scripted("c", skip="not today"))
    run.carry_out_all(run_id)
    assert {data[8:15] for data in rows(client, run_id, "results").values()} == {b"signed:"}
    followed = [case.outcome for case in next(follow_run(run.place.broker, run_id)).cases]
    assert sorted(followed) == ["failed", "passed"]
    assert results_of(run, run_id) == {"a": ("passed", None), "b": ("failed", None), "c": ("skipped", None)}


def test_a_plan_that_nobody_with_the_key_has_signed_is_never_run(run, client, tmp_path, caplog):
    """Each is what somebody could write who can only write to the broker."""
    other = run.submit(scripted("a"), scripted("b"))
    run_id = run.submit(
        *(scripted(name) for name in ("bare", "forged", "other-run", "other-case", "cut", "good"))
    )
    key, earlier = f"farm:run:{run_id}:cases", rows(client, other, "cases")
    mark = tmp_path / "was-here"
    client.hset(key, "bare", touching("bare", mark))
    signed = client.hget(key, "forged")
    assert isinstance(signed, bytes)
    head = signed[: -len(unsigned(signed))]
    client.hset(key, "forged", head + touching("forged", mark))
    client.hset(key, "other-run", earlier[b"a"])
    client.hset(key, "other-case", rows(client, run_id, "cases")[b"good"])
    client.hset(key, "cut", signed[:-1])
    run.carry_out_all(run_id)
    refused = ("errored", "unsigned_plan")
    assert results_of(run, run_id) == {
        **dict.fromkeys(("bare", "forged", "other-run", "other-case", "cut"), refused),
        "good": ("passed", None),
    }
    assert not mark.exists()
    assert sum("refused case" in message for message in caplog.messages) == 5
    assert "touch" not in caplog.text


def test_an_old_plan_is_refused_until_somebody_with_the_key_opens_the_run_again(run, keyless, monkeypatch):
    run_id = run.submit(scripted("a"))
    monkeypatch.setattr(signing, "_now_ms", lambda: time.time_ns() // 1_000_000 + 8 * 24 * 3600 * 1000)
    run.carry_out_all(run_id)
    assert results_of(run, run_id) == {"a": ("errored", "expired_plan")}
    # Without the key it can be queued again, but not be made younger.
    assert retry_run(keyless.broker, run_id, ["errored"]) == 1
    run.carry_out_all(run_id)
    assert results_of(run, run_id) == {"a": ("errored", "expired_plan")}
    assert retry_run(run.place.broker, run_id, ["errored"]) == 1
    run.carry_out_all(run_id)
    assert results_of(run, run_id) == {"a": ("passed", None)}


def test_to_open_a_run_again_signs_nothing_that_was_not_signed(run, client, tmp_path):
    run_id = run.submit(scripted("a"), scripted("b"))
    run.place.broker.ledger.cancel(run_id)
    client.hset(f"farm:run:{run_id}:cases", "a", touching("a", tmp_path / "was-here"))
    assert resume_run(run.place.broker, run_id) == 2
    run.carry_out_all(run_id)
    assert results_of(run, run_id) == {"a": ("errored", "unsigned_plan"), "b": ("passed", None)}
    assert not (tmp_path / "was-here").exists()


def test_a_forged_result_does_not_pass_and_can_be_tried_again(run, client):
    names = ("bare", "forged", "moved", "failed")
    run_id = run.submit(*(scripted(name, "bye") for name in names), scripted("good"))
    run.carry_out_all(run_id)
    key, written = f"farm:run:{run_id}:results", rows(client, run_id, "results")
    passed = written[b"1:good"]
    client.hset(key, "1:bare", passed[:8] + unsigned(passed[8:]))
    client.hset(
        key, "1:forged", passed[:8] + THEIRS.sign(unsigned(passed[8:]), "result", run_id, "forged", "1")
    )
    client.hset(key, "1:moved", passed)
    refused = ("errored", "unsigned_result")
    assert results_of(run, run_id) == {
        **dict.fromkeys(("bare", "forged", "moved"), refused),
        "failed": ("failed", None),
        "good": ("passed", None),
    }
    assert retry_run(run.place.broker, run_id, ["errored"]) == 3
    run.carry_out_all(run_id)
    assert {outcome for outcome, _ in results_of(run, run_id).values()} == {"failed", "passed"}


def test_a_case_that_was_taken_out_of_the_run_is_missed(run, client):
    run_id = run.submit(scripted("a"), scripted("b", "bye"))
    run.carry_out_all(run_id)
    client.hdel(f"farm:run:{run_id}:cases", "b")
    assert results_of(run, run_id) == {"(manifest)": ("errored", "unsigned_manifest"), "a": ("passed", None)}


def test_a_trial_that_is_not_planned_is_not_carried_out(run, client):
    run_id = run.submit(scripted("a"), scripted("b"))
    client.sadd(f"farm:run:{run_id}:todo", "2:a")
    run.carry_out_all(run_id)
    assert results_of(run, run_id) == {"a": ("passed", None), "b": ("passed", None)}
    status = run.place.broker.ledger.status(run_id)
    assert status is not None
    (row,) = run.place.broker.ledger.results_of(run_id, [CaseJob(run_id=run_id, case_id="a", trial=2)])
    assert json.loads(unsigned(row or b""))["report"]["error"]["kind"] == "not_planned"


def test_a_forged_report_is_refused(run, client, tmp_path):
    run_id = run.submit(scripted("a", "bye"))
    run.carry_out_all(run_id)
    broker = run.place.broker
    assert aggregate(run_id, broker)
    report = fetch_report(broker, run_id, tmp_path / "out").read_bytes()
    forged = put_bytes(broker.blobs, report.replace(b'"failed"', b'"passed"'))
    client.hset(f"farm:archive:{run_id}", "report.json", forged)
    with pytest.raises(SignatureError, match=r"report\.json is not signed"):
        fetch_report(broker, run_id, tmp_path / "out")


def test_no_list_of_transcripts_leads_out_of_the_reports_directory(run, keyless, tmp_path):
    """Also without a key: a submitter's files are not for those who can write to the broker."""
    run.place = keyless
    run_id = run.submit(scripted("a"))
    run.carry_out_all(run_id)
    assert aggregate(run_id, keyless.broker)
    blob = put_bytes(keyless.broker.blobs, b"hostile")
    listed = put_bytes(keyless.broker.blobs, f"../../was-here\t{blob}\n".encode())
    keyless.broker.client.hset(f"farm:archive:{run_id}", "transcripts.tsv", listed)
    with pytest.raises(BlobError, match="list of transcripts"):
        fetch_report(keyless.broker, run_id, tmp_path / "out")
    assert not list(tmp_path.rglob("was-here"))


def test_a_worker_without_the_key_leaves_a_signed_run_to_others(run, keyless):
    run_id = run.submit(scripted("a"))
    (job,) = run.place.broker.ledger.waiting(run_id)
    carry_out(job, keyless)
    status = run.place.broker.ledger.status(run_id)
    assert status is not None
    assert (status.done, status.leased) == (0, 0)
    run.carry_out_all(run_id)
    for signer in (Signer(), THEIRS):
        assert not aggregate(run_id, replace(run.place.broker, signer=signer))
    status = run.place.broker.ledger.status(run_id)
    assert status is not None
    assert "has not the same FARM_SIGNING_KEY" in (status.trouble or "")
    assert results_of(run, run_id) == {"a": ("passed", None)}


def test_a_run_that_no_worker_has_the_key_for_ends_and_says_so(run, keyless, monkeypatch):
    monkeypatch.setattr("farm.queue.carry_out._FIRST_RETRY_SECONDS", 0.001)
    run_id = run.submit(scripted("a"))
    Running(keyless, run.root).carry_out_all(run_id)
    (row,) = keyless.broker.ledger.results_of(run_id, [CaseJob(run_id=run_id, case_id="a")])
    assert b"this worker has no FARM_SIGNING_KEY" in (row or b"")
    assert results_of(run, run_id) == {"a": ("errored", "unsigned_result")}


def test_an_unsigned_run_is_refused_by_workers_with_a_key(run, keyless):
    run_id = Running(keyless, run.root).submit(scripted("a"))
    run.carry_out_all(run_id)
    assert results_of(run, run_id)["a"] == ("errored", "unsigned_plan")
    fetch_report(keyless.broker, run_id, run.root / "out")  # who has no key can read all the same


@pytest.mark.parametrize(("worker", "submitter"), [(OURS, Signer()), (Signer(), OURS), (THEIRS, OURS)])
def test_what_every_living_worker_would_refuse_is_not_even_queued(run, server, worker, submitter):
    broker = replace(run.place.broker, signer=submitter)
    record = WorkerRecord("w", "h", 1, ("scripted",), 1, 1, key_id=worker.key_id)
    broker.ledger.announce(record)
    try:
        with pytest.raises(UsageError, match="FARM_SIGNING_KEY"):
            Running(place_with(broker, run.place.cache_directory), run.root).submit(scripted("a"))
        broker.ledger.announce(replace(record, name="other", key_id=submitter.key_id))
        Running(place_with(broker, run.place.cache_directory), run.root).submit(scripted("a"))
    finally:
        broker.ledger.withdraw("w")
        broker.ledger.withdraw("other")


def test_plans_can_be_read_with_the_signature_taken_off(run, client):
    run_id = run.submit(scripted("a"))
    assert parse_plan(unsigned(rows(client, run_id, "cases")[b"a"])).case.id == "a"
