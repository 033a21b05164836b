"""The agents codex, gemini and opencode on a program that only plays the CLI: how it is started, how it ends.

What the real ones do is in tests/e2e/test_other_clis.py.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.agents.base import Session
from farm.agents.registry import AGENTS
from farm.errors import SessionError
from farm.model.agent import AGENT_SPECS
from farm.model.messages import Message, ToolCall
from farm.model.prices import Price
from farm.model.transcript import Transcript

CAPTURES = Path(__file__).parent / "captures"
KINDS = ("codex", "gemini", "opencode")
KEYS = {"codex": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY", "opencode": "ANTHROPIC_API_KEY"}

Started = Callable[..., tuple[list[str], dict[str, str], str]]


def play(kind: str, name: str = "works") -> str:
    return f"cat {shlex.quote(str(CAPTURES / kind / f'{name}.jsonl'))}"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in (AGENT_SPECS[kind] for kind in KINDS):
        for name in spec.model_fields["secrets"].default:
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., str]:
    """Give a function that writes a shell script in the CLI's place."""

    def write(*commands: str) -> str:
        path = tmp_path / "cli"
        version = '[ "$1" = --version ] && echo 9.9.9 && exit'
        path.write_text("\n".join(["#!/bin/sh", version, *commands, ""]))
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def run(make_session: Callable[..., Session], program: Callable[..., str]) -> Callable[..., Transcript]:
    """Give a function that runs a session of a script."""

    def run(
        kind: str,
        *commands: str,
        prompt: str = "go",
        options: dict[str, Any] | None = None,
        changes: dict[str, Any] | None = None,
        **fields: Any,
    ) -> Transcript:
        spec = AGENT_SPECS[kind](executable=program(*commands), **(options or {}))  # type: ignore[call-arg]
        fields.setdefault("input_messages", (Message(role="user", content=prompt),))
        session = make_session(spec=spec, **fields)
        return AGENTS[kind].run(dataclasses.replace(session, **(changes or {})))

    return run


@pytest.fixture
def started(run, workspace) -> Started:
    """Give a function that says with which arguments, environment and input the CLI was started."""

    def started(kind: str, **fields: Any) -> tuple[list[str], dict[str, str], str]:
        show = "import json, os, sys; json.dump([sys.argv[1:], dict(os.environ), sys.stdin.read()], open('seen', 'w'))"
        run(kind, f'{shlex.quote(sys.executable)} -c {shlex.quote(show)} "$@"', play(kind), **fields)
        arguments, env, stdin = json.loads((workspace.directory / "seen").read_text())
        return arguments, env, stdin

    return started


def settings_of(arguments: list[str]) -> dict[str, Any]:
    """Give the settings that Codex was told, read as it reads them."""
    told = [arguments[at + 1] for at, argument in enumerate(arguments) if argument == "-c"]
    return tomllib.loads("\n".join(told))


