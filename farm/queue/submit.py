"""Turn a suite into a run: its manifest in the ledger, then its trials on the queues."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice

from farm.model.job import CaseJob
from farm.model.suite import Suite
from farm.queue.broker import Broker
from farm.queue.planning import Planner, RunOptions
from farm.queue.rows import agent_kind, dump_plan
from farm.settings import Settings


def new_run_id(now: datetime | None = None) -> str:
    """Make a run id that sorts by time and is not made twice."""
    return f"{now or datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def submit_run(suite: Suite, settings: Settings, options: RunOptions, broker: Broker, run_id: str) -> bool:
    """Write a run's manifest and queue its trials; False if there is a run of this id already.

    The manifest comes first and whole: if we die after it, the workers' janitor queues what we did not.
    """
    planner = Planner(suite, settings, options, broker)
    kinds: dict[str, str] = {}

    def rows() -> Iterator[tuple[str, bytes]]:
        for case in suite.cases:
            plan = planner.plan(case)
            kinds[case.id] = plan.spec.kind
            yield case.id, dump_plan(plan)

    jobs = [
        CaseJob(run_id=run_id, case_id=case.id, trial=trial)
        for case in suite.cases
        if case.skip is None
        for trial in range(1, case.trials.count + 1)
    ]
    planned = list(rows())  # nothing is created unless every case can be planned
    created = broker.ledger.create_run(
        run_id,
        jobs,
        cases=planned,
        budget_usd=options.max_cost_usd,
        suite=suite.name,
        store=broker.store_mark,
        kinds=json.dumps(sorted({kinds[job.case_id] for job in jobs})),
    )
    if created:
        broker.publish((job, kinds[job.case_id]) for job in jobs)
        if not jobs:
            broker.publish_aggregation(run_id)
    return created


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
                yield job, agent_kind(row)
