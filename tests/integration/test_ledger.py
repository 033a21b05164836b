"""The ledger's guarantees, on a real server."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from farm.errors import UsageError
from farm.model.job import CaseJob
from farm.queue.ledger import Claim, Ledger, LedgerError, Limit, Refused, Result, Running
from tests.integration.ledger_builders import a_minute_later, claimed, jobs, status_of


@pytest.fixture
def ledger(client) -> Ledger:
    return Ledger(client)


@pytest.fixture
def dying(client) -> Ledger:
    """The ledger as workers see it that die the moment they have claimed: their leases are over at once."""
    return Ledger(client, lease_ms=0, max_losses=3)


def test_a_manifest_is_written_once_and_whole(ledger, run_id):
    assert ledger.create_run(run_id, jobs(run_id, 2500, trials=2), suite="demo")
    assert not ledger.create_run(run_id, jobs(run_id, 3), suite="another")
    status = ledger.status(run_id)
    assert (status.state, status.total, status.done, status.fields["suite"]) == ("running", 5000, 0, "demo")
    assert len(set(ledger.waiting(run_id))) == 5000
    assert run_id in ledger.runs()


def test_a_job_comes_back_as_it_was_written(ledger, run_id):
    odd = CaseJob(run_id=run_id, case_id='tests/a b::"ünï:code"\n#2', trial=7)
    ledger.create_run(run_id, [odd])
    assert list(ledger.waiting(run_id)) == [odd]


def test_a_trial_is_carried_out_under_one_lease_at_a_time(ledger, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    claim = claimed(ledger, job)
    assert claim.attempt == 1
    assert ledger.claim(job) == Refused("leased")
    assert ledger.renew(claim) == "held"
    assert list(ledger.waiting(run_id)) == []


def test_the_last_result_closes_the_run_and_a_finished_trial_is_refused(ledger, run_id):
    first, last = jobs(run_id, 2)
    ledger.create_run(run_id, [first, last])
    assert ledger.complete(claimed(ledger, first), b"one") == "stored"
    assert ledger.claim(first) == Refused("done")
    assert ledger.complete(claimed(ledger, last), b"two") == "last"
    assert ledger.status(run_id).state == "aggregating"
    assert {result.job: result.data for result in ledger.results(run_id)} == {first: b"one", last: b"two"}


def test_a_worker_that_fell_silent_loses_its_trial_and_its_late_result_is_only_counted(ledger, dying, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    silent = claimed(dying, job)
    assert ledger.expire(run_id).again == (job,)
    second = claimed(ledger, job)
    assert (second.attempt, second.losses) == (2, 1)
    assert ledger.renew(silent) == "lost"
    assert ledger.complete(silent, b"late") == "duplicate"
    assert ledger.complete(second, b"right") == "last"
    assert ledger.complete(second, b"twice") == "duplicate"
    assert [result.data for result in ledger.results(run_id)] == [b"right"]
    status = ledger.status(run_id)
    # The last one came when the run was closed, and its report perhaps written.
    assert (status.executions, status.retries, status.duplicate_executions) == (2, 1, 1)


def test_an_expired_lease_can_be_claimed_before_the_janitor_comes(ledger, dying, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    claimed(dying, job)
    assert claimed(ledger, job).attempt == 2
    assert ledger.expire(run_id).again == ()


def test_a_renewed_lease_does_not_expire(ledger, dying, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    claim = claimed(dying, job)
    assert ledger.renew(claim) == "held"
    assert ledger.expire(run_id).again == ()
    assert dying.renew(claim) == "held"
    assert ledger.expire(run_id).again == (job,)
    assert ledger.renew(claim) == "lost"


def test_a_trial_that_kills_its_workers_ends_as_lost(ledger, dying, run_id):
    poison, other = jobs(run_id, 2)
    ledger.create_run(run_id, [poison, other])
    ledger.complete(claimed(ledger, other), b"fine")
    for _ in range(2):
        claimed(dying, poison)
        assert dying.expire(run_id).again == (poison,)
    claimed(dying, poison)
    gone = dying.expire(run_id)
    assert (gone.again, gone.lost, gone.closed) == ((), 1, True)
    assert {result.job: result.data for result in ledger.results(run_id)} == {poison: None, other: b"fine"}
    assert ledger.status(run_id).state == "aggregating"


def test_a_cancelled_run_refuses_claims_and_results_and_tells_those_who_renew(ledger, run_id):
    done, running, waiting = jobs(run_id, 3)
    ledger.create_run(run_id, [done, running, waiting])
    ledger.complete(claimed(ledger, done), b"kept")
    claim = claimed(ledger, running)
    assert ledger.cancel(run_id)
    assert not ledger.cancel(run_id)
    assert ledger.renew(claim) == "closed"
    assert ledger.complete(claim, b"too late") == "closed"
    assert ledger.claim(waiting) == Refused("closed")
    assert ledger.finish(run_id)
    assert ledger.status(run_id).state == "cancelled"
    assert [result.data for result in ledger.results(run_id)] == [b"kept"]


def test_a_run_is_finished_once_and_only_after_it_was_closed(ledger, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    assert not ledger.finish(run_id)
    ledger.complete(claimed(ledger, job), b"x")
    assert ledger.finish(run_id)
    assert not ledger.finish(run_id)
    assert ledger.status(run_id).state == "complete"


def test_a_trial_that_is_given_back_waits_and_counts_as_an_attempt_unless_it_must_not(ledger, client, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    assert ledger.give_back(claimed(ledger, job), delay_ms=60_000)
    early = ledger.claim(job)
    assert isinstance(early, Refused)
    assert early.reason == "early"
    assert 0 < early.wait_ms <= 60_000
    assert list(ledger.waiting(run_id)) == []
    a_minute_later(client, run_id)
    assert list(ledger.waiting(run_id)) == [job]
    second = claimed(ledger, job)
    assert second.attempt == 2
    assert ledger.give_back(second, uncounted=True)
    assert not ledger.give_back(second)
    assert claimed(ledger, job).attempt == 2


def test_the_errors_of_attempts_are_there_for_the_next_until_the_trial_is_retried(ledger, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    first = claimed(ledger, job)
    assert first.earlier_errors == b""
    assert ledger.give_back(first, errors=b"first")
    assert not ledger.give_back(first, errors=b"late")
    second = claimed(ledger, job)
    assert second.earlier_errors == b"first"
    assert ledger.give_back(second, uncounted=True)
    third = claimed(ledger, job)
    assert third.earlier_errors == b"first"
    ledger.complete(third, b"bad")
    assert ledger.retry(run_id, [job]) == 1
    assert claimed(ledger, job).earlier_errors == b""


def test_errors_and_lost_workers_are_counted_apart(ledger, dying, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    for _ in range(10):
        ledger.give_back(claimed(ledger, job))
    after_errors = claimed(dying, job)
    assert (after_errors.attempt, after_errors.losses) == (11, 0)
    assert ledger.expire(run_id).again == (job,)
    after_a_loss = claimed(ledger, job)
    assert (after_a_loss.attempt, after_a_loss.losses) == (12, 1)


def test_a_poison_trial_is_not_started_once_more_before_the_janitor_comes(client, run_id):
    dying = Ledger(client, lease_ms=0, max_losses=1)
    (job,) = jobs(run_id, 1)
    dying.create_run(run_id, [job])
    claimed(dying, job)
    assert dying.claim(job) == Refused("leased")
    assert dying.expire(run_id).lost == 1
    assert dying.results_of(run_id, [job]) == [b""]


def test_a_closed_run_can_be_resumed_for_what_has_no_result(ledger, run_id):
    done, left = jobs(run_id, 2)
    ledger.create_run(run_id, [done, left])
    ledger.complete(claimed(ledger, done), b"kept")
    ledger.cancel(run_id)
    ledger.finish(run_id)
    assert ledger.resume(run_id) == 1
    assert ledger.claim(done) == Refused("done")
    assert ledger.complete(claimed(ledger, left), b"new") == "last"
    assert ledger.finish(run_id)
    assert ledger.status(run_id).state == "complete"
    assert ledger.resume(run_id) == 0


def test_an_unknown_run_is_none_and_nothing_can_be_claimed_of_it(ledger, run_id):
    assert ledger.status(run_id) is None
    assert ledger.claim(jobs(run_id, 1)[0]) == Refused("closed")
    assert ledger.resume(run_id) == 0
    assert not ledger.cancel(run_id)


def test_a_forgotten_run_leaves_nothing(ledger, client, run_id):
    ledger.create_run(run_id, jobs(run_id, 3))
    claimed(ledger, jobs(run_id, 1)[0])
    ledger.forget(run_id)
    assert list(client.scan_iter(f"*{run_id}*")) == []
    assert run_id not in ledger.runs()


@pytest.mark.parametrize("bad", ["", "a/b", "{a}", "a b", "-a", "x" * 101])
def test_a_run_id_is_a_plain_word(ledger, bad):
    with pytest.raises(UsageError, match="is no run id"):
        ledger.create_run(bad, [])


def test_a_result_is_never_empty(ledger, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    with pytest.raises(ValueError, match="can't be empty"):
        ledger.complete(claimed(ledger, job), b"")


def test_many_workers_at_once_carry_out_every_trial_once_and_close_the_run_once(server, run_id):
    everything = jobs(run_id, 300)
    with redis.Redis.from_url(server.url) as first:
        Ledger(first).create_run(run_id, everything)
    answers: Counter[str] = Counter()
    lock = threading.Lock()

    def work(seed: int) -> None:
        mine = list(everything)
        random.Random(seed).shuffle(mine)
        with redis.Redis.from_url(server.url) as client:
            ledger = Ledger(client)
            for job in mine:
                claim = ledger.claim(job)
                if isinstance(claim, Claim):
                    word = ledger.complete(claim, b"done")
                    with lock:
                        answers[word] += 1

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {"stored": 299, "last": 1}
    with redis.Redis.from_url(server.url) as client:
        status = status_of(Ledger(client), run_id)
        assert (status.done, status.executions, status.duplicate_executions) == (300, 300, 0)


def test_fifty_thousand_cases_are_created_without_much_of_the_servers_memory(ledger, client, run_id):
    count, row = 50_000, b"x" * 400
    before = client.info("memory")["used_memory"]
    cases = ((f"tests/case::{number}", row) for number in range(count))
    assert ledger.create_run(run_id, iter(jobs(run_id, count)), cases=cases)
    per_case = (client.info("memory")["used_memory"] - before) / count
    assert ledger.status(run_id).total == count
    assert len(ledger.case_ids(run_id)) == count
    assert per_case < len(row) + 300
    assert client.ttl(f"farm:run:{run_id}:cases") == client.ttl(f"farm:run:{run_id}:todo") == -1
    ledger.forget(run_id)


def test_the_manifest_gives_its_cases(ledger, run_id):
    rows = {"a": b"one", "b": b"two", "ü:\n": b"\x00\xff"}
    ledger.create_run(run_id, jobs(run_id, 1), cases=rows.items())
    assert sorted(ledger.case_ids(run_id)) == sorted(rows)
    assert ledger.case(run_id, "b") == b"two"
    assert ledger.case(run_id, "c") is None
    assert ledger.cases(run_id, ["ü:\n", "c", "a"]) == [b"\x00\xff", None, b"one"]
    assert ledger.cases(run_id, []) == []


def test_of_two_submitters_with_one_id_one_succeeds_and_nothing_is_mixed(server, run_id):
    answers: dict[str, bool] = {}
    barrier = threading.Barrier(4)

    def submit(name: str) -> None:
        with redis.Redis.from_url(server.url) as client:
            barrier.wait()
            answers[name] = Ledger(client).create_run(
                run_id,
                [CaseJob(run_id=run_id, case_id=f"{name}{number}") for number in range(3000)],
                cases=((f"{name}{number}", name.encode()) for number in range(3000)),
                submitter=name,
            )

    threads = [threading.Thread(target=submit, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [name for name, created in answers.items() if created]
    with redis.Redis.from_url(server.url) as client:
        ledger = Ledger(client)
        status = status_of(ledger, run_id)
        assert (status.total, status.fields) == (3000, {"submitter": winner})
        assert {job.case_id[0] for job in ledger.waiting(run_id)} == {winner}
        assert {case_id[0] for case_id in ledger.case_ids(run_id)} == {winner}
        assert len(list(client.scan_iter(f"farm:run:{run_id}*"))) == 3  # nothing of the others


def test_a_submitter_that_dies_on_the_way_leaves_nothing_for_ever(ledger, client, run_id):
    def dies() -> Iterator[CaseJob]:
        yield from jobs(run_id, 1500)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.create_run(run_id, dies(), cases=[("a", b"one")])
    assert ledger.status(run_id) is None
    left = list(client.scan_iter(f"farm:run:{run_id}*"))
    assert len(left) == 2
    assert all(0 < client.ttl(key) <= 3600 for key in left)
    assert run_id not in ledger.active_runs()
    assert client.zscore("farm:active", run_id) is not None  # it may yet be created
    client.zadd("farm:active", {run_id: 1})  # an hour later
    ledger.active_runs()
    assert client.zscore("farm:active", run_id) is None


def test_a_manifest_of_which_the_server_lost_a_part_is_refused(ledger, client, run_id):
    def forgetful() -> Iterator[CaseJob]:
        yield from jobs(run_id, 1000)
        client.delete(*client.scan_iter(f"farm:run:{run_id}:cases:*"))
        yield CaseJob(run_id=run_id, case_id="last")

    with pytest.raises(LedgerError, match="lost a part"):
        ledger.create_run(run_id, forgetful(), cases=[("a", b"one")])
    assert ledger.status(run_id) is None
    assert list(client.scan_iter(f"farm:run:{run_id}*")) == []


def test_a_run_without_trials_is_closed_at_once(ledger, run_id):
    ledger.create_run(run_id, [])
    assert ledger.status(run_id).state == "aggregating"
    assert ledger.finish(run_id)


def test_a_run_is_active_from_its_creation_until_it_is_finished(ledger, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    assert run_id in ledger.active_runs()
    ledger.complete(claimed(ledger, job), b"x")
    assert run_id in ledger.active_runs()
    ledger.finish(run_id)
    assert run_id not in ledger.active_runs()
    ledger.create_run(run_id, [job])  # refused, but named as active before that was known
    assert run_id not in ledger.active_runs()
    ledger.retry(run_id, [job])
    assert run_id in ledger.active_runs()


def test_a_finished_run_expires_as_a_whole_and_one_that_is_opened_again_does_not(client, run_id):
    ledger = Ledger(client, keep_seconds=1000)
    done, left = jobs(run_id, 2)
    ledger.create_run(run_id, [done, left], cases=[("a", b"one")])
    ledger.complete(claimed(ledger, done), b"x")
    running = claimed(ledger, left, reserve_usd=0.5)
    ledger.cancel(run_id)
    ledger.finish(run_id, report="blob")
    assert status_of(ledger, run_id).fields == {"report": "blob"}
    assert all(900 < client.ttl(key) <= 1000 for key in client.scan_iter(f"farm:run:{run_id}*"))
    assert ledger.give_back(running, delay_ms=5000, cost_usd=0.1)  # it hears of the end only now
    assert ledger.complete(running, b"late") == "duplicate"
    assert status_of(ledger, run_id).spent_usd == 0.1
    assert all(900 < client.ttl(key) <= 1000 for key in client.scan_iter(f"farm:run:{run_id}*"))
    assert ledger.resume(run_id) == 1
    assert {client.ttl(key) for key in client.scan_iter(f"farm:run:{run_id}*")} == {-1}


def test_a_run_that_has_expired_is_not_brought_to_life_by_those_who_come_late(ledger, client, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    claim = claimed(ledger, job)
    client.delete(*client.scan_iter(f"farm:run:{run_id}*"))
    assert ledger.renew(claim) == "lost"
    assert ledger.complete(claim, b"x") == "duplicate"
    assert not ledger.give_back(claim, delay_ms=10)
    assert not ledger.finish(run_id)
    assert ledger.retry(run_id, [job]) == 0
    assert ledger.expire(run_id).again == ledger.due(run_id) == ()
    assert list(client.scan_iter(f"farm:run:{run_id}*")) == []
    assert run_id not in ledger.runs()


def test_trials_that_are_retried_are_done_again_from_their_first_attempt(ledger, run_id):
    good, bad, never = jobs(run_id, 3)
    ledger.create_run(run_id, [good, bad, never])
    ledger.complete(claimed(ledger, good), b"good")
    ledger.give_back(claimed(ledger, bad))
    ledger.complete(claimed(ledger, bad), b"bad")
    ledger.cancel(run_id)
    ledger.finish(run_id)
    assert ledger.retry(run_id, [bad, never, CaseJob(run_id=run_id, case_id="unknown")]) == 1
    status = ledger.status(run_id)
    assert (status.state, status.cancelled, status.done) == ("running", False, 1)
    assert (status.closed_at_ms, status.finished_at_ms) == (None, None)
    assert ledger.results_of(run_id, [good, bad, never]) == [b"good", None, None]
    again = claimed(ledger, bad)
    assert (again.attempt, again.losses) == (1, 0)
    assert ledger.complete(again, b"better") == "stored"
    assert ledger.complete(claimed(ledger, never), b"at last") == "last"


def test_results_can_be_followed_in_their_order_and_across_a_retry(ledger, run_id):
    first, second, third = jobs(run_id, 3)
    ledger.create_run(run_id, [first, second, third])
    assert ledger.follow(run_id, 0) == ([], 0)
    ledger.complete(claimed(ledger, second), b"2")
    ledger.complete(claimed(ledger, first), b"1")
    assert ledger.follow(run_id, 0, limit=1) == ([Result(second, b"2")], 1)
    assert ledger.follow(run_id, 1) == ([Result(first, b"1")], 2)
    ledger.retry(run_id, [second])
    assert ledger.follow(run_id, 0) == ([Result(first, b"1")], 2)
    ledger.complete(claimed(ledger, second), b"2 again")
    ledger.complete(claimed(ledger, third), b"3")
    assert ledger.follow(run_id, 2) == ([Result(second, b"2 again"), Result(third, b"3")], 4)


def test_no_result_a_lost_one_and_one_can_be_told_apart(ledger, dying, run_id):
    missing, lost, there = jobs(run_id, 3)
    ledger.create_run(run_id, [missing, lost, there])
    ledger.complete(claimed(ledger, there), b"data")
    for _ in range(3):
        claimed(dying, lost)
        dying.expire(run_id)
    assert ledger.results_of(run_id, [missing, lost, there]) == [None, b"", b"data"]
    assert ledger.follow(run_id, 0)[0] == [Result(there, b"data"), Result(lost, None)]


def test_running_sessions_show_what_they_last_said(ledger, client, run_id):
    everything = jobs(run_id, 3)
    ledger.create_run(run_id, everything)
    first = claimed(ledger, everything[0], worker="host-1")
    second = claimed(ledger, everything[1])
    assert ledger.renew_all({first: "Bash ls\n-la", second: ""}) == {first: "held", second: "held"}
    assert ledger.renew(second) == "held"
    shown = {running.job: running for running in ledger.running(run_id)}
    assert shown == {
        first.job: Running(first.job, "host-1", "Bash ls -la", first.started_at_ms),
        second.job: Running(second.job, "", "", second.started_at_ms),
    }
    assert first.started_at_ms > 0
    assert len(ledger.running(run_id, limit=1)) == 1
    ledger.complete(first, b"x")
    ledger.give_back(second)
    assert ledger.running(run_id) == []
    assert ledger.renew_all({first: "still there?", second: ""}) == {first: "lost", second: "lost"}
    assert ledger.renew_all({}) == {}
    assert not client.exists(f"farm:run:{run_id}:notes")


def test_a_delayed_trial_becomes_due_once(ledger, client, run_id):
    soon, later = jobs(run_id, 2)
    ledger.create_run(run_id, [soon, later])
    ledger.give_back(claimed(ledger, soon), delay_ms=60_000)
    ledger.give_back(claimed(ledger, later), delay_ms=3_600_000)
    assert ledger.due(run_id) == ()
    a_minute_later(client, run_id)
    assert ledger.due(run_id) == (soon,)
    assert ledger.due(run_id) == ()
    assert list(ledger.waiting(run_id)) == [soon]
    assert claimed(ledger, soon).attempt == 2


class Stuttering(redis.Redis):
    """A client whose every first answer is lost with the connection, so that it asks again."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        ask: Any = super().execute_command
        ask(*args, **options)
        return ask(*args, **options)