@pytest.mark.parametrize("kind", KINDS)
class TestEveryCli:
    @pytest.mark.parametrize("prompt", ["two\nlines", "--help", "- x" * 70_000])
    def test_the_prompt_comes_on_stdin_whatever_it_is(self, started, kind, prompt):
        arguments, _, stdin = started(kind, prompt=prompt)
        assert (stdin, prompt in arguments) == (prompt, False)

    def test_only_the_named_secrets_of_the_worker_are_passed_on(self, started, kind, monkeypatch):
        for name in (KEYS[kind], "GATEWAY_TOKEN", "FARM_BROKER_URL", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, f"value of {name}")
        values = {
            f"value of {name}" for name in ("FARM_BROKER_URL", "AWS_SECRET_ACCESS_KEY", "GATEWAY_TOKEN")
        }
        _, env, _ = started(kind)
        assert env[KEYS[kind]] == f"value of {KEYS[kind]}"
        assert values.isdisjoint(env.values())
        _, env, _ = started(kind, options={"secrets": ["GATEWAY_TOKEN"]})
        assert env["GATEWAY_TOKEN"] == "value of GATEWAY_TOKEN"
        assert f"value of {KEYS[kind]}" not in env.values()

    def test_what_the_cli_reads_and_writes_is_the_trials_own(self, started, kind, workspace):
        _, env, _ = started(kind)
        own = {
            "codex": ("CODEX_HOME",),
            "gemini": (
                "GEMINI_CLI_HOME",
                "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
                "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
            ),
            "opencode": ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
        }[kind]
        assert all(Path(env[name]).is_relative_to(workspace.root) for name in (*own, "HOME", "TMPDIR"))

    def test_model_and_more_arguments_reach_the_cli(self, started, kind):
        arguments, _, _ = started(kind, model="some/model", options={"extra_args": ["--more", "x"]})
        assert arguments[arguments.index("--model") + 1] == "some/model"
        assert arguments[arguments.index("--more") + 1] == "x"

    def test_no_proxy_is_used_for_the_machine_itself(self, started, kind):
        _, env, _ = started(kind, model="some/model", options={"base_url": "http://127.0.0.1:8080/x"})
        assert "127.0.0.1" in env["NO_PROXY"]

    def test_the_transcript_says_what_ran(self, run, kind, workspace):
        seen: list[ToolCall] = []
        transcript = run(kind, play(kind), model="some/model", watch=seen)
        assert (transcript.agent, transcript.agent_version, transcript.exit_code) == ("tester", "9.9.9", 0)
        assert transcript.model == ("gemini-2.5-flash" if kind == "gemini" else "some/model")
        assert transcript.final_text == "All done."
        assert transcript.duration_ms is not None
        assert {call.id for call in seen} == {call.id for call in transcript.tool_calls()}
        assert (workspace.config / "stream.jsonl").read_bytes() == (
            CAPTURES / kind / "works.jsonl"
        ).read_bytes()

    def test_what_the_cli_does_not_say_it_cost_is_told_by_the_authors_prices(self, run, kind):
        prices = {"some/*": Price(input=1, output=10), "gemini-2.5-flash": Price(input=1, output=10)}
        transcript = run(kind, play(kind), model="some/model", changes={"prices": prices})
        # 240 tokens went in, 160 more from a cache at a tenth; Gemini's 12 that were thought count as said.
        told = {"codex": 656e-6, "gemini": 776e-6, "opencode": transcript.cost_usd}
        assert transcript.cost_usd == pytest.approx(told[kind])
        unknown = run(kind, play(kind), model="some/model").cost_usd
        assert (unknown is None) == (kind != "opencode")

    def test_success_with_another_exit_code_than_0_is_no_success(self, run, kind):
        with pytest.raises(SessionError, match="exit code 3: oops") as error:
            run(kind, play(kind), "echo oops >&2; exit 3")
        assert error.value.kind == "crashed"

    def test_exit_code_0_without_an_end_is_no_success(self, run, kind):
        for commands in ((play(kind, "killed"),), ("true",)):
            with pytest.raises(SessionError) as error:
                run(kind, *commands)
            assert (error.value.kind, error.value.retryable) == ("no_result", True)

    def test_one_that_was_killed_says_so(self, run, kind):
        with pytest.raises(SessionError) as error:
            run(kind, play(kind, "killed"), 'printf \'{"type": "it\'; kill -9 $$')
        assert (error.value.kind, error.value.retryable) == ("killed", True)

    def test_an_error_in_the_stream_says_more_than_the_exit_code(self, run, kind):
        for exit_code in (0, 1, 145):  # Gemini ends with the last eight bits of the status
            with pytest.raises(SessionError) as error:
                run(kind, play(kind, "status_401"), f"exit {exit_code}")
            assert (error.value.kind, error.value.retryable) == ("authentication", False)

    def test_a_line_that_can_not_be_read_may_have_been_a_call(self, run, kind):
        with pytest.raises(SessionError) as error:
            run(kind, play(kind, "killed"), "echo not json", play(kind))
        assert error.value.kind == "bad_output"

    def test_a_time_out_wins_over_all_that_was_printed(self, run, kind):
        with pytest.raises(SessionError) as error:
            run(kind, play(kind), "sleep 300", timeout_seconds=0.5)
        assert error.value.kind == "timeout"

    def test_secrets_are_in_no_part_of_the_record(self, run, kind, monkeypatch, workspace):
        monkeypatch.setenv(KEYS[kind], "sk-secret-0123")
        written = "s/wc -l README.md/sk-secret-0123/g"
        said = "s/All done/sk-secret-0123/; s/All /sk-sec/; s/done/ret-0123/"  # Gemini says it in two pieces
        logs: dict[str, bytes] = {}
        transcript = run(
            kind, f"{play(kind)} | sed '{written}; {said}'", changes={"keep_log": logs.__setitem__}
        )
        assert transcript.final_text == f"[{KEYS[kind]}]."
        commands = [call.input["command"] for call in transcript.tool_calls() if call.tool == "Bash"]
        assert f"[{KEYS[kind]}]; exit 3" in commands
        # One in which it lies in pieces is not kept at all.
        assert [*logs] == ([] if kind == "gemini" else ["stream.jsonl"])
        kept = (workspace.config / "stream.jsonl").read_bytes()
        assert kept == logs.get("stream.jsonl", b"")
        assert b"sk-sec" not in kept
        with pytest.raises(SessionError) as error:
            run(kind, f'echo "bad key ${KEYS[kind]}" >&2; exit 1')
        assert f"bad key [{KEYS[kind]}]" in str(error.value)

    def test_without_a_cli_the_session_and_the_list_say_what_to_do(self, make_session, kind, monkeypatch):
        monkeypatch.setenv("PATH", "/nonexistent")
        monkeypatch.delenv(f"FARM_{kind.upper()}_PATH", raising=False)
        with pytest.raises(SessionError, match="npm install") as error:
            AGENTS[kind].run(make_session(spec=AGENT_SPECS[kind]()))  # type: ignore[call-arg]
        assert (error.value.kind, error.value.retryable) == ("agent_unavailable", False)
        found = AGENTS[kind].availability()
        assert (found.usable, "npm install" in (found.reason or "")) == (False, True)

    def test_the_variable_names_the_cli(self, kind, program, monkeypatch):
        monkeypatch.setenv(f"FARM_{kind.upper()}_PATH", program())
        assert AGENTS[kind].availability().version == "9.9.9"


