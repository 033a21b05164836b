"""Gather a closed run's results into its report, a few cases at a time. Doing it twice changes nothing."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import IO, Self

from farm.errors import FarmError
from farm.model.job import CaseJob, CasePlan, TrialRecord
from farm.model.report import CaseReport, Engine, RunState, SuiteReport, Totals, TrialError, TrialReport
from farm.queue.archive import REPORT, TRANSCRIPTS
from farm.queue.batching import batches
from farm.queue.blobs import CorruptBlobError, MissingBlobError
from farm.queue.broker import Broker
from farm.queue.ledger import RunStatus
from farm.queue.rows import UnreadableRowError, parse_plan, parse_record
from farm.queue.signing import SignatureError, digest_of
from farm.reporting.json import write_cases, write_report
from farm.reporting.summarize import summarize_case, total

_CASES_AT_ONCE = 200
_DESK_MS = 20_000
_MANIFEST = "(manifest)"


def aggregate(run_id: str, broker: Broker) -> bool:
    """Write the report of a run that has been closed; False if there is nothing to do, or another does it."""
    with _Desk(run_id, broker) as desk:
        status = broker.ledger.status(run_id)
        if not desk.is_ours() or status is None or status.state != "aggregating":
            return False
        if status.fields.get("store", broker.store_mark) != broker.store_mark:
            told = "a worker that would write it has another FARM_STORE_URL than whoever submitted the run"
            broker.ledger.note_trouble(run_id, told)
            return False
        if broker.signer.lacks_key_of(status.fields.get("manifest", "").encode()):
            told = "the run is signed, and a worker that would write it has not the same FARM_SIGNING_KEY"
            broker.ledger.note_trouble(run_id, told)
            return False
        try:
            totals = _write_report(status, broker, desk)
        except _OvertakenError:
            return False
        except Exception as error:
            # The janitor has it tried again: a full disk may have room soon. Until then, who waits is told.
            broker.ledger.note_trouble(run_id, str(error))
            raise
        fields = {"totals": totals.model_dump_json()}  # for lists of runs
        # Not if it was opened and closed again meanwhile: then this was the report of another end.
        return broker.ledger.finish(run_id, closed_at_ms=status.closed_at_ms, **fields)


def forget_aggregator(run_id: str, broker: Broker) -> None:
    """Take the desk from an aggregator that is known to be dead."""
    broker.ledger.break_lock(_desk_lock(run_id))


def _desk_lock(run_id: str) -> str:
    return f"aggregate:{run_id}"


class _OvertakenError(Exception):
    """Another aggregator took us for dead."""


class _Desk:
    """The place where one aggregator at a time writes a run's report: a later end must have the last word."""

    def __init__(self, run_id: str, broker: Broker) -> None:
        self._lock = _desk_lock(run_id)
        self._owner = secrets.token_hex(8)
        self._ledger = broker.ledger

    def is_ours(self) -> bool:
        """Take the desk, or keep it; False if another has it."""
        return self._ledger.take_lock(self._lock, self._owner, _DESK_MS)

    def keep(self) -> None:
        """Keep the desk while the work goes on."""
        if not self.is_ours():
            raise _OvertakenError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ledger.release_lock(self._lock, self._owner)


def _write_report(status: RunStatus, broker: Broker, desk: _Desk) -> Totals:
    collection = _Collection(broker, status, desk)
    with TemporaryFile() as body, TemporaryFile() as transcripts, TemporaryFile() as file:
        totals = total(write_cases(collection.cases(transcripts), body))
        write_report(_head(status, totals, workers=len(collection.workers)), body, file)
        for name, written in ((TRANSCRIPTS, transcripts), (REPORT, file)):
            written.seek(0)
            desk.keep()
            broker.archive.write(status.run_id, name, written)
    return totals


def _head(status: RunStatus, totals: Totals, *, workers: int) -> SuiteReport:
    # When the last result was written, not now: who aggregates again must write the same.
    closed_at_ms = status.closed_at_ms or status.created_at_ms
    return SuiteReport(
        run_id=status.run_id,
        suite=status.fields.get("suite", ""),
        state=_final_state(status),
        started_at=_timestamp(status.created_at_ms),
        finished_at=_timestamp(closed_at_ms),
        duration_ms=closed_at_ms - status.created_at_ms,
        regraded_from=status.fields.get("regraded_from"),
        schedule=status.fields.get("schedule"),
        totals=totals,
        engine=Engine(
            workers=workers,
            executions=status.executions,
            retries=status.retries,
            duplicate_executions=status.duplicate_executions,
        ),
        cases=(),
    )


