"""Carry from one attempt at a trial to the next why the earlier ones could not be judged."""

from __future__ import annotations

import logging

from pydantic import TypeAdapter

from farm.model.job import CaseJob
from farm.model.report import FIGURES, AttemptError, TrialReport
from farm.queue.records import Claim
from farm.queue.signing import SignatureError, Signer

_MAX_CHARACTERS = 2000
_ERRORS = TypeAdapter(tuple[AttemptError, ...])
_LOST = "its worker was lost"

_log = logging.getLogger(__name__)


def earlier_errors(claim: Claim, signer: Signer) -> tuple[AttemptError, ...]:
    """Give an error for each attempt before this one: as it was told, or that nobody could tell it."""
    told = {error.attempt: error for error in _told(claim, signer)}
    return tuple(
        told.get(attempt) or AttemptError(attempt=attempt, kind="worker_lost", message=_LOST)
        for attempt in range(1, claim.attempt)
    )


def dump_errors(claim: Claim, report: TrialReport, signer: Signer) -> bytes:
    """Write the errors of the attempts before this one, and its own, for the next."""
    assert report.error is not None
    error = AttemptError(
        attempt=claim.attempt,
        kind=report.error.kind,
        message=_short(report.error.message),
        worker=report.worker,
        duration_ms=report.duration_ms,
        **{name: getattr(report, name) for name in FIGURES},
    )
    row = _ERRORS.dump_json((*_told(claim, signer), error))
    return signer.sign(row, "errors", *_names(claim.job))


def _told(claim: Claim, signer: Signer) -> tuple[AttemptError, ...]:
    if not claim.earlier_errors:
        return ()
    try:
        return _ERRORS.validate_json(signer.open(claim.earlier_errors, "errors", *_names(claim.job)))
    except (SignatureError, ValueError) as error:
        # Only for those who look on: no reason not to carry out what is to be carried out.
        _log.warning("the errors of earlier attempts at %s can't be read: %s", claim.job.case_id, error)
        return ()


def _names(job: CaseJob) -> tuple[str, str, str]:
    return job.run_id, job.case_id, str(job.trial)


def _short(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()  # halves of characters have no JSON
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