class TestCodex:
    def test_the_session_is_hermetic_and_asks_nobody(self, started):
        arguments, _, _ = started("codex")
        assert (arguments[0], arguments[-1]) == ("exec", "-")
        assert {"--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"} <= set(
            arguments
        )
        settings = settings_of(arguments)
        assert (settings["analytics"]["enabled"], settings["check_for_update_on_startup"]) == (False, False)
        assert "model_provider" not in settings

    def test_its_key_is_the_first_secret_that_is_set(self, started, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "openai's")
        assert started("codex")[1]["CODEX_API_KEY"] == "openai's"
        monkeypatch.setenv("CODEX_API_KEY", "codex's")
        assert started("codex")[1]["CODEX_API_KEY"] == "codex's"

    def test_another_api_is_another_provider_with_that_key(self, started, monkeypatch):
        monkeypatch.setenv("GATEWAY_TOKEN", "x")
        options = {"base_url": 'https://gateway.example/"v1"', "secrets": ["OTHER", "GATEWAY_TOKEN"]}
        arguments, env, _ = started("codex", options=options)
        settings = settings_of(arguments)
        assert settings["model_provider"] == "farm"
        assert settings["model_providers"]["farm"] == {
            "name": "farm",
            "base_url": 'https://gateway.example/"v1"',
            "wire_api": "responses",
            "env_key": "GATEWAY_TOKEN",
        }
        assert "CODEX_API_KEY" not in env

    def test_a_judge_may_only_answer_and_is_told_in_which_form(self, started):
        schema = {"type": "object"}
        arguments, _, _ = started("codex", changes={"tools": False, "answer_schema": schema})
        assert "--dangerously-bypass-approvals-and-sandbox" not in arguments
        assert arguments[arguments.index("--sandbox") + 1] == "read-only"
        assert json.loads(Path(arguments[arguments.index("--output-schema") + 1]).read_text()) == schema


