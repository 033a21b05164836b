"""Any order of claims, deaths, results and janitors, beside a plain model of what must come of it."""

from __future__ import annotations

import secrets
from collections import Counter

import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from farm.model.job import CaseJob
from farm.queue.ledger import Claim, Ledger, Limit, Refused
from farm.queue.server import Server
from tests.integration.ledger_builders import jobs, status_of

COUNT = 4
MOST_LOSSES = 3
RESERVE, BUDGET = 400_000, 4_000_000  # micro-dollars
COSTS = st.sampled_from([None, 0, 100_000, RESERVE])


class LedgerMachine(RuleBasedStateMachine):
    """One run of four trials, two of which at most may run at once if they are under the limit."""

    server: Server  # given by the test below

    def __init__(self) -> None:
        super().__init__()
        self.client = redis.Redis.from_url(self.server.url)
        self.ledger = Ledger(self.client, lease_ms=3_600_000, max_losses=MOST_LOSSES)
        self.dying = Ledger(self.client, lease_ms=0, max_losses=MOST_LOSSES)
        self.run_id = f"machine-{secrets.token_hex(6)}"
        self.limit = Limit(self.run_id, concurrency=2)
        self.jobs = jobs(self.run_id, COUNT)
        self.ledger.create_run(self.run_id, self.jobs, budget_usd=BUDGET / 1e6)
        self.state = "running"
        self.cancelled, self.stopped = False, False
        self.current: dict[CaseJob, Claim] = {}  # under lease, also one that is over
        self.dead: set[CaseJob] = set()  # leases that are over
        self.slots: set[CaseJob] = set()  # who counts against the limit
        self.claims: list[Claim] = []  # all there ever were
        self.attempts: Counter[CaseJob] = Counter()
        self.losses: Counter[CaseJob] = Counter()
        self.results: dict[CaseJob, bytes | None] = {}
        self.log: list[CaseJob] = []
        self.executions, self.spent, self.unknown_costs = 0, 0, 0

    def teardown(self) -> None:
        self.ledger.forget(self.run_id)
        self.client.delete(f"farm:limit:{self.run_id}:slots")
        self.client.close()

    @rule(number=st.integers(0, COUNT - 1), dies=st.booleans(), under_limit=st.booleans())
    def claim(self, number: int, dies: bool, under_limit: bool) -> None:
        job = self.jobs[number]
        limits = [self.limit] if under_limit else []
        answer = (self.dying if dies else self.ledger).claim(job, limits=limits, reserve_usd=RESERVE / 1e6)
        if self.state != "running":
            assert answer == Refused("closed")
            return
        if job in self.results:
            assert answer == Refused("done")
            return
        if job in self.current:
            if job not in self.dead or self.losses[job] + 1 >= MOST_LOSSES:
                assert answer == Refused("leased")
                return
            self._lose(job)
        if self.spent + RESERVE * (len(self.current) + 1) > BUDGET:
            if self.current:
                self._limited(answer)
            else:
                assert answer == Refused("over_budget")
                self.state, self.stopped = "aggregating", True
            return
        if under_limit and len(self.slots - self.dead) >= 2:
            self._limited(answer)
            return
        self.attempts[job] += 1
        self.executions += 1
        assert isinstance(answer, Claim), answer
        assert (answer.attempt, answer.losses) == (self.attempts[job], self.losses[job])
        self.claims.append(answer)
        self.current[job] = answer
        if dies:
            self.dead.add(job)
        if under_limit:
            self.slots.add(job)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        answer = self.ledger.renew_all({claim: "note"})[claim]
        if self.current.get(claim.job) != claim:
            assert answer == "lost"
        elif self.state != "running":
            assert answer == "closed"
        else:
            assert answer == "held"
            self.dead.discard(claim.job)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), cost=COSTS)
    def complete(self, data: st.DataObject, cost: int | None) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        answer = self.ledger.complete(
            claim, claim.token.encode(), cost_usd=None if cost is None else cost / 1e6
        )
        if self.current.get(claim.job) != claim:
            assert answer == "duplicate"
            return
        self._let_go(claim.job, cost)
        if self.state != "running":
            assert answer == "closed"
            return
        self._settle(claim.job, claim.token.encode())
        assert answer == ("last" if len(self.results) == COUNT else "stored")

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), cost=COSTS, uncounted=st.booleans())
    def give_back(self, data: st.DataObject, cost: int | None, uncounted: bool) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        current = self.current.get(claim.job) == claim
        cost_usd = None if cost is None else cost / 1e6
        assert self.ledger.give_back(claim, uncounted=uncounted, cost_usd=cost_usd) == current
        if current:
            self._let_go(claim.job, cost)
            if uncounted and self.state == "running":
                self.attempts[claim.job] -= 1

    @rule()
    def expire(self) -> None:
        answer = self.ledger.expire(self.run_id)
        again, lost = set(), 0
        for job in list(self.dead):
            self._lose(job)
            if self.state != "running":
                continue
            if self.losses[job] < MOST_LOSSES:
                again.add(job)
            else:
                lost += 1
                self._settle(job, None)
        assert (set(answer.again), answer.lost) == (again, lost)
        assert answer.closed == (lost > 0 and len(self.results) == COUNT)

    @precondition(lambda self: self.executions > 4)  # not too soon, or nothing else is ever tried
    @rule()
    def cancel(self) -> None:
        assert self.ledger.cancel(self.run_id) == (self.state == "running")
        if self.state == "running":
            self.state, self.cancelled = "aggregating", True

    @rule()
    def finish(self) -> None:
        assert self.ledger.finish(self.run_id) == (self.state == "aggregating")
        if self.state == "aggregating":
            self.state = "cancelled" if self.cancelled else "complete"

    @precondition(lambda self: self.state != "running")
    @rule()
    def resume(self) -> None:
        left = COUNT - len(self.results)
        assert self.ledger.resume(self.run_id) == left
        if left:
            self._open_again()

    @precondition(lambda self: self.results)
    @rule(chosen=st.sets(st.integers(0, COUNT - 1), min_size=1))
    def retry(self, chosen: set[int]) -> None:
        wanted = [self.jobs[number] for number in chosen]
        put_back = [job for job in wanted if job in self.results]
        assert self.ledger.retry(self.run_id, wanted) == len(put_back)
        for job in put_back:
            del self.results[job]
            del self.attempts[job]
            self.losses[job] = 0
        if put_back and self.state != "running":
            self._open_again()

    @invariant()
    def the_ledger_says_what_the_model_says(self) -> None:
        assert {result.job: result.data for result in self.ledger.results(self.run_id)} == self.results
        followed, position = self.ledger.follow(self.run_id, 0)
        assert position == len(self.log)
        assert [result.job for result in followed] == [job for job in self.log if job in self.results]
        status = status_of(self.ledger, self.run_id)
        assert (status.state, status.cancelled, status.stopped) == (
            self.state,
            self.cancelled,
            "budget" if self.stopped else None,
        )
        living = len(self.current.keys() - self.dead)
        assert (status.done, status.leased) == (len(self.results), living)
        assert status.executions == self.executions
        assert round(status.spent_usd * 1e6) == self.spent <= BUDGET
        assert round(status.reserved_usd * 1e6) == RESERVE * len(self.current)
        assert status.unknown_costs == self.unknown_costs
        assert {running.job for running in self.ledger.running(self.run_id)} == self.current.keys()
        assert (self.run_id in self.ledger.active_runs()) == (self.state in ("running", "aggregating"))
        expires = self.client.ttl(f"farm:run:{self.run_id}") > 0
        assert expires == (self.state in ("complete", "cancelled"))

    def _limited(self, answer: Claim | Refused) -> None:
        assert isinstance(answer, Refused), answer
        assert answer.reason == "limited"
        assert answer.wait_ms > 0
        # Time flies: else the next claim would be early or not, as fast as this machine is.
        self.client.delete(f"farm:run:{self.run_id}:delays")

    def _lose(self, job: CaseJob) -> None:
        if self.state == "running":
            self.losses[job] += 1
        self._let_go(job, None)

    def _let_go(self, job: CaseJob, cost: int | None) -> None:
        del self.current[job]
        self.dead.discard(job)
        self.slots.discard(job)
        self.spent += RESERVE if cost is None else cost
        self.unknown_costs += cost is None

    def _settle(self, job: CaseJob, data: bytes | None) -> None:
        self.results[job] = data
        self.log.append(job)
        if len(self.results) == COUNT:
            self.state = "aggregating"

    def _open_again(self) -> None:
        for job in list(self.current):
            self._let_go(job, None)
        self.attempts.clear()
        self.losses.clear()
        self.state, self.cancelled, self.stopped = "running", False, False


def test_no_order_of_events_loses_a_trial_counts_it_twice_or_overspends(server):
    LedgerMachine.server = server
    machine = LedgerMachine.TestCase
    machine.settings = settings(
        max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
    )
    machine().runTest()
