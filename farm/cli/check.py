"""`farm check`: say everything that is wrong with test files, and run nothing."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from farm.authoring.load import load_suite
from farm.cli.options import add_discovery_options, echo, painter
from farm.model.agent import scripted_api
from farm.settings import find_root, load_settings


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_discovery_options(parser)


def run(arguments: Namespace) -> int:
    """Check test files, and run nothing.

    Every problem of every file is told at once, with file, line and column; the exit code is then 2.
    """
    settings = load_settings(find_root(arguments.paths))
    suite = load_suite(
        arguments.paths, pattern=arguments.pattern, recursive=not arguments.no_recursive, settings=settings
    )
    if any(scripted_api(spec) for spec in settings.agents.values()):
        # Not at the top: it brings all agents, and few suites have an agent of this kind.
        from farm.resolving import check_scripted_apis

        check_scripted_apis(suite, settings)
    files = len({case.file for case in suite.cases})
    cases = len(suite.cases)
    counts = f"{cases} case{'s' * (cases != 1)} in {files} file{'s' * (files != 1)}"
    echo(f"{painter()('✓', 'green')} {counts}: no problems")
    return 0
