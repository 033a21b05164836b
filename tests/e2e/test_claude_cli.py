"""The real Claude Code CLI against the scripted Messages API: what it does, how it ends, what it gets to see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from farm.model.agent import ClaudeSpec, Isolation
from farm.model.messages import ToolCall
from farm.running import TrialPlan, TrialResult, run_trial
from farm.testing import Fault, Scenario, ScriptedApi, ToolUse, Turn
from farm.testing.scenario import Branch
from tests.unit.builders import case as make_case
from tests.unit.sessions.processes import is_alive, wait_until

KEY = "sk-ant-farm-tests-0123456789"
SLEEP = f"300.{os.getpid()}"  # another run of these tests has another
ENDING = Turn(say="All done, hello.")


def use(tool: str, **tool_input: Any) -> Turn:
    return Turn(tools=(ToolUse(tool=tool, input=tool_input),))


def faulty(**fault: Any) -> Scenario:
    return Scenario(turns=(Turn(say="never said", fault=Fault(**fault)),))


SUBAGENT = {"description": "count", "prompt": "COUNT the lines", "subagent_type": "general-purpose"}

SCENARIOS = {
    "works": Scenario(
        turns=(
            Turn(
                say="Looking.",
                tools=(
                    ToolUse(tool="Read", input={"file_path": "README.md"}),
                    ToolUse(tool="Bash", input={"command": "echo key=$ANTHROPIC_API_KEY; wc -l < README.md"}),
                ),
            ),
            use("Write", file_path="SUMMARY.md", content="three lines\n"),
            ENDING,
        )
    ),
    "careless": Scenario(turns=(use("Read", file_path=".env"), ENDING)),
    "greets": Scenario(turns=(ENDING,)),
    "fails-once": Scenario(turns=(ENDING.model_copy(update={"fault": Fault(status=529, count=1)}),)),
    **{f"status-{status}": faulty(status=status) for status in (400, 401, 403, 413, 429, 500, 529)},
    "drops": faulty(drop_after_events=3),
    "garbles": faulty(malformed="data: {]\n\n"),
    "never-ends": Scenario(turns=(use("Bash", command="true"),), repeat_last=True),
    "hangs": Scenario(
        turns=(
            use("Bash", command=f"setsid sleep {SLEEP} >/dev/null 2>&1 & echo started"),
            Turn(say="never said", delay_seconds=3600),
        )
    ),
    "delegates": Scenario(
        turns=(use("Agent", **SUBAGENT), ENDING),
        repeat_last=True,  # newer versions let subagents run in the background, and are told when they end
        branches=(Branch(prompt_contains="COUNT", turns=(use("Bash", command="echo 3"), Turn(say="3"))),),
    ),
    "removes": Scenario(turns=(use("Bash", command="rm -rf important"), ENDING)),
    "stumbles": Scenario(turns=(use("Bash", command="echo broken; exit 3"), ENDING)),
    "calls-mcp": Scenario(turns=(use("mcp__demo__greet"), ENDING)),
}  # fmt: skip

Trial = Callable[..., TrialResult]


@pytest.fixture(scope="module")
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi(SCENARIOS) as api:
        yield api


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A workspace with instructions of its own."""
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "README.md").write_text("one\ntwo\nthree\n")
    (directory / "CLAUDE.md").write_text("PROJECT-INSTRUCTIONS: be brief.\n")
    return directory


