"""Turn a suite into a run: its manifest in the ledger, then its trials on the queues."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice

from farm.errors import UsageError
from farm.model.agent import DEFAULT_AGENT
from farm.model.job import CaseJob, CasePlan
from farm.model.suite import Case, Suite
from farm.queue.broker import Broker
from farm.queue.names import KEY_VARIABLE
from farm.queue.planning import Planner, RunOptions
from farm.queue.rows import UnreadableRowError, agent_kind, dump_plan
from farm.queue.signing import digest_of, unsigned
from farm.settings import Settings


def new_run_id(now: datetime | None = None) -> str:
    """Make a run id that sorts by time and is not made twice."""
    return f"{now or datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def submit_run(suite: Suite, settings: Settings, options: RunOptions, broker: Broker, run_id: str) -> bool:
    """Plan the cases of a suite, and submit them; False if there is a run of this id already."""
    planner = Planner(suite, settings, options, broker)
    return submit_planned(suite, planner.plan, broker, run_id, budget_usd=options.max_cost_usd)


def submit_planned(
    suite: Suite,
    plan_of: Callable[[Case], CasePlan],
    broker: Broker,
    run_id: str,
    *,
    budget_usd: float | None = None,
    **fields: str,
) -> bool:
    """Write a run's manifest and queue its trials; False if there is a run of this id already.

    The manifest comes first and whole: if we die after it, the workers' janitor queues what we did not.
    """
    check_keys(broker)
    kinds: dict[str, str] = {}

    def rows() -> Iterator[tuple[str, bytes]]:
        for case in suite.cases:
            plan = plan_of(case)
            kinds[case.id] = plan.spec.kind
            yield case.id, broker.signer.sign(dump_plan(plan), "plan", run_id, case.id)

    jobs = [
        CaseJob(run_id=run_id, case_id=case.id, trial=trial)
        for case in suite.cases
        if case.skip is None
        for trial in range(1, case.trials.count + 1)
    ]
    planned = list(rows())  # nothing is created unless every case can be planned
    if broker.signer.key:
        fields["manifest"] = broker.signer.sign(digest_of(list(kinds)), "manifest", run_id).decode()
    created = broker.ledger.create_run(
        run_id,
        jobs,
        cases=planned,
        budget_usd=budget_usd,
        suite=suite.name,
        store=broker.store_mark,
        kinds=json.dumps(sorted({kinds[job.case_id] for job in jobs})),
        **fields,
    )
    if created:
        broker.publish((job, kinds[job.case_id]) for job in jobs)
        if not jobs:
            broker.publish_aggregation(run_id)
    return created


def check_keys(broker: Broker) -> None:
    """Refuse to queue what every worker that lives would refuse, for lack of the same key."""
    if broker.is_embedded:
        return  # its only worker is ours
    key_ids = {worker.key_id for worker in broker.ledger.workers()}
    if not key_ids or broker.signer.key_id in key_ids:
        return
    if broker.signer.key:
        told = f"no living worker has the {KEY_VARIABLE} of this command; start them with the same key"
    else:
        told = f"the workers carry out only what is signed; set {KEY_VARIABLE} to the key that they have"
    raise UsageError(told)


def queue_again(broker: Broker, jobs: Iterable[CaseJob]) -> int:
    """Queue trials whose plans lie in the ledger."""
    return broker.publish(with_kinds(broker, jobs))


def with_kinds(broker: Broker, jobs: Iterable[CaseJob]) -> Iterator[tuple[CaseJob, str]]:
    """Give each trial with the kind of agent that it needs."""
    waiting = iter(jobs)
    while some := list(islice(waiting, 500)):
        rows = broker.ledger.cases(some[0].run_id, [job.case_id for job in some])
        for job, row in zip(some, rows, strict=True):
            if row is not None:  # the run may have been forgotten meanwhile
                yield job, _kind_of(row, job.run_id, broker)


def _kind_of(row: bytes, run_id: str, broker: Broker) -> str:
    """Give a hint for the way: who carries the trial out looks closely, also at what can't be read here."""
    try:
        return agent_kind(unsigned(row))
    except UnreadableRowError:
        status = broker.ledger.status(run_id)
        return next(iter(status.kinds if status else ()), DEFAULT_AGENT)
