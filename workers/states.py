"""Turn what became of a trial into the state of its task, as Celery's events and so Flower show it.

Only for looking: nobody decides anything by it.

| what became of it | state |
|---|---|
| it passed, or was skipped | SUCCESS |
| it failed, or errored for good | FAILURE, with an exception of that name |
| it will be tried again, may not begin yet, or is handed on | RETRY |
| its run was closed, or the message was not needed | REVOKED |
"""

from __future__ import annotations

from typing import Any

from celery.exceptions import Ignore, Retry
from celery.worker.request import ExceptionWithTraceback, Request

from farm.queue.ended import Ended


class CaseFailed(Exception):  # noqa: N818 — what people read in Flower
    """The agent did wrong."""


class CaseErrored(Exception):  # noqa: N818
    """Nobody could tell whether the agent did right."""


class Postponed(Exception):  # noqa: N818
    """The trial was not begun, or not let to its end; it will be."""


class Dropped(Ignore):
    """There was nothing to do, or is not any more."""


# No bugs: Celery logs them without traceback.
EXPECTED = (CaseFailed, CaseErrored)


def show(ended: Ended) -> str:
    """Give the text of a success; raise what makes any other state."""
    match ended.how:
        case "passed" | "skipped":
            return f"{ended.how}, {ended.why}" if ended.why else ended.how
        case "failed":
            raise CaseFailed(ended.why)
        case "errored":
            raise CaseErrored(ended.why)
        case "again":
            raise _retry(CaseErrored(ended.why), ended)
        case "waits" | "handed_on":
            raise _retry(Postponed(ended.why), ended)
        case "cancelled" | "not_ours":
            raise Dropped(f"{ended.how}: {ended.why}")


def _retry(reason: Exception, ended: Ended) -> Retry:
    # Celery sends nothing again by this: the janitor does.
    return Retry(exc=reason, when=round(ended.delay_seconds, 1))


class TrialRequest(Request):
    """Celery's side of a message, in the worker's own process; it also tells of what was dropped.

    Celery sends no event for that: it would look as if it ran for ever. Not `task-rejected`: those who put
    events in order take it for something that happens before a start.
    """

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Take note of the end of a task that raised something."""
        # Celery forgets to unwrap what comes from a thread before it tells of a retry.
        if isinstance(exc_info.exception, ExceptionWithTraceback):
            exc_info.exception = exc_info.exception.exc
        if isinstance(exc_info.exception, Dropped):
            told = str(exc_info.exception)
            fields = {"terminated": False, "signum": None, "expired": False, "result": told}
            self.send_event("task-revoked", **fields)
        return super().on_failure(exc_info, send_failed_event, return_ok)
