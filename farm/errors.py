"""Every failure that the farm expects, and where in a file it was caused.

::

    FarmError                 anything a user can cause or must know of; printed without traceback
    ├── InputError            test files or farm.yaml are wrong; carries every Problem found
    ├── UsageError            the command line asks for something impossible
    ├── OutputError           results can't be written: the disk is full, the directory is gone
    ├── SessionError          a session did not end properly: the trial is errored, never failed
    └── EvaluatorError        an evaluator could not judge: its verdict is errored, never failed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong in one place of one file."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.message}"
        # It quotes what stands in a file, which may be anything.
        return text if text.isprintable() else text.encode("unicode_escape").decode()


class FarmError(Exception):
    """An expected failure. Its text says where, what, and what to do."""

    exit_code = 2


class InputError(FarmError):
    """Test files or settings are wrong; nothing has run."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        # Many files may name the same problem of a file that they share: it is told once.
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class UsageError(FarmError):
    """The command line asks for something that can't be done; nothing has run."""


class OutputError(FarmError):
    """What was found out can't be written down, so nobody can tell what it was."""

    exit_code = 3


class SessionError(FarmError):
    """The session did not end properly, so there is nothing to grade.

    `kind` names the cause for reports (`timeout`, `crashed`, `setup_failed`, …);
    `retryable` says whether another attempt can end differently;
    `retry_after_seconds` when, if the service that failed said so;
    `cost_usd` what it cost all the same, if that is known, and `cost_is_partial` that there is more.
    """

    exit_code = 3

    def __init__(
        self, kind: str, message: str, *, retryable: bool, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retryable = retryable
        self.retry_after_seconds = retry_after_seconds
        self.cost_usd: float | None = None
        self.cost_is_partial = False


class EvaluatorError(FarmError):
    """The evaluator could not reach a verdict: data is missing, a judge broke."""

    exit_code = 3
