"""The ledger's guarantees, on a real server."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import Counter

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from farm.errors import UsageError
from farm.model.job import CaseJob
from farm.queue.ledger import Claim, Ledger, LedgerError, Refused
from farm.queue.server import Server, private_server


def jobs(run_id: str, count: int, trials: int = 1) -> list[CaseJob]:
    return [
        CaseJob(run_id=run_id, case_id=f"tests/case::{number}", trial=trial)
        for number in range(count)
        for trial in range(1, trials + 1)
    ]


def claimed(ledger: Ledger, job: CaseJob) -> Claim:
    answer = ledger.claim(job)
    assert isinstance(answer, Claim), answer
    return answer


@pytest.fixture
def ledger(client) -> Ledger:
    return Ledger(client)


@pytest.fixture
def dying(client) -> Ledger:
    """The ledger as workers see it that die the moment they have claimed: their leases are over at once."""
    return Ledger(client, lease_ms=0)


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
    assert second.attempt == 2
    assert ledger.renew(silent) == "lost"
    assert ledger.complete(silent, b"late") == "duplicate"
    assert ledger.complete(second, b"right") == "last"
    assert ledger.complete(second, b"twice") == "duplicate"
    assert [result.data for result in ledger.results(run_id)] == [b"right"]
    status = ledger.status(run_id)
    assert (status.executions, status.retries, status.duplicate_executions) == (2, 1, 2)


def test_an_expired_lease_can_be_claimed_before_the_janitor_comes(ledger, dying, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    claimed(dying, job)
    assert claimed(ledger, job).attempt == 2
    assert ledger.expire(run_id).again == ()


def test_a_renewed_lease_does_not_expire(client, run_id):
    ledger = Ledger(client, lease_ms=400)
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    claim = claimed(ledger, job)
    for _ in range(4):
        time.sleep(0.15)
        assert ledger.renew(claim) == "held"
    assert ledger.expire(run_id).again == ()
    time.sleep(0.5)
    assert ledger.expire(run_id).again == (job,)


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


def test_a_trial_that_is_given_back_waits_and_counts_as_an_attempt_unless_it_must_not(ledger, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    assert ledger.give_back(claimed(ledger, job), delay_ms=300)
    early = ledger.claim(job)
    assert isinstance(early, Refused)
    assert early.reason == "early"
    assert 0 < early.wait_ms <= 300
    assert list(ledger.waiting(run_id)) == []
    time.sleep(0.35)
    assert list(ledger.waiting(run_id)) == [job]
    second = claimed(ledger, job)
    assert second.attempt == 2
    assert ledger.give_back(second, uncounted=True)
    assert not ledger.give_back(second)
    assert claimed(ledger, job).attempt == 2


def test_attempts_run_out(ledger, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    for _ in range(3):
        ledger.give_back(claimed(ledger, job))
    assert ledger.claim(job) == Refused("exhausted", 3)


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
        status = Ledger(client).status(run_id)
        assert status is not None
        assert (status.done, status.executions, status.duplicate_executions) == (300, 300, 0)


def test_a_server_that_is_down_is_one_clear_error(tmp_path, run_id):
    with (
        redis.Redis(unix_socket_path=str(tmp_path / "nothing")) as nobody,
        pytest.raises(LedgerError, match="the broker can't be reached"),
    ):
        Ledger(nobody).status(run_id)


def test_a_password_that_is_refused_is_one_clear_error(run_id):
    with private_server("--requirepass", "secret") as server:
        for password in (None, "wrong"):
            with (
                redis.Redis(unix_socket_path=str(server.socket), password=password) as client,
                pytest.raises(LedgerError, match="refuses the user or password"),
            ):
                Ledger(client).status(run_id)
        with redis.Redis(unix_socket_path=str(server.socket), password="secret") as client:
            assert Ledger(client).status(run_id) is None


class LedgerMachine(RuleBasedStateMachine):
    """Any order of claims, deaths, results and janitors, beside a plain model of what must come of it."""

    server: Server  # given by the test below

    def __init__(self) -> None:
        super().__init__()
        self.client = redis.Redis.from_url(self.server.url)
        self.ledger = Ledger(self.client)
        self.dying = Ledger(self.client, lease_ms=0)
        self.run_id = f"machine-{secrets.token_hex(6)}"
        self.jobs = jobs(self.run_id, 3)
        self.ledger.create_run(self.run_id, self.jobs)
        self.open = True
        self.holder: dict[CaseJob, Claim] = {}  # whose lease is alive
        self.claims: list[Claim] = []  # all there ever were
        self.attempts: Counter[CaseJob] = Counter()
        self.results: dict[CaseJob, bytes | None] = {}
        self.dead: set[CaseJob] = set()  # leases that are over
        self.closings = 0

    def teardown(self) -> None:
        self.ledger.forget(self.run_id)
        self.client.close()

    @rule(number=st.integers(0, 2), dies=st.booleans())
    def claim(self, number: int, dies: bool) -> None:
        job = self.jobs[number]
        answer = (self.dying if dies else self.ledger).claim(job)
        if not self.open:
            assert answer == Refused("closed")
        elif job in self.results:
            assert answer == Refused("done")
        elif job in self.holder:
            assert answer == Refused("leased")
        elif self.attempts[job] == 3:
            assert answer == Refused("exhausted", 3)
        else:
            self.attempts[job] += 1
            assert isinstance(answer, Claim)
            assert answer.attempt == self.attempts[job]
            self.claims.append(answer)
            self.dead.discard(job)
            if dies:
                self.dead.add(job)
            else:
                self.holder[job] = answer

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        current = self._current(claim)
        answer = self.ledger.complete(claim, claim.token.encode())
        if not current or claim.job in self.results:
            assert answer == "duplicate"
        elif not self.open:
            assert answer == "closed"
            self._let_go(claim.job)
        else:
            self.results[claim.job] = claim.token.encode()
            self._let_go(claim.job)
            assert answer == ("last" if len(self.results) == 3 else "stored")
            self._close_if_done()

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        current = self._current(claim)
        assert self.ledger.give_back(claim) == current
        if current:
            self._let_go(claim.job)

    @rule()
    def expire(self) -> None:
        answer = self.ledger.expire(self.run_id)
        if not self.open:
            assert (answer.again, answer.lost, answer.closed) == ((), 0, False)
            return
        over = {job for job in self.dead if job not in self.results}
        lost = {job for job in over if self.attempts[job] >= 3}
        assert set(answer.again) == over - lost
        assert answer.lost == len(lost)
        for job in over:
            self._let_go(job)
        for job in lost:
            self.results[job] = None
        assert answer.closed == (len(self.results) == 3)
        self._close_if_done()

    @rule()
    def cancel(self) -> None:
        if self.attempts.total() > 4:  # not too soon, or nothing else is ever tried
            assert self.ledger.cancel(self.run_id) == self.open
            self.open = False

    @invariant()
    def the_ledger_says_what_the_model_says(self) -> None:
        assert {result.job: result.data for result in self.ledger.results(self.run_id)} == self.results
        status = self.ledger.status(self.run_id)
        assert status is not None
        assert (status.state == "running") == self.open
        assert status.done == len(self.results)
        assert status.executions == self.attempts.total()
        assert self.closings <= 1

    def _current(self, claim: Claim) -> bool:
        latest = [other for other in self.claims if other.job == claim.job][-1]
        return claim is latest and (claim.job in self.dead or self.holder.get(claim.job) is claim)

    def _let_go(self, job: CaseJob) -> None:
        self.holder.pop(job, None)
        self.dead.discard(job)

    def _close_if_done(self) -> None:
        if len(self.results) == 3:
            self.open = False
            self.closings += 1


def test_no_order_of_events_loses_a_trial_or_counts_it_twice(server):
    LedgerMachine.server = server
    machine = LedgerMachine.TestCase
    machine.settings = settings(
        max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    machine().runTest()
