"""`farm regrade`: judge what a run recorded by the test files as they are now."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.authoring.load import load_suite
from farm.authoring.select import select_cases
from farm.cli.bringing import bring_report
from farm.cli.following import FollowOptions, follow_to_the_end
from farm.cli.options import (
    EXIT_INTERRUPTED,
    add_case_option,
    add_follow_options,
    add_waiting_options,
    echo,
    given,
    given_path,
    painter,
    positive_number,
)
from farm.errors import UsageError
from farm.model.report import SuiteReport
from farm.model.suite import Suite
from farm.queue.archive import REPORT
from farm.queue.embedded import Embedded, embedded_engine, has_broker, run_directory
from farm.queue.finding import reachable_broker
from farm.queue.regrading import EarlierRun, files_of_run, pair_cases, regrade_run
from farm.queue.report_directory import check_out
from farm.queue.submit import new_run_id
from farm.reporting.json import parse_report
from farm.reporting.terminal import change_lines
from farm.settings import Settings, find_root, load_settings


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run",
        type=given,
        metavar="RUN",
        help="the id of a run, `latest`, a report.json, or its directory",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        default=[],
        type=given_path,
        metavar="PATH",
        help="the test files, or their directories (default: those of the run, as they are now)",
    )
    add_case_option(parser)
    parser.add_argument(
        "--max-cost",
        type=positive_number,
        metavar="USD",
        help="judge nothing more once the run's LLM judges have cost so much",
    )
    add_waiting_options(parser)
    add_follow_options(parser)


def run(arguments: Namespace) -> int:
    """Judge the sessions that a run recorded by the evaluators that its test files have now.

    No agent runs, and nothing is spent but by LLM judges. The result is a run of its own, whose report says
    which one it was regraded from; at the end it is shown which cases have another outcome than before.
    Cases are paired by id: one that is not in the files any more, or has no session in the run, is skipped.
    Sessions that did not end properly stay errored. Evaluators that look into the workspace's files can't
    judge: the files are gone. With FARM_BROKER_URL set, the new run is queued; `--wait` follows it.
    The exit codes are those of `farm submit`.
    """
    if arguments.detach and not has_broker():
        raise UsageError("--detach needs workers that go on without this command: set FARM_BROKER_URL")
    with ExitStack() as stack:
        # It starts while the report and the files are read.
        engine = None if has_broker() else stack.enter_context(embedded_engine(arguments.concurrency))
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="farm-regrade-")))
        path = bring_report(arguments.run, directory)
        report = parse_report(path.read_bytes(), f"the report of run {arguments.run}")
        return _regrade(arguments, EarlierRun(report, directory), engine)


def _regrade(arguments: Namespace, earlier: EarlierRun, engine: Embedded | None) -> int:
    suite, settings = _load(arguments.paths, earlier.report)
    suite = select_cases(pair_cases(suite, earlier.report), ids=arguments.case)
    broker = engine.broker if engine is not None else reachable_broker()
    assert broker is not None
    run_id = new_run_id()
    out = arguments.out or run_directory(run_id)
    waits = engine is not None or arguments.wait
    if arguments.out and not waits:
        raise UsageError("--out needs --wait: who only queues a run does not bring its report")
    before = check_out(out) if waits else None
    if engine is not None:
        engine.remember(run_directory(run_id))
    news = broker.listen(run_id) if waits and arguments.verbose else None
    regrade_run(suite, earlier, settings, broker, run_id, max_cost_usd=arguments.max_cost)
    if before is None:
        broker.ledger.await_disk()
        echo(json.dumps({"run_id": run_id}) if arguments.json else run_id)
        echo(f"queued; `farm watch {run_id}` follows it", err=True)
        echo(f"`farm compare {arguments.run} {run_id}` says then what has changed", err=True)
        return 0
    before.remove()
    options = FollowOptions(out, verbose=arguments.verbose, as_json=arguments.json)
    code = follow_to_the_end(broker, run_id, options, engine=engine, suite=suite, news=news)
    if code != EXIT_INTERRUPTED:
        _tell_of_changes(earlier.report, out / REPORT, as_json=arguments.json)
    return code


def _load(paths: list[Path], report: SuiteReport) -> tuple[Suite, Settings]:
    """Load the test files that are named, else those that the run came from."""
    root = find_root(paths or [Path.cwd()])
    settings = load_settings(root)
    found = paths or files_of_run(report, root)
    if not found:
        raise UsageError(
            f"no test file of run {report.run_id} is under {root}; name them: farm regrade RUN PATH"
        )
    return load_suite(found, settings=settings, root=root), settings


def _tell_of_changes(before: SuiteReport, path: Path, *, as_json: bool) -> None:
    after = parse_report(path.read_bytes(), str(path))
    lines = list(change_lines(before, after, painter()))
    for line in lines or [f"no case has another outcome than in run {before.run_id}"]:
        echo(line, err=as_json)
