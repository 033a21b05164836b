"""What no number of workers may exceed together: sessions at once, starts a minute, a run's budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import redis

from farm.queue.ledger import Claim, Ledger, Limit, Refused
from tests.integration.ledger_builders import a_minute_later, claimed, jobs, status_of


@pytest.fixture
def ledger(client) -> Ledger:
    return Ledger(client)


def limited(ledger: Ledger, *arguments, **options) -> int:
    """Be refused for a limit; give for how long."""
    answer = ledger.claim(*arguments, **options)
    assert isinstance(answer, Refused), answer
    assert answer.reason == "limited"
    return answer.wait_ms


def in_parallel(work: Callable[[int], None], count: int = 8) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - told below, in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_limit_counts_sessions_of_all_runs_and_is_free_again_when_they_end(ledger, run_id):
    other = f"{run_id}-other"
    limit = [Limit(run_id, concurrency=2)]
    mine, theirs = jobs(run_id, 2), jobs(other, 2)
    ledger.create_run(run_id, mine)
    ledger.create_run(other, theirs)
    first = claimed(ledger, mine[0], limits=limit)
    second = claimed(ledger, theirs[0], limits=limit)
    assert 250 <= limited(ledger, mine[1], limits=limit) <= 1000
    again = ledger.claim(mine[1], limits=limit)
    assert isinstance(again, Refused)
    assert again.reason in ("early", "limited")
    ledger.complete(first, b"x")
    third = claimed(ledger, theirs[1], limits=limit)
    assert third.attempt == 1
    ledger.give_back(second)
    ledger.give_back(third)
    claimed(ledger, theirs[0], limits=limit)
    claimed(ledger, theirs[1], limits=limit)


def test_a_start_that_was_limited_is_no_attempt_and_becomes_due(ledger, client, run_id):
    limit = [Limit(run_id, concurrency=1)]
    first, second = jobs(run_id, 2)
    ledger.create_run(run_id, [first, second])
    blocker = claimed(ledger, first, limits=limit)
    limited(ledger, second, limits=limit)
    assert status_of(ledger, run_id).executions == 1
    a_minute_later(client, run_id)
    assert ledger.due(run_id) == (second,)
    ledger.complete(blocker, b"x")
    assert claimed(ledger, second, limits=limit).attempt == 1


def test_eight_workers_at_once_never_exceed_a_limit(server, run_id):
    everything = jobs(run_id, 60)
    limit = [Limit(run_id, concurrency=3)]
    with redis.Redis.from_url(server.url) as client:
        Ledger(client).create_run(run_id, everything)
    lock = threading.Lock()
    now, most = 0, 0

    def work(seed: int) -> None:
        nonlocal now, most
        with redis.Redis.from_url(server.url) as client:
            ledger = Ledger(client)
            waiting = everything[seed::8]
            while waiting:
                job = waiting.pop(0)
                answer = ledger.claim(job, limits=limit)
                if isinstance(answer, Refused):
                    assert answer.reason in ("limited", "early")
                    client.delete(f"farm:run:{run_id}:delays")  # time flies
                    waiting.append(job)
                    continue
                with lock:
                    now += 1
                    most = max(most, now)
                time.sleep(0.002)
                with lock:
                    now -= 1
                ledger.complete(answer, b"x")

    in_parallel(work)
    assert most <= 3
    with redis.Redis.from_url(server.url) as client:
        assert status_of(Ledger(client), run_id).executions == 60


def test_a_dead_workers_slot_frees_itself(client, ledger, run_id):
    limit = [Limit(run_id, concurrency=1)]
    first, second = jobs(run_id, 2)
    ledger.create_run(run_id, [first, second])
    claimed(Ledger(client, lease_ms=0), first, limits=limit)
    claimed(ledger, second, limits=limit)


def test_a_heartbeat_keeps_the_slot_and_not_only_the_lease(client, run_id):
    limit = [Limit(run_id, concurrency=1)]
    first, second = jobs(run_id, 2)
    short = Ledger(client, lease_ms=0)
    short.create_run(run_id, [first, second])
    claim = claimed(short, first, limits=limit)
    assert Ledger(client).renew(claim) == "held"
    limited(short, second, limits=limit)


def test_the_janitor_frees_the_slots_of_the_dead_also_in_a_run_that_is_closed(client, ledger, run_id):
    limit = [Limit(run_id, concurrency=1)]
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job], budget_usd=5.0)
    claimed(Ledger(client, lease_ms=0), job, limits=limit, reserve_usd=0.5)
    ledger.cancel(run_id)
    assert ledger.expire(run_id).again == ()
    assert client.zcard(f"farm:limit:{run_id}:slots") == 0
    status = ledger.status(run_id)
    assert (status.leased, status.spent_usd, status.reserved_usd) == (0, 0.5, 0.0)


def test_a_cancelled_session_has_its_slot_until_it_ends(ledger, run_id):
    other = f"{run_id}-other"
    limit = [Limit(run_id, concurrency=1)]
    ledger.create_run(run_id, jobs(run_id, 1))
    ledger.create_run(other, jobs(other, 2))
    claim = claimed(ledger, jobs(run_id, 1)[0], limits=limit)
    ledger.cancel(run_id)
    assert ledger.renew(claim) == "closed"
    limited(ledger, jobs(other, 1)[0], limits=limit)
    assert ledger.give_back(claim, cost_usd=0.0)
    claimed(ledger, jobs(other, 2)[1], limits=limit)


def test_all_limits_must_agree_and_a_refused_start_takes_nothing(ledger, client, run_id):
    wide, narrow = Limit(f"{run_id}-wide", concurrency=9), Limit(f"{run_id}-narrow", concurrency=1)
    first, second = jobs(run_id, 2)
    ledger.create_run(run_id, [first, second])
    claimed(ledger, first, limits=[wide, narrow])
    limited(ledger, second, limits=[wide, narrow])
    assert client.zcard(f"farm:limit:{wide.name}:slots") == 1


def test_starts_per_minute_are_limited_to_the_exact_time(ledger, client, run_id):
    limit = [Limit(run_id, starts_per_minute=2)]
    first, second, third, fourth = jobs(run_id, 4)
    ledger.create_run(run_id, [first, second, third, fourth])
    ledger.complete(claimed(ledger, first, limits=limit), b"x")
    claimed(ledger, second, limits=limit)
    wait_ms = limited(ledger, third, limits=limit)
    key = f"farm:limit:{run_id}:starts"
    oldest = client.zrange(key, 0, 0)[0]
    assert 0 < wait_ms <= 60_000
    assert (
        abs(
            client.zscore(key, oldest)
            + 60_000
            - client.zscore(f"farm:run:{run_id}:delays", "1:tests/case::2")
        )
        <= 1
    )
    client.zincrby(key, -60_001, oldest)  # a minute later
    claimed(ledger, fourth, limits=limit)
    assert 0 < client.pttl(key) <= 60_000


def test_the_more_wait_the_later_each_comes_again(ledger, run_id):
    limit = [Limit(run_id, concurrency=1)]
    everything = jobs(run_id, 400)
    ledger.create_run(run_id, everything)
    claimed(ledger, everything[0], limits=limit)
    waits = [limited(ledger, job, limits=limit) for job in everything[1:]]
    assert max(waits[:50]) <= 1500
    assert 1500 < max(waits[300:]) <= 5000


def test_a_back_off_holds_for_all_who_start_under_that_name(ledger, client, run_id):
    limit = [Limit(run_id, concurrency=5)]
    job, other = jobs(run_id, 2)
    ledger.create_run(run_id, [job, other])
    ledger.note_busy(run_id, 1, told_ms=60_000)
    ledger.note_busy(run_id, 1, told_ms=1000)  # who was told less does not know better
    ledger.note_busy(run_id, 1)
    assert 50_000 < limited(ledger, job, limits=limit) <= 61_000
    claimed(ledger, other)  # under no limit
    client.delete(f"farm:limit:{run_id}:pause", f"farm:run:{run_id}:delays")  # a minute later
    claimed(ledger, job, limits=limit)


@pytest.mark.parametrize(
    "wrong",
    [{"name": ""}, {"name": "a\nb"}, {"name": "a", "concurrency": 0}, {"name": "a", "starts_per_minute": -1}],
)
def test_a_limit_that_lets_nothing_start_or_has_no_name_is_refused(wrong):
    with pytest.raises(ValueError, match="limit"):
        Limit(**wrong)


def test_a_budget_reserves_charges_and_stops_the_run(ledger, run_id):
    everything = jobs(run_id, 4)
    ledger.create_run(run_id, everything, budget_usd=1.0)
    first = claimed(ledger, everything[0], reserve_usd=0.6)
    status = ledger.status(run_id)
    assert (status.spent_usd, status.reserved_usd, status.budget_usd) == (0.0, 0.6, 1.0)
    assert limited(ledger, everything[1], reserve_usd=0.6) > 0  # the first may turn out cheap
    ledger.complete(first, b"x", cost_usd=0.1)
    second = claimed(ledger, everything[2], reserve_usd=0.6)
    ledger.complete(second, b"x", cost_usd=0.55)
    assert ledger.claim(everything[3], reserve_usd=0.6) == Refused("over_budget")
    status = ledger.status(run_id)
    assert (status.state, status.stopped, status.cancelled) == ("aggregating", "budget", False)
    assert (status.spent_usd, status.reserved_usd, status.done) == (0.65, 0.0, 2)
    assert ledger.claim(everything[3]) == Refused("closed")


def test_a_run_that_its_budget_stopped_can_be_resumed_with_a_larger_one_and_keeps_what_it_spent(
    ledger, run_id
):
    first, second = jobs(run_id, 2)
    ledger.create_run(run_id, [first, second], budget_usd=0.5)
    ledger.complete(claimed(ledger, first, reserve_usd=0.5), b"x", cost_usd=0.5)
    assert ledger.claim(second, reserve_usd=0.5) == Refused("over_budget")
    ledger.finish(run_id)
    assert ledger.resume(run_id, budget_usd=2.0) == 1
    status = ledger.status(run_id)
    assert (status.state, status.stopped, status.spent_usd, status.budget_usd) == ("running", None, 0.5, 2.0)
    assert ledger.complete(claimed(ledger, second, reserve_usd=0.5), b"x", cost_usd=0.1) == "last"
    assert ledger.status(run_id).spent_usd == 0.6


@pytest.mark.parametrize("unknown", [None, float("nan"), float("inf"), -3.0])
def test_what_is_not_known_is_charged_as_it_was_reserved(ledger, run_id, unknown):
    first, second = jobs(run_id, 2)
    ledger.create_run(run_id, [first, second], budget_usd=5.0)
    ledger.complete(claimed(ledger, first, reserve_usd=0.25), b"x", cost_usd=unknown)
    ledger.give_back(claimed(ledger, second, reserve_usd=0.5), cost_usd=unknown)
    status = ledger.status(run_id)
    assert (status.spent_usd, status.reserved_usd, status.unknown_costs) == (0.75, 0.0, 2)


def test_without_a_budget_nothing_is_reserved_and_no_cost_is_made_up(ledger, run_id):
    first, second = jobs(run_id, 2)
    ledger.create_run(run_id, [first, second])
    ledger.complete(claimed(ledger, first, reserve_usd=0.25), b"x", cost_usd=None)
    ledger.complete(claimed(ledger, second, reserve_usd=0.25), b"x", cost_usd=0.1)
    status = ledger.status(run_id)
    assert (status.spent_usd, status.unknown_costs, status.budget_usd) == (0.1, 1, None)


def test_the_last_of_the_money_is_enough_for_one_trial_at_a_time_if_its_cost_is_a_guess(ledger, run_id):
    first, second, third = jobs(run_id, 3)
    ledger.create_run(run_id, [first, second, third], budget_usd=0.5)
    claim = claimed(ledger, first, reserve_usd=1.0, is_guess=True)
    assert ledger.status(run_id).reserved_usd == 0.5
    limited(ledger, second, reserve_usd=1.0, is_guess=True)
    ledger.complete(claim, b"x", cost_usd=0.2)
    ledger.due(run_id)
    # No guess: what its author allows.
    assert ledger.claim(third, reserve_usd=1.0) == Refused("over_budget")


def test_a_lost_worker_is_charged_what_it_had_reserved(client, ledger, run_id):
    dying = Ledger(client, lease_ms=0)
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job], budget_usd=5.0)
    late = claimed(dying, job, reserve_usd=0.3)
    ledger.expire(run_id)
    claimed(dying, job, reserve_usd=0.3)
    again = claimed(ledger, job, reserve_usd=0.3)  # before the janitor comes
    assert ledger.complete(late, b"late", cost_usd=0.2) == "duplicate"
    ledger.complete(again, b"x", cost_usd=0.1)
    status = ledger.status(run_id)
    assert (status.spent_usd, status.reserved_usd, status.unknown_costs) == (0.7, 0.0, 2)


def test_many_small_costs_add_up_exactly(ledger, run_id):
    (job,) = jobs(run_id, 1)
    ledger.create_run(run_id, [job])
    for _ in range(100):
        ledger.give_back(claimed(ledger, job, reserve_usd=0.1), cost_usd=0.1)
    status = ledger.status(run_id)
    assert (status.spent_usd, status.reserved_usd) == (10.0, 0.0)


def test_parallel_claims_never_exceed_a_budget_when_costs_stay_within_what_was_reserved(server, run_id):
    everything = jobs(run_id, 200)
    with redis.Redis.from_url(server.url) as client:
        Ledger(client).create_run(run_id, everything, budget_usd=5.0)
    stops: list[int] = []

    def work(seed: int) -> None:
        with redis.Redis.from_url(server.url) as client:
            ledger = Ledger(client)
            waiting = everything[seed::8]
            while waiting:
                job = waiting.pop(0)
                answer = ledger.claim(job, reserve_usd=0.2)
                if isinstance(answer, Claim):
                    cost = (None, 0.0, 0.07, 0.2)[len(waiting) % 4]
                    assert ledger.complete(answer, b"x", cost_usd=cost) in ("stored", "closed")
                elif answer.reason in ("limited", "early"):
                    client.delete(f"farm:run:{run_id}:delays")  # time flies
                    waiting.append(job)
                elif answer.reason == "over_budget":
                    stops.append(seed)
                else:
                    assert answer.reason == "closed"

    in_parallel(work)
    assert len(stops) == 1
    with redis.Redis.from_url(server.url) as client:
        status = status_of(Ledger(client), run_id)
        assert 4.8 < status.spent_usd <= 5.0
        assert (status.reserved_usd, status.stopped, status.state) == (0.0, "budget", "aggregating")


@pytest.mark.parametrize("wrong", [float("nan"), -1.0, float("inf")])
def test_a_budget_or_a_reservation_is_an_amount_of_money(ledger, run_id, wrong):
    with pytest.raises(ValueError, match="no amount of money"):
        ledger.create_run(run_id, [], budget_usd=wrong)
    with pytest.raises(ValueError, match="no amount of money"):
        ledger.claim(jobs(run_id, 1)[0], reserve_usd=wrong)