def test_a_step_that_is_sent_twice_because_its_answer_was_lost_happens_once(server, run_id):
    with Stuttering.from_url(server.url) as client:
        ledger = Ledger(client)
        first, last = jobs(run_id, 2)
        limits = [Limit(run_id, concurrency=2, starts_per_minute=2)]
        assert ledger.create_run(run_id, [first, last], cases=[("a", b"one")], budget_usd=9.0)
        claim = claimed(ledger, first, limits=limits, reserve_usd=1.0)
        assert claim.attempt == 1
        assert ledger.complete(claim, b"one", cost_usd=0.5) == "stored"
        assert ledger.complete(claimed(ledger, last, limits=limits, reserve_usd=1.0), b"two") == "last"
        status = status_of(ledger, run_id)
        assert (status.executions, status.retries, status.duplicate_executions) == (2, 0, 0)
        assert (status.spent_usd, status.reserved_usd, status.unknown_costs) == (1.5, 0.0, 1)
        assert ledger.follow(run_id, 0) == ([Result(first, b"one"), Result(last, b"two")], 2)


def test_the_ledgers_own_fields_are_not_for_submitters(ledger, run_id):
    with pytest.raises(ValueError, match="writes these fields itself: state, total"):
        ledger.create_run(run_id, [], total="1", state="running")


def test_a_status_says_when(ledger, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    status = ledger.status(run_id)
    assert status.created_at_ms > 0
    assert (status.closed_at_ms, status.finished_at_ms, status.stopped) == (None, None, None)
    ledger.complete(claimed(ledger, job), b"x")
    ledger.finish(run_id)
    status = ledger.status(run_id)
    assert status.created_at_ms <= status.closed_at_ms <= status.finished_at_ms
