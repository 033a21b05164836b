"""What `farm submit` and `farm run` do once the engine starts: load, plan, queue, and follow."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from farm.authoring.load import load_suite
from farm.authoring.select import select_cases
from farm.cli.following import FollowOptions, follow_to_the_end
from farm.cli.options import echo
from farm.cli.yardstick import open_yardstick, reports_named
from farm.errors import UsageError
from farm.model.suite import Suite
from farm.queue.embedded import Embedded, run_directory
from farm.queue.finding import reachable_broker
from farm.queue.planning import RunOptions
from farm.queue.report_directory import check_out
from farm.queue.submit import new_run_id, submit_run
from farm.reporting.terminal import safe
from farm.settings import find_root, load_settings


def submit(arguments: Namespace, engine: Embedded | None) -> int:
    """Submit what the command line names, and follow it if somebody waits for it."""
    settings = load_settings(find_root(arguments.paths))
    suite = load_suite(
        arguments.paths, pattern=arguments.pattern, recursive=not arguments.no_recursive, settings=settings
    )
    suite = select_cases(suite, ids=arguments.case, tags=arguments.tag, trials=arguments.trials)
    if arguments.list_tests:
        return _list(suite, as_json=arguments.json)
    if arguments.agent and settings.agent_spec(arguments.agent) is None:
        raise UsageError(f"--agent: {settings.explain_agent(arguments.agent)}")
    broker = engine.broker if engine is not None else reachable_broker()
    assert broker is not None
    run_id = new_run_id()
    out = arguments.out or run_directory(run_id)
    waits = engine is not None or arguments.wait or (arguments.command == "run" and not arguments.detach)
    if arguments.out and not waits:
        raise UsageError("--out needs --wait: who only queues a run does not bring its report")
    yardstick = open_yardstick(arguments, suite, waits=waits)
    earlier = check_out(out) if waits else None
    yardstick.check(out)
    if engine is not None:
        engine.remember(run_directory(run_id))
    # Before anything can be told.
    news = broker.listen(run_id) if waits and arguments.verbose else None
    submit_run(suite, settings, _run_options(arguments, out), broker, run_id)
    if earlier is None:
        broker.ledger.await_disk()
        return _tell(run_id, as_json=arguments.json)
    earlier.remove()
    options = FollowOptions(out, verbose=arguments.verbose, as_json=arguments.json, yardstick=yardstick)
    return follow_to_the_end(broker, run_id, options, engine=engine, suite=suite, news=news)


def _run_options(arguments: Namespace, out: Path) -> RunOptions:
    return RunOptions(
        agent=arguments.agent,
        model=arguments.model,
        workspace=arguments.workspace,
        timeout_seconds=arguments.timeout,
        retries=arguments.retries,
        max_cost_usd=arguments.max_cost,
        keep=arguments.keep,
        out=out,
        hidden=reports_named(arguments),
    )


def _tell(run_id: str, *, as_json: bool) -> int:
    echo(json.dumps({"run_id": run_id}) if as_json else run_id)
    echo(f"queued; `farm watch {run_id}` follows it", err=True)
    return 0


def _list(suite: Suite, *, as_json: bool) -> int:
    if as_json:
        rows = [
            {
                "id": case.id,
                "name": case.name,
                "file": case.file,
                "line": case.line,
                "agent": case.agent,
                "tags": case.tags,
                "trials": case.trials.count,
                "skip": case.skip,
            }
            for case in suite.cases
        ]
        skipped = [file.model_dump() for file in suite.skipped_files]
        echo(json.dumps({"cases": rows, "skipped_files": skipped}, indent=2, ensure_ascii=False))
        return 0
    for case in suite.cases:
        echo(safe(case.id) + (f"  (skipped: {safe(case.skip)})" if case.skip else ""))
    for file in suite.skipped_files:
        echo(f"not a test: {safe(file.file)}: {safe(file.reason)}", err=True)
    return 0
