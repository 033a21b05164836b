"""Say what it means for a session that its program did not start, or how it ended."""

from __future__ import annotations

import errno
import signal

from farm.agents.base import Session
from farm.errors import SessionError
from farm.sessions.process import CommandNotStartedError

SANDBOX_HINT = (
    "the sandbox shows the system, what PATH leads to, and what the command names by its absolute path; "
    "`isolation: process` shows everything"
)
COULD_NOT_RUN = (126, 127)  # by POSIX: found but not executable, not found

# Another time, the machine may have more to give.
_OUT_OF_RESOURCES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def not_started(error: CommandNotStartedError) -> SessionError:
    """Say that the program could not be started."""
    return SessionError("agent_unavailable", str(error), retryable=start_errno(error) in _OUT_OF_RESOURCES)


def start_errno(error: CommandNotStartedError) -> int | None:
    """Give the system's number for why a program could not be started, if it was the system."""
    return error.__cause__.errno if isinstance(error.__cause__, OSError) else None


def timed_out(session: Session, because: str) -> SessionError:
    """Say that the session took too long."""
    message = f"the session took longer than {session.timeout_seconds:g} s{because}"
    return SessionError("timeout", message, retryable=True)


def ended_badly(session: Session, exit_code: int, because: str) -> SessionError:
    """Say what an exit code other than 0 means."""
    if exit_code in COULD_NOT_RUN:
        hint = f" ({SANDBOX_HINT})" if session.sandbox else ""
        message = f"the command can't be run here (exit code {exit_code}){because}{hint}"
        return SessionError("agent_unavailable", message, retryable=False)
    if name := _signal_name(exit_code):
        return SessionError("killed", f"the command was killed by {name}{because}", retryable=True)
    return SessionError("crashed", f"the command ended with exit code {exit_code}{because}", retryable=True)


def _signal_name(exit_code: int) -> str | None:
    """Name the signal behind an exit code: negative, or 128 more if the shell passes on a program's end."""
    try:
        return signal.Signals(-exit_code if exit_code < 0 else exit_code - 128).name
    except ValueError:
        return f"signal {-exit_code}" if exit_code < 0 else None