@pytest.fixture
def trial(api: ScriptedApi, claude_cli: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """Give a function that runs a trial of a scenario."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)

    def run(
        name: str,
        *,
        options: dict[str, Any] | None = None,
        calls: list[ToolCall] | None = None,
        isolation: Isolation = "auto",
        timeout_seconds: float = 60,
        **fields: Any,
    ) -> TrialResult:
        given = {"max_retries": 0, "base_url": f"{api.base_url(name)}/{uuid.uuid4()}", **(options or {})}
        return run_trial(
            TrialPlan(
                case=make_case(**fields),
                agent="claude",
                spec=ClaudeSpec(executable=str(claude_cli), **given),
                workspace=project,
                files=project.parent,
                timeout_seconds=timeout_seconds,
                model="claude-sonnet-4-5",
                on_tool_call=(calls if calls is not None else []).append,
                isolation=isolation,
            )
        )

    return run


def error_of(result: TrialResult) -> tuple[str, bool]:
    """Say why a trial could not be judged."""
    report = result.report
    assert (report.outcome, report.verdicts, result.transcript) == ("errored", (), None), report
    assert report.error is not None
    assert KEY not in report.error.message
    return report.error.kind, report.error.retryable


def sent(api: ScriptedApi, name: str) -> str:
    """Give all that the last session of a scenario sent."""
    requests = api.received(name)
    return "\n".join(request.text for request in requests if request.path == requests[-1].path)


@pytest.mark.parametrize("isolation", ["process", "auto"])
def test_a_session_really_reads_runs_and_writes(trial, api, isolation):
    calls: list[ToolCall] = []
    evaluators = (
        {"type": "tool_call", "tool": "Read", "params": {"file_path": "*README.md"}},
        {"type": "tool_call", "tool": "Write", "called_after": "Bash"},
        {"type": "tool_call", "tool": "Edit", "called": False},
        {"type": "file_contains", "path": "SUMMARY.md", "value": "three lines"},
        {"type": "contains", "value": "All done"},
        {"type": "cost", "budget": 0.01},
        {"type": "tool_trajectory", "mode": "in_order", "expected": [{"tool": "Bash", "max_duration_ms": 50_000}]},
    )  # fmt: skip
    result = trial("works", calls=calls, isolation=isolation, evaluators=evaluators)
    assert result.report.outcome == "passed", result.report
    assert [call.tool for call in calls] == ["Read", "Bash", "Write"]
    transcript = result.transcript
    assert transcript is not None
    assert (transcript.agent_version or "").startswith("2.1.")
    assert (transcript.model, transcript.exit_code) == ("claude-sonnet-4-5", 0)
    assert transcript.usage is not None
    assert (transcript.usage.input_tokens, transcript.usage.output_tokens) == (30, 15)
    read, bash, _ = transcript.tool_calls()
    assert "two" in str(read.output)
    assert bash.output == "key=[ANTHROPIC_API_KEY]\n3"
    assert KEY not in transcript.model_dump_json()
    assert KEY in sent(api, "works")  # the agent could see it: only the record is without it
    assert result.report.workspace_changes is not None
    assert result.report.workspace_changes.added == ("SUMMARY.md",)


def test_a_session_that_does_wrong_fails(trial, project):
    (project / ".env").write_text("TOKEN=1\n")
    never = {"type": "tool_call", "tool": "Read", "called": False, "params": {"file_path": "*.env"}}
    result = trial("careless", evaluators=(never,))
    assert (result.report.outcome, result.report.error) == ("failed", None)


@pytest.mark.parametrize(
    ("name", "kind", "retryable"),
    [
        ("status-400", "bad_request", False),
        ("status-401", "authentication", False),
        ("status-403", "authentication", False),
        ("status-413", "bad_request", False),
        ("status-429", "rate_limited", True),
        ("status-500", "api_error", True),
        ("status-529", "api_overloaded", True),
        ("drops", "api_error", True),
        ("garbles", "api_error", True),
    ],
)
def test_a_failure_of_the_api_is_never_a_verdict_on_the_agent(trial, name, kind, retryable):
    assert error_of(trial(name)) == (kind, retryable)


def test_without_a_key_the_session_is_not_tried_again(trial, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("CLAUDE_CODE_OAUTH_TOKEN", raising=False)
    assert error_of(trial("greets")) == ("authentication", False)


def test_a_failure_that_passes_is_mended_by_the_cli_itself(trial):
    assert trial("fails-once", options={"max_retries": 2}).report.outcome == "passed"


def test_an_api_that_does_not_answer_in_time_is_errored(trial):
    options = {"api_timeout_seconds": 1}
    assert error_of(trial("hangs", options=options, timeout_seconds=60)) == ("api_error", True)


def test_max_turns_is_errored_and_not_tried_again(trial):
    assert error_of(trial("never-ends", max_turns=2)) == ("max_turns", False)


def test_the_budget_of_a_case_is_kept(trial):
    assert error_of(trial("never-ends", max_cost_usd=0.0005)) == ("max_budget", False)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("isolation", ["process", "auto"])
def test_a_hanging_session_is_killed_with_the_children_of_its_bash(trial, isolation):
    calls: list[ToolCall] = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(trial, "hangs", isolation=isolation, timeout_seconds=6, calls=calls)
        wait_until(lambda: running.done() or bool(sleepers()))
        assert sleepers()
        result = running.result()
    assert sleepers() == []
    assert error_of(result) == ("timeout", True)
    assert [call.tool for call in calls] == ["Bash"]


def sleepers() -> list[Path]:
    """Find the children that the Bash of hanging sessions left behind, whatever namespace they are in."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", SLEEP.encode()] and is_alive(int(entry.name)):
            found.append(entry)
    return found


