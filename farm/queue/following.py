"""Follow a run to its end: what has come of it since the last look, and what is going on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from farm.errors import FarmError
from farm.model.job import CaseJob, CasePlan, TrialRecord
from farm.model.report import CaseReport
from farm.model.verdict import Outcome
from farm.queue.broker import Broker
from farm.queue.collect import read_result, trials_of
from farm.queue.connection import LedgerError
from farm.queue.ledger import Running, RunStatus
from farm.queue.rows import UnreadableRowError, parse_plan
from farm.queue.signing import SignatureError
from farm.reporting.summarize import summarize_case

_PAUSE_SECONDS = 0.1
_WORKERS_EVERY_SECONDS = 2.0
_WORKERS_MAY_START_SECONDS = 5.0


class UnknownRunError(FarmError):
    """There is no such run, or it is not known any more."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f'there is no run "{run_id}" here; `farm status` lists those there are')


@dataclass(frozen=True)
class Kept:
    """A trial's directory that was kept to be looked at."""

    case_id: str
    worker: str
    directory: str


@dataclass(frozen=True)
class Update:
    """What is new about a run."""

    status: RunStatus
    cases: tuple[CaseReport, ...] = ()  # those whose last trial has come in
    running: Callable[[], Sequence[Running]] = tuple  # looks: only a terminal shows them
    kept: tuple[Kept, ...] = ()
    unserved: tuple[str, ...] = ()  # kinds of agents that no living worker has
    busy: Mapping[str, int] = field(default_factory=dict)  # ms until sessions of a service start again
    outcomes: Counter[Outcome] = field(default_factory=Counter)  # of all cases so far

    @property
    def is_last(self) -> bool:
        """Whether the run is over and its report written."""
        return self.status.is_over


def follow_run(broker: Broker, run_id: str, *, pause_seconds: float = _PAUSE_SECONDS) -> Iterator[Update]:
    """Give updates until the run is over; the last one is the end."""
    follower = _Follower(broker, run_id)
    while True:
        update = follower.look()
        yield update
        if update.is_last:
            return
        if not update.cases:
            time.sleep(pause_seconds)


class _Follower:
    def __init__(self, broker: Broker, run_id: str) -> None:
        self._broker = broker
        self._run_id = run_id
        self._position = 0
        self._outcomes: Counter[Outcome] = Counter()
        self._unfinished: dict[str, dict[int, TrialRecord]] = {}
        self._finished: dict[str, Outcome] = {}
        self._unserved: tuple[str, ...] = ()
        self._busy: dict[str, int] = {}
        self._workers_at = time.monotonic() + _WORKERS_MAY_START_SECONDS

    def look(self) -> Update:
        """Look at the run once."""
        ledger = self._broker.ledger
        status = ledger.status(self._run_id)  # before the results: the last of them are in then
        if status is None:
            raise UnknownRunError(self._run_id)
        position = self._position
        results, self._position = ledger.follow(self._run_id, position)
        cases, kept = [], []
        plans = self._plans([result.job.case_id for result in results])
        for result in results:
            plan = plans.get(result.job.case_id)
            if plan is None:
                continue  # it can't be read, or is not signed: the report says so
            record = read_result(result.job, result.data or b"", self._broker)
            if record.kept:
                kept.append(Kept(plan.case.id, record.report.worker or "", record.kept))
            trials = self._trials(plan, result.job, record)
            if len(trials) == plan.case.trials.count:
                reports = [trials[number].report for number in sorted(trials)]
                case = summarize_case(plan.case, reports, agent=plan.agent, model=plan.model)
                if self._finish(case):
                    cases.append(case)
        if self._position > position and status.is_over:
            status = _still_open(status)  # there may be more to read before the end
        return Update(
            status=status,
            cases=tuple(cases),
            running=self._running if status.state == "running" else tuple,
            kept=tuple(kept),
            unserved=self._look_for_workers(status),
            busy=self._busy if status.state == "running" else {},
            outcomes=Counter(self._outcomes),
        )

    def _running(self) -> Sequence[Running]:
        try:
            return self._broker.ledger.running(self._run_id)
        except LedgerError:
            return ()  # the next look says so, where it is expected

    def _trials(self, plan: CasePlan, job: CaseJob, record: TrialRecord) -> dict[int, TrialRecord]:
        """Give the trials of a case that have come in."""
        if plan.case.id not in self._finished:
            trials = self._unfinished.setdefault(plan.case.id, {})
            trials[job.trial] = record
            return trials
        # It was retried. That is rare: the other trials are not kept for it, but read again.
        jobs = trials_of(self._run_id, plan)
        rows = self._broker.ledger.results_of(self._run_id, jobs)
        return {
            job.trial: read_result(job, row, self._broker)
            for job, row in zip(jobs, rows, strict=True)
            if row is not None
        }

    def _finish(self, case: CaseReport) -> bool:
        """Count a case; False if it was retried and nothing has changed."""
        self._unfinished.pop(case.id, None)
        before = self._finished.get(case.id)
        if before == case.outcome:
            return False
        if before is not None:
            self._outcomes[before] -= 1
        self._outcomes[case.outcome] += 1
        self._finished[case.id] = case.outcome
        return True

    def _plans(self, case_ids: list[str]) -> dict[str, CasePlan]:
        wanted = list(dict.fromkeys(case_ids))
        rows = self._broker.ledger.cases(self._run_id, wanted) if wanted else []
        plans = {}
        for case_id, row in zip(wanted, rows, strict=True):
            with suppress(SignatureError, UnreadableRowError):
                if row is not None:
                    opened = self._broker.signer.open(row, "plan", self._run_id, case_id)
                    plans[case_id] = parse_plan(opened)
        return plans

    def _look_for_workers(self, status: RunStatus) -> tuple[str, ...]:
        now = time.monotonic()
        if status.state == "running" and now >= self._workers_at:
            self._workers_at = now + _WORKERS_EVERY_SECONDS
            self._unserved = unserved_kinds(self._broker, status)
            self._busy = pauses_of(self._broker, status)
        return self._unserved if status.state == "running" else ()


def unserved_kinds(broker: Broker, status: RunStatus) -> tuple[str, ...]:
    """Name the kinds of agents that a run needs and no living worker has."""
    served = {kind for worker in broker.ledger.workers() for kind in worker.agents}
    return tuple(kind for kind in status.kinds if kind not in served)


def pauses_of(broker: Broker, status: RunStatus) -> dict[str, int]:
    """Name the services of a run's kinds of agents that are busy, with the ms until they are asked again."""
    return {
        service: ms
        for service, ms in broker.ledger.pauses().items()
        if service.partition(":")[0] in status.kinds
    }


def trial_outcomes(broker: Broker, run_id: str) -> Iterator[tuple[CaseJob, Outcome]]:
    """Give the outcome of every trial that has a result."""
    for result in broker.ledger.results(run_id):
        yield result.job, read_result(result.job, result.data or b"", broker).report.outcome


def _still_open(status: RunStatus) -> RunStatus:
    return replace(status, state="aggregating")
