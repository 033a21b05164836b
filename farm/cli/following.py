"""Follow a run until its report is written: what submit, run, watch, resume and retry share."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from farm.cli.options import EXIT_INTERRUPTED, echo, painter
from farm.cli.view import open_view
from farm.cli.yardstick import Yardstick
from farm.model.suite import Suite
from farm.queue.broker import Broker
from farm.queue.connection import LedgerError
from farm.queue.embedded import Embedded
from farm.queue.following import Update, follow_run
from farm.queue.report_directory import fetch_report
from farm.reporting.formats import FORMATS, write_beside
from farm.reporting.json import read_head
from farm.reporting.summarize import summarize_case
from farm.reporting.terminal import dollars, suite_results_lines

_SESSIONS_END_SECONDS = 20.0

# Gives what the sessions of a run have told since it was last asked.
News = Callable[[], list[str]]


@dataclass(frozen=True)
class FollowOptions:
    """How a run is shown, and where its report goes."""

    out: Path
    verbose: bool = False
    as_json: bool = False
    # Whether Ctrl-C ends the run: it is ours, or we only watch it.
    owns_run: bool = True
    yardstick: Yardstick = field(default_factory=Yardstick)


def follow_to_the_end(
    broker: Broker,
    run_id: str,
    options: FollowOptions,
    *,
    engine: Embedded | None = None,
    suite: Suite | None = None,
    news: News | None = None,
    updates: Iterator[Update] | None = None,
) -> int:
    """Show a run until it is over, bring its report here, and give the exit code."""
    interrupts = _Interrupts(patient=options.owns_run)
    try:
        with interrupts.listening(), open_view(verbose=options.verbose, quiet=options.as_json) as view:
            for case in suite.cases if suite else ():
                if case.skip is not None:
                    view.case(summarize_case(case, [], agent=case.agent, model=case.model))
            heard = news or _listen(broker, run_id, options)
            for update in updates or follow_run(broker, run_id):
                view.tell(heard())  # before the results that they led to
                view.update(update)
                if engine is not None:
                    engine.watch()
                if interrupts.take():
                    view.say("cancelling: running sessions are being ended; once more leaves at once")
                    broker.ledger.cancel(run_id)
                    broker.publish_aggregation(run_id)
            if options.owns_run:
                _await_sessions(broker, run_id)
    except KeyboardInterrupt:
        if options.owns_run:
            echo(f"left; `farm resume {run_id}` carries out the rest", err=True)
        else:
            echo(f"no longer watching; the run goes on, and `farm watch {run_id}` follows it", err=True)
        return EXIT_INTERRUPTED
    path = fetch_report(broker, run_id, options.out)
    write_beside(path, only_missing=not options.owns_run)
    show_end(path, as_json=options.as_json)
    code = options.yardstick.measure(path, as_json=options.as_json)
    _tell_of_unknown_costs(broker, run_id)
    return EXIT_INTERRUPTED if interrupts.count else code


def show_end(path: Path, *, as_json: bool) -> None:
    """Show what came of a run."""
    head = read_head(path)
    if as_json:
        echo(path.read_text(encoding="utf-8").rstrip())
    else:
        for line in suite_results_lines(head, painter()):
            echo(line)
    echo(f"Report: {path}", err=as_json)
    if not as_json and sys.stdout.isatty():  # for people; programs read report.json
        echo(f"Page:   {path.with_name(FORMATS['html'].file)}")
    if head.state == "cancelled":
        echo(f"cancelled; `farm resume {head.run_id}` carries out the rest", err=True)
    if head.state == "over_budget":
        rest = f"`farm resume {head.run_id} --max-cost USD` carries out the rest"
        spent = dollars((head.totals.cost_usd or 0.0) + (head.totals.judge_cost_usd or 0.0))
        echo(f"stopped: what it may cost is used up, with {spent} told by its sessions; {rest}", err=True)


def _tell_of_unknown_costs(broker: Broker, run_id: str) -> None:
    try:
        status = broker.ledger.status(run_id)
    except LedgerError:
        return  # the server of a run that another command carried out has gone with it
    if status is not None and status.budget_usd is not None and status.unknown_costs:
        count = f"{status.unknown_costs} session{'s' * (status.unknown_costs != 1)}"
        charged = "charged what had been reserved: max_cost_usd of the case, else 1 USD"
        echo(f"{count} did not tell what they cost, and were {charged}", err=True)


def _await_sessions(broker: Broker, run_id: str) -> None:
    """Wait for the sessions of a run that was cancelled: its report is written before they have all ended."""
    deadline = time.monotonic() + _SESSIONS_END_SECONDS
    while time.monotonic() < deadline:
        status = broker.ledger.status(run_id)
        if status is None or not status.leased:
            return
        time.sleep(0.05)


def _listen(broker: Broker, run_id: str, options: FollowOptions) -> News:
    return broker.listen(run_id) if options.verbose else list


class _Interrupts:
    """Ctrl-C: the first is a wish, the second an order. For who only watches, the first is one too."""

    def __init__(self, *, patient: bool) -> None:
        self.count = 0
        self._most = 1 if patient else 0
        self._taken = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        earlier = {number: signal.getsignal(number) for number in numbers}
        for number in numbers:
            if earlier[number] is not signal.SIG_IGN:
                signal.signal(number, self._interrupt)
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)

    def take(self) -> bool:
        """Say, once, that there was a first one."""
        news, self._taken = self.count > self._taken, self.count
        return news

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count > self._most:
            raise KeyboardInterrupt