class TestGemini:
    def settings(self, started: Started, **fields: Any) -> dict[str, Any]:
        _, env, _ = started("gemini", **fields)
        settings: dict[str, Any] = json.loads(
            Path(env["GEMINI_CLI_HOME"], ".gemini/settings.json").read_text()
        )
        return settings

    def test_the_session_is_hermetic_and_asks_nobody(self, started):
        arguments, env, _ = started("gemini", options={"base_url": "https://gateway.example"})
        assert {"--yolo", "--skip-trust", "stream-json"} <= set(arguments)
        assert env["GOOGLE_GEMINI_BASE_URL"] == "https://gateway.example"
        settings = self.settings(started)
        assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"
        assert (settings["telemetry"]["enabled"], settings["privacy"]["usageStatisticsEnabled"]) == (
            False,
            False,
        )
        assert settings["general"] == {"enableAutoUpdate": False, "enableAutoUpdateNotification": False}
        assert {"model", "tools"}.isdisjoint(settings)

    def test_limits_are_settings_and_a_cases_own_wins(self, started):
        options = {"max_turns": 9, "max_retries": 2, "env": {"GOOGLE_GENAI_USE_VERTEXAI": "true"}}
        settings = self.settings(started, options=options)
        assert (settings["model"]["maxSessionTurns"], settings["general"]["maxAttempts"]) == (9, 3)
        assert settings["security"]["auth"]["selectedType"] == "vertex-ai"
        assert self.settings(started, options=options, max_turns=4)["model"]["maxSessionTurns"] == 4

    def test_a_judge_has_no_tools(self, started):
        assert self.settings(started, changes={"tools": False})["tools"] == {"core": ["none"]}

    def test_files_of_the_input_can_be_read(self, started, tmp_path, workspace):
        (tmp_path / "order.md").write_text("# Order 1001")
        part = {"type": "file", "value": "order.md"}
        arguments, _, stdin = started("gemini", input_messages=(Message(role="user", content=[part]),))
        assert "# Order 1001" in stdin
        assert arguments[arguments.index("--include-directories") + 1] == f"{workspace.config}/files"


class TestOpencode:
    def config(self, started: Started, **fields: Any) -> dict[str, Any]:
        config: dict[str, Any] = json.loads(started("opencode", **fields)[1]["OPENCODE_CONFIG_CONTENT"])
        return config

    def test_the_session_is_hermetic_and_asks_nobody(self, started):
        arguments, env, _ = started("opencode")
        assert arguments[:4] == ["run", "--format", "json", "--title=suite::case"]
        assert "--auto" in arguments
        assert env["OPENCODE_DISABLE_AUTOUPDATE"] == env["OPENCODE_DISABLE_MODELS_FETCH"] == "1"
        assert self.config(started) == {"autoupdate": False, "share": "disabled"}

    def test_another_api_is_that_of_the_models_provider(self, started, run):
        options = {"base_url": "https://gateway.example/v1"}
        config = self.config(started, model="acme/model/1", options=options)
        assert config["provider"] == {"acme": {"options": {"baseURL": "https://gateway.example/v1"}}}
        for model in (None, "model"):
            with pytest.raises(SessionError, match="must name it") as error:
                run("opencode", play("opencode"), model=model, options=options)
            assert (error.value.kind, error.value.retryable) == ("bad_request", False)

    def test_a_judge_has_no_tools(self, started):
        arguments, env, _ = started("opencode", changes={"tools": False})
        assert "--auto" not in arguments
        assert json.loads(env["OPENCODE_CONFIG_CONTENT"])["permission"] == {"*": "deny"}
