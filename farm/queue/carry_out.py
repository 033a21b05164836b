"""Carry out one trial that a message named: claim it, run it, write its result, or give it back."""

from __future__ import annotations

import logging
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import IO

from farm.agents.session_files import dump_transcript
from farm.errors import FarmError, SessionError
from farm.model.job import CaseJob, CasePlan, ShippedFile, TrialRecord
from farm.model.messages import ToolCall
from farm.model.report import TrialError, TrialReport
from farm.model.transcript import Transcript
from farm.model.verdict import Outcome, Verdict
from farm.queue.attempts import dump_errors, earlier_errors
from farm.queue.blobs import BlobError, CorruptBlobError, MissingBlobError, get_bytes, put_bytes
from farm.queue.broker import Broker
from farm.queue.costs import attempt_cost_usd, reserve_usd
from farm.queue.ended import Ended, one_line, refused, stopped, written
from farm.queue.heartbeat import Heartbeat, Lease
from farm.queue.ledger import Limit, Refused
from farm.queue.rows import UnreadableRowError, dump_record, parse_plan
from farm.queue.secret_names import check_secrets
from farm.queue.services import judge_at_service, service_of, tell_fleet
from farm.queue.signing import SignatureError
from farm.queue.submit import queue_again
from farm.reporting.terminal import tool_call_line
from farm.running import TrialPlan, TrialResult, run_trial
from farm.sessions.bundle_cache import BundleCache
from farm.sessions.owned_directory import make_directory, remove_directory
from farm.sessions.trial_directories import TrialDirectories
from farm.sessions.workspace_diff import read_plain_file

_FIRST_RETRY_SECONDS = 1.0
_RETRY_FACTOR = 3.0
_OTHER_WORKERS = 3  # how many may look at what one has the wrong key for

_SETTLE_PATIENCE_SECONDS = 600.0
_SETTLE_PAUSE_SECONDS = 1.0

_NO_FILES = Path("/nonexistent")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkPlace:
    """What a worker carries trials out with."""

    name: str  # the worker's
    broker: Broker
    heartbeat: Heartbeat
    cache_directory: Path
    directories: TrialDirectories = field(default_factory=lambda: TrialDirectories(recycles=True))

    @cached_property
    def cache(self) -> BundleCache:
        """The bundles that were brought here; on disk from the first on."""
        return BundleCache(self.cache_directory)


def prepare() -> None:
    """Build what the first trial would build. Done before a pool forks, it is done once for all of it."""
    for model in (CasePlan, TrialRecord, TrialReport, Transcript, ToolCall, Verdict):
        model.model_rebuild()


def carry_out(job: CaseJob, place: WorkPlace) -> Ended:
    """Carry out one trial, if it is still to be done; say what became of it."""
    ledger = place.broker.ledger
    row = ledger.case(job.run_id, job.case_id)
    if row is None:
        _log.info("run %s is not known any more", job.run_id)
        return Ended("not_ours", "unknown_run")
    try:
        opened = place.broker.signer.open_to_carry_out(row, "plan", job.run_id, job.case_id)
        plan = parse_plan(opened)
        _check_trial(job, plan)
        limits = _limits(plan)
    except SignatureError as error:
        _log.warning("refused case %.200r of run %s: %s", job.case_id, job.run_id, error)
        return _give_up(job, f"{error.kind}_plan", error, place, elsewhere=error.elsewhere)
    except UnreadableRowError as error:
        return _give_up(job, "unreadable_plan", error, place)
    except SessionError as error:
        return _give_up(job, error.kind, error, place)
    except Exception as bug:  # noqa: BLE001 — nobody counts what was not claimed: it would be queued for ever
        _log.exception("the plan of case %.200r of run %s", job.case_id, job.run_id)
        return _give_up(job, "internal_error", f"{type(bug).__name__}: {bug}", place)
    claim = ledger.claim(
        job,
        worker=place.name,
        limits=limits,
        reserve_usd=reserve_usd(plan),
        is_guess=plan.case.max_cost_usd is None,
    )
    if isinstance(claim, Refused):
        if claim.reason == "over_budget":
            place.broker.publish_aggregation(job.run_id)
        return refused(claim)
    with place.heartbeat.hold(claim) as lease:
        result = _run(plan, lease, place)
        tell_fleet(plan, claim, result, ledger)
        ended = _settle_patiently(plan, lease, result, place)
    # What was recorded earlier took its time then.
    took_ms = None if plan.recorded else result.report.duration_ms
    return replace(
        ended,
        agent=plan.spec.kind,
        seconds=None if took_ms is None else took_ms / 1000,
        cost_usd=attempt_cost_usd(plan, result.report) or 0.0,
    )


def _limits(plan: CasePlan) -> list[Limit]:
    limits = [Limit(name, limit.concurrency, limit.starts_per_minute) for name, limit in plan.limits.items()]
    if service := service_of(plan):
        limits.append(Limit(service))  # without bounds of its own, but nobody starts while it pauses
    return limits


