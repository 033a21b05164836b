"""Jobs and claims for the tests of the ledger."""

from __future__ import annotations

from collections.abc import Sequence

import redis

from farm.model.job import CaseJob
from farm.queue.ledger import Claim, Ledger, Limit, RunStatus


def jobs(run_id: str, count: int, trials: int = 1) -> list[CaseJob]:
    """Name the trials of some cases."""
    return [
        CaseJob(run_id=run_id, case_id=f"tests/case::{number}", trial=trial)
        for number in range(count)
        for trial in range(1, trials + 1)
    ]


def claimed(
    ledger: Ledger,
    job: CaseJob,
    *,
    worker: str = "",
    limits: Sequence[Limit] = (),
    reserve_usd: float = 0.0,
    is_guess: bool = False,
) -> Claim:
    """Claim a trial that can be claimed."""
    answer = ledger.claim(job, worker=worker, limits=limits, reserve_usd=reserve_usd, is_guess=is_guess)
    assert isinstance(answer, Claim), answer
    return answer


def status_of(ledger: Ledger, run_id: str) -> RunStatus:
    """Look at a run that is there."""
    status = ledger.status(run_id)
    assert status is not None
    return status


def a_minute_later(client: redis.Redis, run_id: str) -> None:
    """Let a minute pass for all trials that are delayed."""
    key = f"farm:run:{run_id}:delays"
    for name in client.zrange(key, 0, -1):
        assert isinstance(name, bytes)
        client.zincrby(key, -60_000, name)
