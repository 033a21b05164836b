"""Show a run on a terminal: results as they come, and below them a few lines that are drawn again and again.

The lines at the bottom are ours, not rich's Live: that one loses count of its lines when a terminal becomes
narrower. rich measures, shortens and colours the text. Nothing of it is read as markup.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from farm.cli.options import echo
from farm.cli.view import PlainView
from farm.model.report import CaseReport
from farm.queue.following import Update
from farm.queue.ledger import Running
from farm.reporting.terminal import clock, safe_line

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_ERASE_BELOW = "\x1b[J"
_DRAW_EVERY_SECONDS = 0.1
_MOST_RUNNING = 8
_SHOWN_WHOLE = 20  # a run with more trials shows only what did not pass
_RATE_SECONDS = 30.0
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_OUTCOMES = (("passed", "green"), ("failed", "red"), ("errored", "yellow"))


@contextmanager
def live_view(*, verbose: bool, quiet: bool) -> Iterator[LiveView]:
    """Open the view for the length of the block; leave the terminal as it was."""
    view = LiveView(verbose=verbose, quiet=quiet)
    try:
        yield view
    finally:
        view.close()


class Region:
    """The last lines of a terminal, which can be drawn again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._widths: list[int] = []  # of the lines that are there now

    @property
    def size(self) -> os.terminal_size:
        """The terminal's size now."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            size = shutil.get_terminal_size()
        # A terminal that does not know its size says that it has none.
        return os.terminal_size((size.columns or 80, size.lines or 24))

    def draw(self, lines: list[Text], above: str = "") -> None:
        """Replace the lines; what is above goes up the screen for good."""
        width, height = self.size
        lines = lines[-max(1, height - 1) :]
        for line in lines:
            line.truncate(max(1, width - 1), overflow="ellipsis")
        with self._console.capture() as capture:
            for number, line in enumerate(lines):
                self._console.print(line, end="\n" if number < len(lines) - 1 else "", soft_wrap=True)
        self._write(_HIDE_CURSOR + self._erase(width) + above + capture.get())
        self._widths = [line.cell_len for line in lines]

    def clear(self) -> None:
        """Take the lines away."""
        self._write(self._erase(self.size.columns) + _SHOW_CURSOR)
        self._widths = []

    def _erase(self, width: int) -> str:
        # Terminals wrap what is there when they become narrower.
        rows = sum(max(1, -(-cells // width)) for cells in self._widths)
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"\r{up}{_ERASE_BELOW}" if rows else ""

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a terminal that was closed; who follows the run hears of it otherwise
            self._stream.write(text)
            self._stream.flush()


class LiveView(PlainView):
    """Results as they come, and what is going on below them."""

    def __init__(self, *, verbose: bool, quiet: bool, stream: TextIO | None = None) -> None:
        super().__init__(verbose=verbose, quiet=quiet)
        self._region = Region(stream or sys.stderr)
        self._together = _same_terminal()
        self._lines: list[str] = []  # to be written above
        self._total = 0
        self._pace = Pace()
        self._drawn_at = 0.0

    def case(self, case: CaseReport) -> None:
        """Show a case that is done; of many only those that did not pass."""
        noteworthy = case.outcome in ("failed", "errored") or case.flaky
        if noteworthy or self.verbose or self._total <= _SHOWN_WHOLE or not self._together:
            super().case(case)

    def update(self, update: Update) -> None:
        """Show what is new, and what is going on."""
        self._total = update.status.total
        self._pace.note(update.status.done, time.monotonic())
        super().update(update)
        now = time.monotonic()
        if self._lines or now - self._drawn_at >= _DRAW_EVERY_SECONDS:
            self._drawn_at = now
            self._draw(picture(update, self._pace, self._region.size, time.time()))

    def say(self, text: str) -> None:
        """Tell something that is no result, at once."""
        super().say(text)
        self._draw([])

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._draw([])
        self._region.clear()

    def _draw(self, lines: list[Text]) -> None:
        above = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        self._region.draw(lines, above)

    def _write(self, line: str, *, err: bool = False) -> None:
        # On the same terminal both must go one way, or they would draw over each other.
        if err or self._together:
            self._lines.append(line)
        else:
            echo(line)


class Pace:
    """How fast trials end, of late."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def note(self, done: int, now: float) -> None:
        """Remember how many were done when."""
        if not self._seen or done != self._seen[-1][1]:
            self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] > _RATE_SECONDS:
            del self._seen[0]

    def per_second(self, now: float) -> float | None:
        """Give the rate; None as long as nothing has ended."""
        if len(self._seen) < 2:
            return None
        (since, before), (_, done) = self._seen[0], self._seen[-1]
        return (done - before) / max(now - since, 0.001) if done > before else None


def picture(update: Update, pace: Pace, size: os.terminal_size, now: float) -> list[Text]:
    """Give the lines at the bottom: running sessions, then the run as a whole."""
    room = max(0, min(_MOST_RUNNING, size.lines - 3))
    shown = update.running()[:room]
    names = [_name(running) for running in shown]
    width = min(max(map(cell_len, names), default=0), max(12, size.columns // 2))
    spin = _SPINNER[int(now * 10) % len(_SPINNER)]
    lines = [
        _running_line(running, name, width, spin, now) for running, name in zip(shown, names, strict=True)
    ]
    hidden = update.status.leased - len(shown)
    if hidden > 0 and shown:
        lines.append(Text(f"  … and {hidden} more", style="dim"))
    return [*lines, _progress_line(update, pace, size.columns)]


def _name(running: Running) -> str:
    trial = f" #{running.job.trial}" if running.job.trial > 1 else ""
    return safe_line(running.job.case_id) + trial


def _running_line(running: Running, name: str, width: int, spin: str, now: float) -> Text:
    line = Text(f"{spin} ", style="cyan", end="")
    shown = Text(name, style="default")
    shown.truncate(width, overflow="ellipsis", pad=True)
    line.append_text(shown)
    line.append(f"  {clock(now - running.started_at_ms / 1000)}", style="dim")
    if running.note:
        line.append(f"  {safe_line(running.note)}", style="default")
    return line


def _progress_line(update: Update, pace: Pace, columns: int) -> Text:
    status = update.status
    words = Text(f"{status.done}/{status.total}")
    for outcome, color in _OUTCOMES:
        if count := update.outcomes.get(outcome):  # type: ignore[call-overload]
            words.append(" · ").append(f"{count} {outcome}", style=color)
    if status.state == "aggregating":
        words.append(" · cancelling" if status.cancelled else " · writing the report")
    elif not status.executions:
        words.append(" · starting" if not update.unserved else " · waiting for a worker")
    elif rate := pace.per_second(time.monotonic()):
        words.append(f" · {rate:.1f}/s" if rate >= 1 else f" · {rate * 60:.0f}/min")
        words.append(f" · {clock((status.total - status.done) / rate)} left")
    room = columns - 1 - words.cell_len - 1
    bar = _bar(status.done, status.total, min(30, room)) if room >= 5 else Text()
    return bar.append(" ").append_text(words) if bar else words


def _bar(done: int, total: int, width: int) -> Text:
    filled = width * done // total if total else width
    return Text("━" * filled, style="green").append("─" * (width - filled), style="bright_black")


def _same_terminal() -> bool:
    try:
        return sys.stdout.isatty() and os.fstat(1).st_rdev == os.fstat(2).st_rdev
    except OSError:
        return False