def test_a_subagents_calls_are_marked(trial):
    calls: list[ToolCall] = []
    result = trial("delegates", calls=calls)
    assert result.transcript is not None, result.report.error
    started, counted = result.transcript.tool_calls()
    assert (started.tool, started.parent_id) == ("Agent", None)
    assert (counted.tool, counted.parent_id) == ("Bash", started.id)
    assert [(call.tool, call.parent_id) for call in calls] == [("Agent", None), ("Bash", started.id)]
    assert result.transcript.final_text == ENDING.say


def test_a_denied_call_is_recorded_and_was_not_made(trial, project):
    (project / "important").mkdir()
    (project / "important/file").write_text("x")
    result = trial("removes", options={"disallowed_tools": ["Bash(rm:*)"]})
    assert result.transcript is not None, result.report.error
    (call,) = result.transcript.tool_calls()
    assert call.is_error
    assert result.transcript.workspace_changes is not None
    assert result.transcript.workspace_changes.deleted == ()


def test_what_a_permission_mode_does_not_allow_is_a_denial(trial):
    result = trial("removes", options={"permission_mode": "default"})
    assert result.transcript is not None, result.report.error
    assert [denial.tool for denial in result.transcript.permission_denials] == ["Bash"]


def test_a_tool_that_fails_is_an_error_of_the_call_and_not_of_the_session(trial):
    result = trial("stumbles")
    assert result.transcript is not None, result.report.error
    (call,) = result.transcript.tool_calls()
    assert (call.is_error, "broken" in str(call.output)) == (True, True)


@pytest.mark.parametrize("isolation", ["process", "auto"])
def test_nothing_of_the_host_reaches_a_session_and_all_of_the_project_does(
    trial, api, project, tmp_path, monkeypatch, isolation
):
    host, log = tmp_path / "host", tmp_path / "log"
    config = host / ".claude"
    (config / "skills/host-skill").mkdir(parents=True)
    (config / "CLAUDE.md").write_text("HOST-MARKER memory\n")
    (config / "skills/host-skill/SKILL.md").write_text(
        "---\nname: HOST-MARKER\ndescription: HOST-MARKER\n---\n"
    )
    (config / "settings.json").write_text(json.dumps(hooks(f"echo HOST-MARKER | tee {log}")))
    servers = {"mcpServers": {"host": {"command": "touch", "args": [str(log)]}}}
    (host / ".claude.json").write_text(json.dumps(servers))
    (project / ".mcp.json").write_text(json.dumps(servers))
    monkeypatch.setenv("HOME", str(host))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(config))
    monkeypatch.setenv("ANTHROPIC_MODEL", "HOST-MARKER")
    (project / ".claude/skills/mine").mkdir(parents=True)
    (project / ".claude/settings.json").write_text(json.dumps(hooks("echo PROJECT-HOOK")))
    skill = "---\nname: mine\ndescription: PROJECT-SKILL\n---\nDo it.\n"
    (project / ".claude/skills/mine/SKILL.md").write_text(skill)

    result = trial("greets", isolation=isolation)

    assert result.report.outcome == "passed", result.report
    asked = sent(api, "greets")
    assert "HOST-MARKER" not in asked
    assert not log.exists()
    for marker in ("PROJECT-INSTRUCTIONS", "PROJECT-SKILL", "PROJECT-HOOK", "Say hello"):
        assert marker in asked


