"""Show a run while it goes on: as lines for pipes and logs, with a progress bar for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from farm.cli.options import echo, painter
from farm.model.report import CaseReport
from farm.queue.following import Update
from farm.reporting.terminal import case_lines, safe_line


class View(Protocol):
    """What is told about a run while it goes on."""

    def case(self, case: CaseReport) -> None:
        """Show a case that is done."""

    def update(self, update: Update) -> None:
        """Show what is new."""

    def tell(self, lines: Sequence[str]) -> None:
        """Show tool calls."""

    def say(self, text: str) -> None:
        """Tell something that is no result."""


class PlainView:
    """Lines, each written once: for pipes and logs."""

    def __init__(self, *, verbose: bool, quiet: bool) -> None:
        self.verbose = verbose
        self.quiet = quiet
        self._paint = painter()
        self._unserved: tuple[str, ...] = ()
        self._busy: frozenset[str] = frozenset()
        self._trouble: str | None = None

    def case(self, case: CaseReport) -> None:
        """Show a case that is done."""
        if not self.quiet:
            for line in case_lines(case, self._paint, verbose=self.verbose):
                self._write(line)

    def update(self, update: Update) -> None:
        """Show what is new."""
        for case in update.cases:
            self.case(case)
        for kept in update.kept:
            self.say(f"kept: {kept.directory} ({kept.case_id}) on {kept.worker}")
        if update.unserved != self._unserved:
            self._unserved = update.unserved
            if update.unserved:
                self.say(f"waiting: no living worker serves {', '.join(update.unserved)}")
        for service in update.busy.keys() - self._busy:
            seconds = update.busy[service] / 1000
            self.say(f"waiting: {service} is busy; sessions of it start again in {seconds:.0f} s")
        self._busy = frozenset(update.busy)
        if update.status.trouble != self._trouble:
            self._trouble = update.status.trouble
            if self._trouble:
                self.say(f"waiting: the report can't be written: {self._trouble}")

    def tell(self, lines: Sequence[str]) -> None:
        """Show tool calls, if somebody wants to see them."""
        for line in lines if self.verbose else ():
            self._write(f"  · {safe_line(line)}", err=self.quiet)

    def say(self, text: str) -> None:
        """Tell something that is no result."""
        self._write(safe_line(text), err=True)

    def _write(self, line: str, *, err: bool = False) -> None:
        echo(line, err=err)


@contextmanager
def open_view(*, verbose: bool, quiet: bool) -> Iterator[View]:
    """Open a view for the length of the block."""
    if not _is_watched():
        yield PlainView(verbose=verbose, quiet=quiet)
        return
    # Imported only now: it takes a tenth of a second, and nobody looks at it in a pipe.
    from farm.cli.live_view import live_view

    with live_view(verbose=verbose, quiet=quiet) as view:
        yield view


def _is_watched() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
