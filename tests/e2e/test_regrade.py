"""Yesterday's sessions judged by today's files, as people do it: in a directory, and on a fleet."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.queue.server import private_server
from tests.e2e.terminal import PATIENCE_SECONDS

SUITE = """\
description: a suite
agent: scripted
tests:
  - id: polite
    input: Greet
    trials: 2
    script: [{tool: Write, input: {file_path: out.txt, content: x}}, {say: hello}]
    evaluators: [{type: contains, value: hello}]
  - id: rude
    input: Greet
    script: [{say: go away}]
    evaluators: [{type: contains, value: hello}]
  - id: broken
    input: Greet
    script: [{crash: boom}]
    evaluators: [{type: contains, value: hello}]
  - id: leaving
    input: Greet
    script: [{say: hello}]
    evaluators: [{type: contains, value: hello}]
"""


class Project:
    """A directory with tests, and the command line in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
        self.env["PYTHONIOENCODING"] = "utf-8"
        (directory / "tests").mkdir()
        (directory / "farm.yaml").write_text("name: demo\nisolation: process\nretries: 0\n")
        self.tests = directory / "tests" / "greetings.yaml"
        self.tests.write_text(SUITE)

    def farm(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "farm", *arguments],
            cwd=self.directory,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def broker_url(project: Project) -> Iterator[str]:
    """A broker with a worker, elsewhere than the project."""
    elsewhere = project.directory.parent / f"{project.directory.name}-worker"
    elsewhere.mkdir()
    with private_server() as server:
        worker = subprocess.Popen(
            [sys.executable, "-m", "farm", "worker", "--concurrency", "2", "--grace", "0"],
            cwd=elsewhere,
            env={**project.env, "FARM_BROKER_URL": server.broker_url},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield server.broker_url
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(PATIENCE_SECONDS)


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {case["id"].partition("::")[2]: case["outcome"] for case in report["cases"]}


def test_a_run_is_regraded_where_it_was_made_and_on_a_fleet(project, broker_url):
    first = project.farm("submit", "tests", "--json")
    report = json.loads(first.stdout)
    run_id = report["run_id"]
    assert outcomes(report) == {
        "polite": "passed", "rude": "failed", "broken": "errored", "leaving": "passed"
    }  # fmt: skip

    # The evaluators change, a case goes, another comes; and the agent would do something else now.
    changed = SUITE.replace("script: [{say: go away}]", "script: [{say: hello}]").replace(
        "id: leaving", "id: coming"
    )
    head, rude, rest = changed.partition("  - id: rude")
    project.tests.write_text(head + rude + rest.replace("value: hello", "value: away"))
    again = project.farm("regrade", run_id)
    assert again.returncode == 3, again
    lines = again.stdout.splitlines()
    assert f"- tests/greetings::coming: run {run_id} has no session of it" in lines
    assert "- tests/greetings::leaving: it is not in the test files any more" in lines
    assert "    crashed: boom" in lines
    assert "Results: 2/5 passed, 1 errored, 2 skipped" in lines
    assert lines[-2:] == [
        "changed: tests/greetings::leaving: passed → skipped",
        "changed: tests/greetings::rude: failed → passed",
    ]

    # A report elsewhere, on a broker that has never heard of the run.
    kept = f".farm/runs/{run_id}/report.json"
    queued = project.farm("regrade", kept, "tests", "--case", "*::rude", FARM_BROKER_URL=broker_url)
    assert queued.returncode == 0, queued
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}\n", queued.stdout)
    watched = project.farm("watch", queued.stdout.strip(), "--json", FARM_BROKER_URL=broker_url)
    report = json.loads(watched.stdout)
    assert (watched.returncode, report["regraded_from"]) == (0, run_id)
    assert outcomes(report) == {"rude": "passed"}
    (trial,) = report["cases"][0]["trials"]
    assert trial["output"] == "go away"
