"""The real Codex, Gemini and OpenCode CLIs against scripted APIs: what they do, and how they end.

They are large and optional: `make agents` installs them, and without one its tests are skipped, in CI too.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.agents.base import Session
from farm.agents.registry import AGENTS
from farm.model.agent import AGENT_SPECS, Isolation
from farm.model.messages import Message
from farm.running import TrialPlan, TrialResult, run_trial
from farm.sessions.workspace import open_workspace
from farm.testing import Fault, Scenario, ScriptedApi, ToolUse, Turn
from tests.e2e.model_apis import ModelApis
from tests.unit.builders import case as make_case
from tests.unit.sessions.processes import wait_until

KEY = "sk-farm-tests-0123456789"
KINDS = ("codex", "gemini", "opencode")
KEY_NAMES = {"codex": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY", "opencode": "ANTHROPIC_API_KEY"}
MODELS = {"codex": "gpt-5.5", "gemini": "gemini-2.5-flash", "opencode": "anthropic/claude-sonnet-4-5"}
# What makes them give up soon; OpenCode has nothing of the kind.
IMPATIENT: dict[str, dict[str, Any]] = {
    "codex": {
        "extra_args": [
            *("-c", "model_providers.farm.request_max_retries=0"),
            *("-c", "model_providers.farm.stream_max_retries=0"),
        ]
    },
    "gemini": {"max_retries": 0},
    "opencode": {},
}
PATCH = "*** Begin Patch\n*** Add File: SUMMARY.md\n+three lines\n*** End Patch\n"
ENDING = Turn(say="All done, hello.")
Trial = Callable[..., TrialResult]


def uses(*tools: tuple[str, dict[str, Any]], say: str | None = None) -> Turn:
    return Turn(say=say, tools=tuple(ToolUse(tool=tool, input=given) for tool, given in tools))


def shell(kind: str, command: str) -> tuple[str, dict[str, Any]]:
    if kind == "codex":
        return "exec_command", {"cmd": command}
    return ("run_shell_command" if kind == "gemini" else "bash"), {"command": command, "description": "x"}


def write(kind: str) -> tuple[str, dict[str, Any]]:
    if kind == "codex":
        return "apply_patch", {"input": PATCH}
    name = "file_path" if kind == "gemini" else "filePath"
    tool = "write_file" if kind == "gemini" else "write"
    return tool, {name: "SUMMARY.md", "content": "three lines\n"}


def scenarios(kind: str) -> dict[str, Scenario]:
    def faulty(**fault: Any) -> Scenario:
        return Scenario(turns=(Turn(say="never said", fault=Fault(**fault)),))

    key = f"${KEY_NAMES[kind]}"
    sleep = f"setsid sleep 300.{os.getpid()} >/dev/null 2>&1 & echo started"
    return {
        "works": Scenario(
            turns=(
                uses(shell(kind, f"echo key={key}; cat README.md"), say="Looking."),
                uses(write(kind)),
                ENDING,
            )
        ),
        "greets": Scenario(turns=(ENDING,)),
        "hangs": Scenario(turns=(uses(shell(kind, sleep)), Turn(say="never", delay_seconds=3600))),
        "drops": faulty(drop_after_events=1),
        **{f"status-{status}": faulty(status=status) for status in (400, 401, 429, 500)},
    }


@pytest.fixture(scope="module")
def apis() -> Iterator[dict[str, ModelApis | ScriptedApi]]:
    with (
        ModelApis(scenarios("codex")) as codex,
        ModelApis(scenarios("gemini")) as gemini,
        ScriptedApi(scenarios("opencode")) as opencode,
    ):
        yield {"codex": codex, "gemini": gemini, "opencode": opencode}


def processes_with(argument: str) -> list[str]:
    """Give the processes that were started with an argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:  # it ended as we looked
            continue
    return found


def find_cli(kind: str) -> str:
    """Find the real CLI, or skip."""
    told = os.environ.get(f"FARM_TEST_{kind.upper()}_PATH")
    path = Path(told or Path(__file__).parents[2] / f".tools/{kind}/node_modules/.bin/{kind}")
    if not path.exists():
        pytest.skip(f"{kind} is not installed; `make agents` does it, with npm; it is optional, in CI too")
    return str(path)


