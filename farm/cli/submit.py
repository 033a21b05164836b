"""`farm submit` and `farm run`: run the cases that files and directories hold, and report."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from farm.authoring.load import load_suite
from farm.authoring.select import select_cases
from farm.cli.options import (
    add_case_option,
    add_discovery_options,
    echo,
    existing_directory,
    given,
    given_path,
    painter,
)
from farm.errors import UsageError
from farm.in_process import RunOptions, run_in_process
from farm.model.messages import ToolCall
from farm.model.report import CaseReport
from farm.model.suite import Case, Suite
from farm.reporting.json import dump_report
from farm.reporting.summarize import exit_code
from farm.reporting.terminal import case_lines, safe, suite_results_line, tool_call_line
from farm.settings import find_root, load_settings


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_discovery_options(parser)
    add_case_option(parser)
    add = parser.add_argument
    add(
        "--tag",
        action="append",
        type=given,
        default=[],
        metavar="TAG",
        help="only cases with this tag; repeatable",
    )
    add("--list-tests", action="store_true", help="print what would run, a line a case, and run nothing")
    add(
        "-w",
        "--workspace",
        type=existing_directory,
        metavar="DIR",
        help="fill the working directories from here",
    )
    add("--agent", type=given, metavar="NAME", help="run all cases with this agent")
    add("--model", type=given, metavar="MODEL", help="run all cases with this model")
    add("--trials", type=_count, metavar="N", help="repeat each case so often")
    add("--timeout", type=_seconds, metavar="SECONDS", help="how long a session may take")
    add("--keep", choices=("failed", "all", "none"), default="none", help="keep working directories")
    add("--out", type=given_path, metavar="DIR", help="where the report goes (default: .farm/runs/RUN)")
    add("--json", action="store_true", help="print the report (or the list) as JSON")
    add("-v", "--verbose", action="store_true", help="show tool calls as they happen, and every verdict")


def run(arguments: Namespace) -> int:
    """Run the tests in files and directories, and report.

    Nothing runs unless every file is right. Exit codes: 0 all cases passed; 1 some failed; 2 the files or
    this command line are wrong, nothing ran; 3 none failed, but some could not be judged; 130 interrupted.
    """
    settings = load_settings(find_root(arguments.paths))
    suite = load_suite(
        arguments.paths, pattern=arguments.pattern, recursive=not arguments.no_recursive, settings=settings
    )
    suite = select_cases(suite, ids=arguments.case, tags=arguments.tag, trials=arguments.trials)
    if arguments.list_tests:
        return _list(suite, as_json=arguments.json)
    if arguments.agent and settings.agent_spec(arguments.agent) is None:
        raise UsageError(f"--agent: {settings.explain_agent(arguments.agent)}")
    screen = _Screen(verbose=arguments.verbose, quiet=arguments.json)
    report, out = run_in_process(suite, settings, _run_options(arguments, screen))
    if arguments.json:
        echo(dump_report(report).decode().rstrip())
    else:
        echo(suite_results_line(report, screen.paint))
    echo(f"Report: {out / 'report.json'}", err=arguments.json)
    return exit_code(report)


def _run_options(arguments: Namespace, screen: _Screen) -> RunOptions:
    return RunOptions(
        out=arguments.out,
        agent=arguments.agent,
        model=arguments.model,
        workspace=arguments.workspace,
        timeout_seconds=arguments.timeout,
        keep=arguments.keep,
        on_tool_call=screen.tool_call,
        on_case=screen.case,
        on_kept=screen.kept,
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise ArgumentTypeError(f"{text} is not a whole number from 1 to 1000")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


class _Screen:
    """Shows a run while it goes on."""

    def __init__(self, *, verbose: bool, quiet: bool) -> None:
        self.paint = painter()
        self._verbose = verbose
        self._quiet = quiet

    def tool_call(self, call: ToolCall) -> None:
        if self._verbose:
            echo(f"  · {tool_call_line(call)}", err=self._quiet)

    def case(self, case: CaseReport) -> None:
        if not self._quiet:
            for line in case_lines(case, self.paint, verbose=self._verbose):
                echo(line)

    def kept(self, case: Case, directory: Path) -> None:
        echo(f"kept: {directory} ({case.id})", err=True)


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