def _check_trial(job: CaseJob, plan: CasePlan) -> None:
    """Refuse a trial that is not planned: what it would run is signed, but not so often."""
    if plan.case.skip is not None or job.trial > plan.case.trials.count:
        told = f"the plan has no trial {job.trial}: somebody else put it into the run"
        raise SessionError("not_planned", told, retryable=False)


def _give_up(
    job: CaseJob, kind: str, error: FarmError | str, place: WorkPlace, *, elsewhere: bool = False
) -> Ended:
    """Write down that a trial can't be carried out; not before others have tried, if that can help."""
    claim = place.broker.ledger.claim(job, worker=place.name)
    if isinstance(claim, Refused):
        return refused(claim)
    report = TrialReport(
        trial=job.trial,
        attempt=claim.attempt,
        outcome="errored",
        error=TrialError(kind=kind, message=str(error)),
        earlier_errors=earlier_errors(claim, place.broker.signer),
        worker=place.name,
    )
    if elsewhere and claim.attempt < _OTHER_WORKERS:
        delay_ms = retry_delay_ms(claim.attempt)
        errors = dump_errors(claim, report, place.broker.signer)
        place.broker.ledger.give_back(claim, delay_ms=delay_ms, cost_usd=0.0, errors=errors)
        return Ended("again", kind, delay_seconds=delay_ms / 1000)
    row = _signed_row(job, TrialRecord(report=report), place)
    if place.broker.ledger.complete(claim, row, cost_usd=0.0) == "last":
        place.broker.publish_aggregation(job.run_id)
    return Ended("errored", kind)


def _settle_patiently(plan: CasePlan, lease: Lease, result: TrialResult, place: WorkPlace) -> Ended:
    """Try for a while if the broker or the store is away, or has no room: a session may have cost hours."""
    deadline = time.monotonic() + _SETTLE_PATIENCE_SECONDS
    while True:
        try:
            return _settle(plan, lease, result, place)
        except FarmError as error:
            if lease.reason is not None or time.monotonic() > deadline:
                raise
            _log.warning("the result of %s can't be written yet: %s", lease.claim.job.case_id, error)
            lease.stop.wait(_SETTLE_PAUSE_SECONDS)


def _settle(plan: CasePlan, lease: Lease, result: TrialResult, place: WorkPlace) -> Ended:
    """Write the result, or let the trial be made again."""
    ledger, claim = place.broker.ledger, lease.claim
    report = result.report
    if lease.reason is not None and report.error is not None and report.error.kind == "stopped":
        # Neither passed nor failed: it was not let to its end. If it is ours no more, this changes nothing.
        ledger.give_back(claim, uncounted=True, cost_usd=attempt_cost_usd(plan, report))
        if lease.reason == "draining":
            queue_again(place.broker, [claim.job])
        return stopped(lease.reason)
    errors = claim.attempt - claim.losses
    if report.outcome == "errored" and _can_help(report) and errors < plan.max_attempts:
        delay_ms = retry_delay_ms(errors)
        _log.info("attempt %s of %s errored; again in %s ms", claim.attempt, claim.job.case_id, delay_ms)
        told = dump_errors(claim, report, place.broker.signer)
        if not ledger.give_back(
            claim, delay_ms=delay_ms, cost_usd=attempt_cost_usd(plan, report), errors=told
        ):
            return stopped("lost")
        assert report.error is not None
        return Ended("again", one_line(report.error.kind), delay_seconds=delay_ms / 1000)
    row = _row(claim.job, result, place)
    completion = ledger.complete(claim, row, cost_usd=attempt_cost_usd(plan, report))
    if completion == "last":
        place.broker.publish_aggregation(claim.job.run_id)
    return written(completion, plan, report)


def retry_delay_ms(errors: int) -> int:
    """Wait longer each time, and not all trials at the same time."""
    longest = _FIRST_RETRY_SECONDS * _RETRY_FACTOR ** (errors - 1)
    return round(1000 * random.uniform(longest / 2, longest))  # noqa: S311 — no secret


def _can_help(report: TrialReport) -> bool:
    """Say whether another attempt can end differently: not if the author's own evaluator is at fault."""
    return report.error is not None and report.error.retryable


