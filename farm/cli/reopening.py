"""Carry on with a run that was closed: what resume and retry share."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.cli.following import FollowOptions, follow_to_the_end
from farm.cli.options import add_follow_options, add_run_argument, echo, positive_number
from farm.errors import UsageError
from farm.queue.archive import NotArchivedError
from farm.queue.broker import Broker
from farm.queue.embedded import reopened_engine, run_directory
from farm.queue.finding import check_submitted, fleet_broker
from farm.queue.report_directory import EarlierReport, check_out, fetch_report
from farm.reporting.json import read_head
from farm.reporting.summarize import exit_code


@dataclass(frozen=True)
class Reopened:
    """What there is to be done again, in numbers and in words."""

    trials: int
    said: str


AS_SUBMITTED = ", by the files as they were when it was submitted"

# Puts trials back, on a broker that nobody else works on or on a fleet's.
PutBack = Callable[[Broker, bool], Reopened]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of a command that opens a run again."""
    add_run_argument(parser)
    parser.add_argument("--wait", action="store_true", help="follow the run to its end")
    parser.add_argument(
        "--max-cost",
        type=positive_number,
        metavar="USD",
        help="start no session once the run has cost so much in all",
    )
    add_follow_options(parser)


def carry_on(arguments: Namespace, put_back: PutBack) -> int:
    """Put trials back; on a fleet leave or follow, else carry them out here."""
    run_id: str = arguments.run
    with ExitStack() as stack:
        engine = None
        broker = fleet_broker(run_id)
        if broker is None:
            engine = stack.enter_context(reopened_engine(run_id, arguments.concurrency))
            broker = engine.broker
            check_submitted(broker, run_id)
        out = arguments.out or run_directory(run_id)
        waits = engine is not None or arguments.wait
        if arguments.out and not waits:
            raise UsageError("--out needs --wait: who only queues trials does not bring the report")
        earlier = [check_out(out)] if waits else []
        if engine is not None:
            # An old report there would say of a run that goes on that it is over.
            earlier.append(EarlierReport.of(run_directory(run_id)))
        reopened = put_back(broker, engine is not None)
        if not reopened.trials and not _is_going_on(broker, run_id):
            return _tell_of_nothing(broker, run_id, reopened, as_json=arguments.json)
        if not waits:
            return _tell(run_id, reopened, as_json=arguments.json)
        echo(reopened.said, err=True)
        for report in earlier:
            report.remove()
        options = FollowOptions(out, verbose=arguments.verbose, as_json=arguments.json)
        return follow_to_the_end(broker, run_id, options, engine=engine)


def _is_going_on(broker: Broker, run_id: str) -> bool:
    status = broker.ledger.status(run_id)
    return status is not None and not status.is_over


def _tell(run_id: str, reopened: Reopened, *, as_json: bool) -> int:
    echo(json.dumps({"run_id": run_id, "trials": reopened.trials}) if as_json else reopened.said)
    echo(f"`farm watch {run_id}` follows it", err=True)
    return 0


def _tell_of_nothing(broker: Broker, run_id: str, reopened: Reopened, *, as_json: bool) -> int:
    """Say that there is nothing to do; as JSON, give the report that there is."""
    echo(reopened.said, err=as_json)
    try:
        with TemporaryDirectory(prefix="farm-report-") as name:
            path = fetch_report(broker, run_id, Path(name))
            if as_json:
                echo(path.read_text(encoding="utf-8").rstrip())
            return exit_code(read_head(path))
    except NotArchivedError:
        if as_json:
            echo(json.dumps({"run_id": run_id, "trials": 0}))
        return 0