class _Collection:
    """The cases of a run, as far as they have been looked at."""

    def __init__(self, broker: Broker, status: RunStatus, desk: _Desk) -> None:
        self.workers: set[str] = set()
        self._broker = broker
        self._run_id = status.run_id
        self._manifest = status.fields.get("manifest", "").encode()
        self._desk = desk
        self._trials = 0

    def cases(self, transcripts: IO[bytes]) -> Iterator[CaseReport]:
        """Give the cases sorted by id, and write down where their transcripts are."""
        ledger = self._broker.ledger
        all_ids = sorted(ledger.case_ids(self._run_id))
        if changed := self._changed_manifest(all_ids):
            yield changed
        for case_ids in batches(all_ids, _CASES_AT_ONCE):
            self._desk.keep()
            rows = zip(case_ids, ledger.cases(self._run_id, case_ids), strict=True)
            plans = [self._read_plan(case_id, row) for case_id, row in rows if row is not None]
            jobs = [
                job for plan in plans if isinstance(plan, CasePlan) for job in trials_of(self._run_id, plan)
            ]
            records = dict(zip(jobs, self._records(jobs), strict=True))
            for plan in plans:
                if isinstance(plan, CaseReport):
                    yield plan
                    continue
                trials = [self._trial(records[job], transcripts) for job in trials_of(self._run_id, plan)]
                yield summarize_case(plan.case, trials, agent=plan.agent, model=plan.model)

    def _changed_manifest(self, case_ids: list[str]) -> CaseReport | None:
        """Stand for the cases that somebody took out of a signed run, or put into it; None if nobody did."""
        signer = self._broker.signer
        if not signer.key:
            return None
        try:
            if signer.open(self._manifest, "manifest", self._run_id) == digest_of(case_ids):
                return None
            error = SignatureError("cases were taken out of the run, or put into it, after it was signed")
        except SignatureError as failure:
            error = failure
        return _unreadable(_MANIFEST, f"{error.kind}_manifest", error)

    def _read_plan(self, case_id: str, row: bytes) -> CasePlan | CaseReport:
        """Read a plan, or say in its case's place that it can't be read."""
        try:
            return parse_plan(self._broker.signer.open(row, "plan", self._run_id, case_id))
        except SignatureError as error:
            return _unreadable(case_id, f"{error.kind}_plan", error)
        except UnreadableRowError as error:
            return _unreadable(case_id, "unreadable_plan", error)

    def _records(self, jobs: list[CaseJob]) -> list[TrialRecord]:
        rows = self._broker.ledger.results_of(self._run_id, jobs)
        return [read_result(job, row, self._broker) for job, row in zip(jobs, rows, strict=True)]

    def _trial(self, record: TrialRecord, transcripts: IO[bytes]) -> TrialReport:
        self._trials += 1
        report = record.report
        if report.worker:
            self.workers.add(report.worker)
        stem = f"transcripts/{self._trials:05}"
        transcript = f"{stem}.json" if record.transcript else None
        logs = {f"{stem}.{name}": blob_id for name, blob_id in record.logs.items()}
        for name, blob_id in ((transcript, record.transcript), *logs.items()):
            if blob_id is not None:
                transcripts.write(f"{name}\t{blob_id}\n".encode())
        return report.model_copy(update={"transcript": transcript, "logs": tuple(logs)})


def _unreadable(case_id: str, kind: str, error: FarmError) -> CaseReport:
    trial = TrialReport(trial=1, outcome="errored", error=TrialError(kind=kind, message=str(error)))
    return CaseReport(id=case_id, name=case_id, file="", agent="", outcome="errored", trials=(trial,))


def trials_of(run_id: str, plan: CasePlan) -> list[CaseJob]:
    """Name the trials of a case."""
    if plan.case.skip is not None:
        return []
    return [
        CaseJob(run_id=run_id, case_id=plan.case.id, trial=trial)
        for trial in range(1, plan.case.trials.count + 1)
    ]


def read_result(job: CaseJob, row: bytes | None, broker: Broker) -> TrialRecord:
    """Read a trial's result: what its worker wrote, or what there is to say if none is there.

    No row means that it was not carried out; an empty one, that its workers were lost.
    """
    if row is None:
        return TrialRecord(report=TrialReport(trial=job.trial, outcome="cancelled"))
    if not row:
        why = "every worker that carried it out was lost: it may be the case that kills them"
        return _errored(job, "worker_lost", why)
    try:
        opened = broker.signer.open(row, "result", job.run_id, job.case_id, str(job.trial))
        return parse_record(opened, broker.blobs)
    except SignatureError as error:
        return _errored(job, f"{error.kind}_result", str(error))
    except (MissingBlobError, CorruptBlobError, UnreadableRowError) as error:
        return _errored(job, "result_lost", str(error))


def _errored(job: CaseJob, kind: str, why: str) -> TrialRecord:
    error = TrialError(kind=kind, message=why)
    return TrialRecord(report=TrialReport(trial=job.trial, outcome="errored", error=error))


def _final_state(status: RunStatus) -> RunState:
    if status.stopped == "budget":
        return "over_budget"
    return "cancelled" if status.cancelled else "complete"


def _timestamp(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
