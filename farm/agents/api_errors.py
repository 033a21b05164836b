"""Say what an error of the Messages API means for a session, whoever asked: a CLI or we ourselves."""

from __future__ import annotations

from typing import Any

from farm.errors import SessionError

# The service has too much to do, for this caller or for all: others better wait too.
BUSY_ERRORS = ("rate_limited", "api_overloaded")

_ERRORS_BY_STATUS = {
    400: "bad_request",
    401: "authentication",
    402: "authentication",
    403: "authentication",
    404: "bad_request",
    413: "bad_request",
    429: "rate_limited",
    529: "api_overloaded",
}


def api_error(status: Any, message: str, *, retry_after_seconds: float | None = None) -> SessionError:
    """Classify an error of the API by its HTTP status; without one, the connection failed."""
    # Another, such as the 200 of a stream that broke off, says nothing of what went wrong.
    is_refused = isinstance(status, int) and 400 <= status < 500 and status not in (408, 409, 429)
    kind = _ERRORS_BY_STATUS.get(status, "api_error") if isinstance(status, int) else "api_error"
    return SessionError(kind, message, retryable=not is_refused, retry_after_seconds=retry_after_seconds)
