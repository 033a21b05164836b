"""Open a run again for some of its trials: those without a result, or those that ended badly."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from farm.model.verdict import Outcome
from farm.queue.batching import batches
from farm.queue.broker import Broker
from farm.queue.collect import forget_aggregator
from farm.queue.connection import clear_errors
from farm.queue.following import trial_outcomes
from farm.queue.ledger import RunStatus
from farm.queue.names import CONTROL_QUEUE, agent_queue
from farm.queue.signing import SignatureError
from farm.queue.submit import check_keys, queue_again

_PUT_BACK_AT_ONCE = 5000
_SIGNED_AT_ONCE = 500


def resume_run(broker: Broker, run_id: str, *, budget_usd: float | None = None, alone: bool = False) -> int:
    """Queue the trials that have no result; give their number.

    Alone: nobody else works on this broker, so whoever had claims and messages is gone.
    """
    if alone:
        _forget_the_dead(broker, run_id)
    was_running = _is_running(broker, run_id)
    check_keys(broker)
    _sign_anew(broker, run_id)
    left = broker.ledger.resume(run_id, budget_usd=budget_usd)
    if was_running:
        return left  # what waits in a run that goes on has its messages
    if left:
        queue_again(broker, broker.ledger.waiting(run_id))
    else:
        broker.publish_aggregation(run_id)  # in case that is all that is missing
    return left


def retry_run(
    broker: Broker,
    run_id: str,
    outcomes: Collection[Outcome],
    *,
    budget_usd: float | None = None,
    alone: bool = False,
) -> int:
    """Queue the trials with one of these outcomes again, and what has no result; give the former's number."""
    if alone:
        _forget_the_dead(broker, run_id)
    jobs = [job for job, outcome in trial_outcomes(broker, run_id) if outcome in outcomes]
    was_running = _is_running(broker, run_id)
    check_keys(broker)
    _sign_anew(broker, run_id)
    put_back = sum(
        broker.ledger.retry(run_id, batch, budget_usd=budget_usd)
        for batch in batches(jobs, _PUT_BACK_AT_ONCE)
    )
    if put_back:
        queue_again(broker, jobs if was_running else broker.ledger.waiting(run_id))
    return put_back


def _forget_the_dead(broker: Broker, run_id: str) -> None:
    # Closing it now, and opening it afterwards, takes back claims that nobody will renew.
    status = broker.ledger.status(run_id)
    if status is not None and status.state == "running":
        broker.ledger.cancel(run_id)
        status = broker.ledger.status(run_id)
    if status is not None:
        with clear_errors():
            broker.client.delete(*_queues(status))
    forget_aggregator(run_id, broker)


def _sign_anew(broker: Broker, run_id: str) -> None:
    """Vouch for a run's plans once more, as workers refuse what was signed long ago.

    Only for those that somebody with the key has signed; before the run is opened, as its workers are quick.
    """
    signer = broker.signer
    if not signer.key:
        return
    for case_ids in batches(broker.ledger.case_ids(run_id), _SIGNED_AT_ONCE):
        renewed = []
        for case_id, row in zip(case_ids, broker.ledger.cases(run_id, case_ids), strict=True):
            with suppress(SignatureError):  # whoever carries it out says so
                if row is not None:
                    plan = signer.open(row, "plan", run_id, case_id)
                    renewed.append((case_id, signer.sign(plan, "plan", run_id, case_id)))
        broker.ledger.replace_cases(run_id, renewed)


def _is_running(broker: Broker, run_id: str) -> bool:
    status = broker.ledger.status(run_id)
    return status is not None and status.state == "running"


def _queues(status: RunStatus) -> list[str]:
    kinds = status.kinds
    return [CONTROL_QUEUE, *(agent_queue(kind) for kind in kinds)]