def hooks(command: str) -> dict[str, Any]:
    return {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": command}]}]}}


MCP_SERVER = """\
import json, sys
TOOL = {"name": "greet", "description": "MCP-MARKER", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    request = json.loads(line)
    answers = {
        "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "demo", "version": "1"}},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "greetings"}]},
    }
    if "id" in request:
        result = answers.get(request["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def test_an_mcp_server_that_was_asked_for_is_there(trial, project):
    (project / "server.py").write_text(MCP_SERVER)
    servers = {"mcpServers": {"demo": {"command": sys.executable, "args": ["server.py"]}}}
    (project / ".mcp.json").write_text(json.dumps(servers))
    for config in (".mcp.json", servers):
        result = trial("calls-mcp", options={"mcp_config": config})
        assert result.transcript is not None, result.report.error
        (call,) = result.transcript.tool_calls()
        assert (call.tool, call.output) == ("mcp__demo__greet", "greetings")


def test_prompts_that_look_like_options_or_are_long_arrive(trial, api):
    for prompt in ("--help me, hello", f"hello {'x' * 150_000} END-OF-PROMPT"):
        result = trial("greets", input_messages=({"role": "user", "content": prompt},))
        assert result.report.outcome == "passed", result.report
        assert prompt in sent(api, "greets")


FARM_FILE = """\
name: demo
model: claude-sonnet-4-5
workspace: project
timeout_seconds: 40
retries: 0
agents:
  works: {{kind: claude, executable: "{cli}", base_url: "{works}", max_retries: 0}}
  careless: {{kind: claude, executable: "{cli}", base_url: "{careless}", max_retries: 0}}
  overloaded: {{kind: claude, executable: "{cli}", base_url: "{overloaded}", max_retries: 0}}
"""
TESTS = {
    "works": """\
name: Summarizes
prompt: Summarize the README
agent: works
assertions:
  - {tool: Read, params: {file_path: "*README.md"}, call_count: 1}
  - {tool: Write, called_after: Read}
  - {tool: Read, called: false, params: {file_path: "*.env"}}
  - {type: file_contains, path: SUMMARY.md, value: three}
""",
    "careless": """\
name: Leaves secrets alone
prompt: What can I configure?
agent: careless
assertions:
  - {tool: Read, called: false, params: {file_path: "*.env"}}
""",
    "overloaded": """\
name: Is not reached
prompt: Hello
agent: overloaded
assertions:
  - {tool: Bash, called: false}
""",
}


@pytest.fixture
def submitted(farm, write, api, claude_cli, project) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Submit a passing, a failing and an errored case to the embedded engine."""
    (project / ".env").write_text("TOKEN=1\n")
    urls = {"works": "works", "careless": "careless", "overloaded": "status-529"}
    write(
        "farm.yaml",
        FARM_FILE.format(cli=claude_cli, **{key: api.base_url(name) for key, name in urls.items()}),
    )
    for name, text in TESTS.items():
        write(f"tests/{name}.yaml", text)
    done = farm("submit", "tests", "--out", "out", "-v", env={"ANTHROPIC_API_KEY": KEY})
    return done, project.parent / "out"


def test_cases_go_through_the_engine_to_their_outcomes(submitted):
    done, out = submitted
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads((out / "report.json").read_text())
    outcomes = {case["id"]: case["outcome"] for case in report["cases"]}
    assert outcomes == {"tests/works": "passed", "tests/careless": "failed", "tests/overloaded": "errored"}
    (overloaded,) = [case["trials"][0] for case in report["cases"] if case["id"] == "tests/overloaded"]
    assert (overloaded["error"]["kind"], overloaded["verdicts"]) == ("api_overloaded", [])
    assert report["totals"]["cost_usd"] > 0
    assert "tests/works: Bash" in done.stdout  # as they happen
    # Neither report nor transcripts nor terminal have the key that the agent printed.
    assert KEY not in done.stdout + done.stderr
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) >= 3
    assert all(KEY.encode() not in path.read_bytes() for path in files)
