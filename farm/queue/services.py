"""Let all workers wait together when the service behind an agent has too much to do.

A service is what a kind of agent asks for a model: one that turns a session away with 429 or 529 would turn
the next one away too, whichever worker starts it. A judge's session is one like any other.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager

from farm.agents.api_errors import BUSY_ERRORS
from farm.errors import FarmError, SessionError
from farm.model.agent import AgentBase
from farm.model.job import CasePlan, JudgePlan
from farm.queue.connection import shown
from farm.queue.heartbeat import Lease
from farm.queue.ledger import Claim, Ledger
from farm.running import TrialResult
from farm.sessions.process import check_not_stopped

_log = logging.getLogger(__name__)


def service_of(plan: CasePlan) -> str | None:
    """Name the service that a case's sessions ask, in one line; None if they ask none."""
    return None if plan.recorded else _service(plan.spec, plan.model)


def _service(spec: AgentBase, model: str | None) -> str | None:
    if not spec.asks_model:
        return None
    base_url, api = getattr(spec, "base_url", None), getattr(spec, "api", None)
    where = api or (shown(base_url) if base_url else None)
    name = f"{spec.kind}:{model or 'default model'}" + (f" at {where}" if where else "")
    return " ".join(name.split())


def tell_fleet(plan: CasePlan, claim: Claim, result: TrialResult, ledger: Ledger) -> None:
    """Tell the other workers that a service is busy, or that it serves again."""
    service, error = service_of(plan), result.report.error
    if service is None:
        return
    if error is not None and error.kind in BUSY_ERRORS:
        _tell_busy(service, claim.started_at_ms, result.retry_after_seconds, ledger)
    elif result.transcript is not None:
        _tell_served(service, claim.started_at_ms, ledger)


@contextmanager
def judge_at_service(plan: JudgePlan, model: str | None, lease: Lease, ledger: Ledger) -> Iterator[None]:
    """Let a judge wait while its service is busy; tell the other workers how its session ended."""
    service = _service(plan.spec, model)
    began_ms = _await_service(service, lease, ledger) if service is not None else None
    try:
        yield
    except SessionError as error:
        if service is not None and began_ms is not None and error.kind in BUSY_ERRORS:
            _tell_busy(service, began_ms, error.retry_after_seconds, ledger)
        raise
    if service is not None and began_ms is not None:
        _tell_served(service, began_ms, ledger)


def _await_service(service: str, lease: Lease, ledger: Ledger) -> int | None:
    """Wait for the end of a service's pause; give the time then, by the server's clock, if it can be had."""
    try:
        while wait_ms := ledger.pauses().get(service):  # others may be turned away meanwhile, too
            lease.note = f"a judge waits: {service} is busy"
            lease.stop.wait(wait_ms / 1000 + random.random())  # noqa: S311 — no secret
            check_not_stopped(lease.stop)
        return ledger.time_ms()
    except FarmError as failure:
        if isinstance(failure, SessionError):
            raise
        _log.warning("nobody knows whether %s is busy: %s", service, failure)
        return None


def _tell_busy(service: str, began_ms: int, retry_after_seconds: float | None, ledger: Ledger) -> None:
    try:
        wait_ms = ledger.note_busy(service, began_ms, told_ms=round(1000 * (retry_after_seconds or 0)))
        _log.warning("%s is busy: nobody starts a session of it for %s ms", service, wait_ms)
    except FarmError as failure:
        _could_not_tell(service, failure)


def _tell_served(service: str, began_ms: int, ledger: Ledger) -> None:
    try:
        ledger.note_served(service, began_ms)
    except FarmError as failure:
        _could_not_tell(service, failure)


def _could_not_tell(service: str, failure: FarmError) -> None:
    # A courtesy to others: what this session came to is more important, and is written patiently.
    _log.warning("the fleet could not be told of %s: %s", service, failure)