def _run(plan: CasePlan, lease: Lease, place: WorkPlace) -> TrialResult:
    claim = lease.claim

    def keep(outcome: Outcome) -> bool:
        return plan.keep == "all" or (plan.keep == "failed" and outcome in ("failed", "errored"))

    def fill(directory: Path) -> None:
        assert plan.bundle is not None
        place.cache.materialise(plan.bundle, lambda bundle_id: _fetch(bundle_id, place), directory)

    def original(path: str) -> bytes | None:
        return place.cache.read_file(plan.bundle, path, read_plain_file) if plan.bundle else None

    def note(call: ToolCall) -> None:
        lease.note = tool_call_line(call)
        with suppress(FarmError):  # it is for those who watch; the session goes on without them
            place.broker.tell(claim.job.run_id, f"{claim.job.case_id}: {lease.note}")

    with ExitStack() as stack:
        try:
            _check_store(plan, place)
            if not place.broker.is_embedded:
                check_secrets([plan.spec, *(judge.spec for judge in plan.judges.values())], place.name)
            files = stack.enter_context(_shipped_files(_files_of(plan, claim.job.trial), place))
        except (FarmError, OSError) as failure:
            result = TrialResult(_could_not_start(lease, failure))
        else:
            result = run_trial(
                TrialPlan(
                    case=plan.case,
                    agent=plan.agent,
                    spec=plan.spec,
                    workspace=fill if plan.bundle else None,
                    files=files,
                    timeout_seconds=plan.timeout_seconds,
                    model=plan.model,
                    trial=claim.job.trial,
                    attempt=claim.attempt,
                    keep=keep,
                    on_tool_call=note,
                    stop=lease.stop,
                    original=original,
                    isolation=plan.isolation,
                    directories=place.directories,
                    network=plan.network,
                    prices=plan.prices,
                    judges=plan.judges,
                    judge_turn=partial(judge_at_service, lease=lease, ledger=place.broker.ledger),
                )
            )
    update: dict[str, object] = {
        "worker": place.name,
        "earlier_errors": earlier_errors(claim, place.broker.signer),
    }
    if plan.recorded:  # how long the session took, which is what others are compared with
        update["duration_ms"] = plan.recorded[claim.job.trial - 1].duration_ms
    return replace(result, report=result.report.model_copy(update=update))


def _check_store(plan: CasePlan, place: WorkPlace) -> None:
    if plan.store and plan.store != place.broker.store_mark:
        told = f"worker {place.name} has another FARM_STORE_URL than whoever submitted the run"
        raise SessionError("wrong_store", told, retryable=True)


def _could_not_start(lease: Lease, failure: FarmError | OSError) -> TrialReport:
    if not isinstance(failure, SessionError):
        failure = _not_shipped(failure)
    error = TrialError(kind=failure.kind, message=str(failure), retryable=failure.retryable)
    claim = lease.claim
    return TrialReport(
        trial=claim.job.trial,
        attempt=claim.attempt,
        outcome="errored",
        error=error,
        cost_usd=0.0,  # no session began: nothing is charged
    )


def _not_shipped(failure: FarmError | OSError) -> SessionError:
    """Say that what a trial needs did not come; what is gone or broken is so the next time too."""
    is_gone = isinstance(failure, (MissingBlobError, CorruptBlobError))
    return SessionError("not_shipped", str(failure), retryable=not is_gone)


def _row(job: CaseJob, result: TrialResult, place: WorkPlace) -> bytes:
    transcript = None
    if result.transcript is not None:
        transcript = put_bytes(place.broker.blobs, dump_transcript(result.transcript))
    logs = {name: put_bytes(place.broker.blobs, content) for name, content in result.logs.items()}
    kept = str(result.workspace) if result.workspace else None
    record = TrialRecord(report=result.report, transcript=transcript, logs=logs, kept=kept)
    return _signed_row(job, record, place)


def _signed_row(job: CaseJob, record: TrialRecord, place: WorkPlace) -> bytes:
    row = dump_record(record, place.broker.blobs)
    return place.broker.signer.sign(row, "result", job.run_id, job.case_id, str(job.trial))


def _fetch(bundle_id: str, place: WorkPlace) -> IO[bytes]:
    """Bring a bundle here; the cache removes what it got by closing it."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 — the cache closes it
    try:
        for chunk in place.broker.blobs.read(bundle_id):
            file.write(chunk)
        file.seek(0)
    except BlobError as failure:
        file.close()
        raise _not_shipped(failure) from None
    except BaseException:
        file.close()
        raise
    return file


def _files_of(plan: CasePlan, trial: int) -> dict[str, ShippedFile]:
    """Give the files that one trial needs: in a regrade, also the session that was recorded of it."""
    if not plan.recorded:
        return plan.files
    recorded = plan.recorded[trial - 1]
    if recorded.transcript is None:
        assert recorded.error is not None
        raise SessionError(recorded.error.kind, recorded.error.message, retryable=False)
    assert plan.case.replay is not None
    return {**plan.files, plan.case.replay: ShippedFile(blob=recorded.transcript)}


@contextmanager
def _shipped_files(files: Mapping[str, ShippedFile], place: WorkPlace) -> Iterator[Path]:
    """Lay out the files that a case refers to, where its names for them are right."""
    if not files:
        yield _NO_FILES
        return
    place_of_files = make_directory("files-")
    try:
        directory = place_of_files / "files"
        directory.mkdir()
        for file, shipped in files.items():
            path = directory / file
            if not Path(os.path.normpath(path)).is_relative_to(directory):
                raise SessionError("missing_file", f'file "{file}" lies outside the suite', retryable=False)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(get_bytes(place.broker.blobs, shipped.blob))
            if shipped.executable:
                path.chmod(0o755)
        yield directory
    finally:
        remove_directory(place_of_files)
