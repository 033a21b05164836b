"""Let all workers wait together when the service behind an agent has too much to do.

A service is what a kind of agent asks for a model: one that turns a session away with 429 or 529 would turn
the next one away too, whichever worker starts it.
"""

from __future__ import annotations

import logging

from farm.agents.api_errors import BUSY_ERRORS
from farm.errors import FarmError
from farm.model.job import CasePlan
from farm.queue.connection import shown
from farm.queue.ledger import Claim, Ledger
from farm.running import TrialResult

# These ask no service that the farm would know of.
_WITHOUT = frozenset({"replay", "scripted", "command"})

_log = logging.getLogger(__name__)


def service_of(plan: CasePlan) -> str | None:
    """Name the service that a case's sessions ask, in one line; None if they ask none."""
    spec = plan.spec
    if spec.kind in _WITHOUT or plan.recorded:
        return None
    base_url, api = getattr(spec, "base_url", None), getattr(spec, "api", None)
    where = api or (shown(base_url) if base_url else None)
    name = f"{spec.kind}:{plan.model or 'default model'}" + (f" at {where}" if where else "")
    return " ".join(name.split())


def tell_fleet(plan: CasePlan, claim: Claim, result: TrialResult, ledger: Ledger) -> None:
    """Tell the other workers that a service is busy, or that it serves again."""
    service, error = service_of(plan), result.report.error
    if service is None:
        return
    try:
        if error is not None and error.kind in BUSY_ERRORS:
            wait_ms = ledger.note_busy(
                service, claim.started_at_ms, told_ms=round(1000 * (result.retry_after_seconds or 0))
            )
            _log.warning("%s is busy: nobody starts a session of it for %s ms", service, wait_ms)
        elif result.transcript is not None:
            ledger.note_served(service, claim.started_at_ms)
    except FarmError as failure:
        # A courtesy to others: what this session came to is more important, and is written patiently.
        _log.warning("the fleet could not be told of %s: %s", service, failure)