@pytest.fixture
def trial(apis: dict[str, ModelApis | ScriptedApi], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """Give a function that runs a trial of a scenario with a CLI."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "README.md").write_text("one\ntwo\nthree\n")
    for name in ("AGENTS.md", "GEMINI.md"):
        (project / name).write_text("PROJECT-INSTRUCTIONS: be brief.\n")

    def run(
        kind: str,
        name: str,
        *,
        options: dict[str, Any] | None = None,
        isolation: Isolation = "auto",
        timeout_seconds: float = 180,
        session: str | None = None,
        **fields: Any,
    ) -> TrialResult:
        executable = find_cli(kind)
        monkeypatch.setenv(KEY_NAMES[kind], KEY)
        api = apis[kind]
        session = session or f"/{name}/{uuid.uuid4()}"
        if isinstance(api, ScriptedApi):
            base_url = f"{api.base_url(name)}/v1"
        else:
            base_url = f"{api.url}{session}" + ("/v1" if kind == "codex" else "")
        given = {"executable": executable, "base_url": base_url, **IMPATIENT[kind], **(options or {})}
        spec = AGENT_SPECS[kind].model_validate(given)
        return run_trial(
            TrialPlan(
                case=make_case(**fields),
                agent=kind,
                spec=spec,
                workspace=project,
                files=tmp_path,
                timeout_seconds=timeout_seconds,
                model=MODELS[kind],
                isolation=isolation,
            )
        )

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_works_in_its_workspace_and_is_written_down_in_our_words(trial, apis, kind):
    session = f"/works/{uuid.uuid4()}"
    result = trial(kind, "works", session=session)
    transcript = result.transcript
    assert transcript is not None, result.report
    assert (transcript.agent, transcript.exit_code, transcript.final_text) == (kind, 0, "All done, hello.")
    bash, written = transcript.tool_calls()
    assert (bash.tool, bash.input["command"]) == ("Bash", f"echo key=${KEY_NAMES[kind]}; cat README.md")
    assert "one\ntwo\nthree" in bash.output
    assert bash.duration_ms is not None
    assert (written.tool, Path(written.input["file_path"]).name) == ("Write", "SUMMARY.md")
    assert transcript.workspace_changes is not None
    assert transcript.workspace_changes.added == ("SUMMARY.md",)
    assert transcript.usage is not None
    assert transcript.usage.output_tokens > 0
    assert (transcript.cost_usd is not None) == (kind == "opencode")
    assert transcript.model == MODELS[kind]
    assert transcript.agent_version
    assert KEY not in transcript.model_dump_json()
    api = apis[kind]
    asked = (
        [request.body for request in api.received("works")]
        if isinstance(api, ScriptedApi)
        else api.asked(session)
    )
    assert len(asked) == 3
    assert "PROJECT-INSTRUCTIONS" in json.dumps(asked[0])


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("codex", "status-400", ("bad_request", False)),
        ("codex", "status-401", ("authentication", False)),
        ("codex", "status-429", ("rate_limited", True)),
        ("codex", "status-500", ("api_overloaded", True)),
        ("codex", "drops", ("api_error", True)),
        ("gemini", "status-400", ("bad_request", False)),
        ("gemini", "status-401", ("authentication", False)),
        ("gemini", "status-429", ("rate_limited", True)),
        ("gemini", "status-500", ("api_error", True)),
        ("gemini", "drops", ("api_error", True)),
        ("opencode", "status-400", ("bad_request", False)),
        ("opencode", "status-401", ("authentication", False)),
    ],
)
def test_an_error_of_the_api_is_no_verdict_on_the_agent(trial, kind, name, expected):
    report = trial(kind, name).report
    assert (report.outcome, report.verdicts) == ("errored", ())
    assert report.error is not None
    assert (report.error.kind, report.error.retryable) == expected, report.error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", ["--help", "- x" * 70_000])
def test_any_prompt_arrives_as_it_is(trial, apis, kind, prompt):
    session = f"/greets/{uuid.uuid4()}"
    result = trial(kind, "greets", session=session, input_messages=(Message(role="user", content=prompt),))
    assert result.transcript is not None, result.report.error
    api = apis[kind]
    asked = (
        [request.body for request in api.received("greets")]
        if isinstance(api, ScriptedApi)
        else api.asked(session)
    )
    assert prompt in json.dumps(asked[-1])


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_session_survives_its_time_out(trial, kind):
    result = trial(kind, "hangs", isolation="process", timeout_seconds=25)
    assert result.report.error is not None
    assert result.report.error.kind == "timeout", result.report.error
    wait_until(lambda: not processes_with(f"300.{os.getpid()}"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_that_may_only_answer_is_offered_no_tool_to_work_with(apis, kind, tmp_path, monkeypatch):
    executable, session, api = find_cli(kind), f"/greets/{uuid.uuid4()}", apis[kind]
    monkeypatch.setenv(KEY_NAMES[kind], KEY)
    if isinstance(api, ScriptedApi):
        base_url = f"{api.base_url('greets')}/v1"
    else:
        base_url = f"{api.url}{session}" + ("/v1" if kind == "codex" else "")
    with open_workspace() as workspace:
        transcript = AGENTS[kind].run(
            Session(
                case=make_case(),
                agent="judge",
                spec=AGENT_SPECS[kind].model_validate({"executable": executable, "base_url": base_url}),
                workspace=workspace,
                files=tmp_path,
                timeout_seconds=180,
                model=MODELS[kind],
                tools=False,
                answer_schema={"type": "object"},
            )
        )
    assert transcript.final_text == "All done, hello."
    asked = api.received("greets")[-1].body if isinstance(api, ScriptedApi) else api.asked(session)[-1]
    declared = asked.get("tools") or []
    if kind == "gemini":
        declared = [tool for group in declared for tool in group.get("functionDeclarations", ())]
    # What is left of Codex's needs somebody to ask, or can write nothing in its read-only sandbox.
    allowed = {"codex": {"request_user_input", "apply_patch", "tool_search"}}.get(kind, set())
    assert {tool.get("name") or tool["type"] for tool in declared} <= allowed
    assert ("json_schema" in json.dumps(asked)) == (kind == "codex")
