"""Sessions of the real Claude Code CLI as authors see them: while they go on, afterwards, and in its own logs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.testing import Scenario, ScriptedApi, ToolUse, Turn
from farm.testing.scenario import Branch
from tests.e2e.terminal import PATIENCE_SECONDS


def use(tool: str, **tool_input: Any) -> Turn:
    return Turn(tools=(ToolUse(tool=tool, input=tool_input),))


SUBAGENT = {"description": "count", "prompt": "COUNT the lines", "subagent_type": "general-purpose"}
SCENARIO = Scenario(
    turns=(
        Turn(
            say="Looking.",
            tools=(
                ToolUse(tool="Read", input={"file_path": "README.md"}),
                ToolUse(tool="Bash", input={"command": "cat .env\x1b[31m; true"}),
            ),
        ),
        use("Agent", **SUBAGENT),
        use("Write", file_path="SUMMARY.md", content="three\n"),
        Turn(say="All done, hello."),
    ),
    repeat_last=True,
    branches=(Branch(prompt_contains="COUNT", turns=(use("Bash", command="echo 3"), Turn(say="3"))),),
)

TEST = """\
name: Summarize
prompt: Summarize the README
assertions:
  - {tool: Read, params: {file_path: "*README.md"}, call_count: 1}
  - {tool: Bash, params: {command: echo 3}}
  - {tool: Bash, call_count: 2}
  - {tool: Task, called_before: Write}
  - {tool: Write, called_before: Read}
  - {tool: Bash, params: {command: "cat.*\\\\.env"}, called: false}
  - {type: tool_trajectory, mode: in_order, expected: [{tool: Read}, {tool: Agent}, {tool: Write}]}
  - {type: contains, value: hello}
  - {type: token_usage, max_total: 1}
"""


@pytest.fixture
def project(tmp_path: Path, claude_cli: Path) -> Iterator[Path]:
    """A project whose agent is the real CLI, on a scripted API."""
    (tmp_path / "README.md").write_text("one\ntwo\nthree\n")
    (tmp_path / "test.yaml").write_text(TEST)
    with ScriptedApi({"summarize": SCENARIO}) as api:
        (tmp_path / "farm.yaml").write_text(
            "agent: mine\nmodel: claude-sonnet-4-5\nisolation: process\nretries: 0\nagents:\n  mine:\n"
            f"    {{kind: claude, executable: {claude_cli}, base_url: {api.base_url('summarize')}}}\n"
        )
        yield tmp_path


def farm(project: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    return subprocess.run(
        [sys.executable, "-m", "farm", *map(str, arguments)],
        cwd=project,
        env={**env, "ANTHROPIC_API_KEY": "dummy", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
    )


CALLS = [
    "Read(file_path='README.md')",
    r"Bash(command='cat .env\x1b[31m; true')",
    "Agent(description='count', prompt='COUNT the lines', subagent_type='general-purpose')",
    r"Write(file_path='SUMMARY.md', content='three\n')",
]
CALL_OF_SUBAGENT = "subagent: Bash(command='echo 3')"


def calls_told(lines: list[str], mark: str) -> list[str]:
    """Give the agent's own calls; its subagent's comes after it was started, in some versions beside others."""
    calls = [line.removeprefix(mark) for line in lines if line.startswith(mark)]
    at = calls.index(CALL_OF_SUBAGENT)
    assert at > 2
    return calls[:at] + calls[at + 1 :]


def test_a_run_tells_of_calls_in_a_pipe_and_every_log_of_the_session_gets_the_same_verdicts(project):
    done = farm(project, "run", "-v", "--keep", "all", "test.yaml")
    assert done.returncode == 1, done
    lines = done.stdout.splitlines()
    assert calls_told(lines[:5], "  · test: ") == CALLS
    assert lines[5] == "✗ test  Summarize"
    kept = Path(next(line for line in done.stderr.splitlines() if line.startswith("kept: ")).split()[1])
    (log,) = kept.glob("config/claude/projects/*/*.jsonl")
    assert list((log.parent / log.stem / "subagents").glob("agent-*.jsonl"))
    (report,) = project.glob(".farm/runs/*/report.json")
    (trial,) = json.loads(report.read_text())["cases"][0]["trials"]
    verdicts, logs = trial["verdicts"], [report.parent / name for name in trial["logs"]]
    assert [path.name for path in logs] == ["00001.stream.jsonl", "00001.session.jsonl"]
    assert [verdict["outcome"] for verdict in verdicts] == [
        *("passed", "passed", "passed", "passed", "failed", "failed", "passed", "passed", "failed")
    ]
    for session in (log, *logs, report.parent / trial["transcript"]):
        analyzed = farm(project, "analyze", "test.yaml", session, "--json")
        assert analyzed.returncode == 1, analyzed
        assert json.loads(analyzed.stdout)[0]["verdicts"] == verdicts
    shutil.rmtree(kept)


def test_a_session_is_shown_as_it_goes_and_makes_a_test_that_it_passes(project):
    done = farm(project, "log", "Summarize the README", "--yaml", "--out", "session.json")
    assert done.returncode == 0, done
    *told, last = done.stderr.splitlines()
    assert (len(told), calls_told(told, "  · "), last) == (5, CALLS, "Transcript: session.json")
    (project / "made.yaml").write_text(done.stdout)
    analyzed = farm(project, "analyze", "made.yaml", "session.json")
    assert (analyzed.returncode, analyzed.stdout.splitlines()[-1]) == (0, "Results: 6/6 passed"), analyzed
    assert not (project / "SUMMARY.md").exists()  # it worked in a copy
