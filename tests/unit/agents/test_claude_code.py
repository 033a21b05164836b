"""The claude agent on a program that only plays the CLI: how it is started, and every way it can end.

What the real one does is in tests/e2e/test_claude_cli.py.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from farm.agents import headless
from farm.agents.base import Session
from farm.agents.claude_code import ClaudeAgent
from farm.agents.claude_stream import tool_calls_of_line
from farm.errors import InputError, SessionError
from farm.model.agent import ClaudeSpec
from farm.model.messages import Message, ToolCall
from farm.model.prices import Price
from farm.model.transcript import Transcript
from farm.settings import load_settings

FIXTURES = Path(__file__).parent / "fixtures"

Failure = Callable[..., SessionError]


def line(**fields: Any) -> str:
    return f"printf '%s\\n' {shlex.quote(json.dumps(fields))}"


def call(call_id: str, tool: str = "Bash", parent: str | None = None, **tool_input: Any) -> str:
    block = {"type": "tool_use", "id": call_id, "name": tool, "input": tool_input}
    message = {"id": f"msg_{call_id}", "content": [block]}
    return line(type="assistant", message=message, parent_tool_use_id=parent)


def answer(call_id: str, output: str) -> str:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
    return line(type="user", message={"content": [block]})


INIT = line(type="system", subtype="init", model="m", claude_code_version="9.9")
END = line(type="result", subtype="success", is_error=False, result="done", total_cost_usd=0.5, num_turns=2)


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., str]:
    """Give a function that writes a shell script in the CLI's place."""

    def write(*commands: str) -> str:
        path = tmp_path / "claude"
        path.write_text("\n".join(["#!/bin/sh", *commands, ""]))
        path.chmod(0o755)
        return str(path)

    return write


@pytest.fixture
def run(make_session: Callable[..., Session], program: Callable[..., str]) -> Callable[..., Transcript]:
    """Give a function that runs a session of a script."""

    def run(
        *commands: str, prompt: str = "go", options: dict[str, Any] | None = None, **fields: Any
    ) -> Transcript:
        spec = ClaudeSpec(executable=program(*commands), **(options or {}))
        fields.setdefault("input_messages", (Message(role="user", content=prompt),))
        return ClaudeAgent().run(make_session(spec=spec, **fields))

    return run


@pytest.fixture
def started(run, workspace) -> Callable[..., tuple[list[str], dict[str, str], str]]:
    """Give a function that says with which arguments, environment and input the CLI was started."""

    def started(**fields: Any) -> tuple[list[str], dict[str, str], str]:
        python = shlex.quote(sys.executable)
        show = "import json, os, sys; json.dump([sys.argv[1:], dict(os.environ), sys.stdin.read()], open('seen', 'w'))"
        run(f'{python} -c {shlex.quote(show)} "$@"', END, **fields)
        arguments, env, stdin = json.loads((workspace.directory / "seen").read_text())
        return arguments, env, stdin

    return started


@pytest.fixture
def failure(run) -> Failure:
    """Give a function that runs a session which does not end properly."""

    def failure(*commands: str, **fields: Any) -> SessionError:
        with pytest.raises(SessionError) as error:
            run(*commands, **fields)
        return error.value

    return failure


def value_of(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


class TestAnswering:
    """A session that may only answer, as a judge does."""

    SCHEMA = {"type": "object"}

    def ask(self, make_session, program, *commands: str, **options: Any) -> Transcript:
        spec = ClaudeSpec(executable=program(*commands), **options)
        return ClaudeAgent().run(replace(make_session(spec=spec), tools=False, answer_schema=self.SCHEMA))

    def test_it_has_no_tools_and_is_told_the_form_of_its_answer(self, make_session, program, workspace):
        # Of the options for tools none is passed on: a server of the workspace's is not there.
        options = {"allowed_tools": ("Bash",), "mcp_config": ".mcp.json", "extra_args": ("--effort", "low")}
        self.ask(make_session, program, 'printf "%s\\n" "$@" > seen', END, **options)
        arguments = (workspace.directory / "seen").read_text().split("\n")
        assert value_of(arguments, "--tools") == ""
        assert json.loads(value_of(arguments, "--json-schema")) == self.SCHEMA
        assert value_of(arguments, "--system-prompt").startswith("Answer what you are asked.")
        assert value_of(arguments, "--effort") == "low"
        assert {"--allowedTools", "--mcp-config", "Bash"}.isdisjoint(arguments)

    def test_its_answer_is_what_it_gave_in_that_form(self, make_session, program):
        end = {"subtype": "success", "is_error": False, "result": "There you are.", "total_cost_usd": 0.5}
        answered = line(type="result", structured_output={"score": 8, "why": "für"}, **end)
        assert self.ask(make_session, program, answered).final_text == '{"score": 8, "why": "für"}'
        assert self.ask(make_session, program, line(type="result", **end)).final_text == "There you are."


class TestStarting:
    def test_the_prompt_comes_first_and_nothing_on_stdin(self, started):
        arguments, _, stdin = started(prompt="two\nlines")
        assert (arguments[:2], stdin) == (["-p", "two\nlines"], "")

    @pytest.mark.parametrize("prompt", ["-p is no option", "--help", "x" * 200_000])
    def test_a_prompt_that_can_not_be_an_argument_comes_on_stdin(self, started, prompt):
        arguments, _, stdin = started(prompt=prompt)
        assert (stdin, prompt in arguments, arguments[1]) == (prompt, False, "--session-id")

    def test_the_session_is_hermetic_by_default(self, started, workspace):
        arguments, env, _ = started()
        assert value_of(arguments, "--output-format") == "stream-json"
        assert {"--verbose", "--strict-mcp-config"} <= set(arguments)
        assert value_of(arguments, "--setting-sources") == "project"
        assert value_of(arguments, "--permission-mode") == "bypassPermissions"
        assert str(uuid.UUID(value_of(arguments, "--session-id"))) == value_of(arguments, "--session-id")
        assert env["CLAUDE_CONFIG_DIR"] == f"{workspace.config}/claude"
        assert env["HOME"] == str(workspace.home)
        assert env["TMPDIR"] == env["CLAUDE_CODE_TMPDIR"] == str(workspace.tmp)
        assert env["CLAUDE_CODE_DISABLE_AUTO_MEMORY"] == env["CLAUDE_CODE_DISABLE_BUNDLED_SKILLS"] == "1"
        assert env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"
        assert env.get("IS_SANDBOX") == ("1" if os.geteuid() == 0 else None)
        assert {"--model", "--max-turns", "--max-budget-usd", "--mcp-config"}.isdisjoint(arguments)

    def test_every_option_reaches_the_cli(self, started, workspace):
        options = {
            "permission_mode": "acceptEdits",
            "allowed_tools": ["Read", "Bash(git log *)"],
            "disallowed_tools": ["Bash(rm:*)"],
            "append_system_prompt": "- be brief",
            "setting_sources": ["project", "local"],
            "mcp_config": {"mcpServers": {"demo": {"command": "demo"}}},
            "extra_args": ["--effort", "low"],
            "base_url": "https://gateway.example/api",
            "api_timeout_seconds": 2.5,
            "max_retries": 1,
        }
        arguments, env, _ = started(options=options, model="some-model")
        assert value_of(arguments, "--permission-mode") == "acceptEdits"
        at = arguments.index("--allowedTools")
        assert arguments[at : at + 3] == ["--allowedTools", "Read", "Bash(git log *)"]
        assert value_of(arguments, "--disallowedTools") == "Bash(rm:*)"
        assert value_of(arguments, "--append-system-prompt") == "- be brief"
        assert value_of(arguments, "--setting-sources") == "project,local"
        assert value_of(arguments, "--effort") == "low"
        assert value_of(arguments, "--model") == "some-model"
        assert json.loads(Path(value_of(arguments, "--mcp-config")).read_text()) == options["mcp_config"]
        assert env["ANTHROPIC_BASE_URL"] == "https://gateway.example/api"
        assert (env["API_TIMEOUT_MS"], env["CLAUDE_CODE_MAX_RETRIES"]) == ("2500", "1")

    def test_a_case_sets_its_own_limits(self, started):
        options = {"max_turns": 9, "max_budget_usd": 3}
        arguments, _, _ = started(options=options)
        assert [value_of(arguments, name) for name in ("--max-turns", "--max-budget-usd")] == ["9", "3.0"]
        arguments, _, _ = started(options=options, max_turns=4, max_cost_usd=0.25)
        assert [value_of(arguments, name) for name in ("--max-turns", "--max-budget-usd")] == ["4", "0.25"]

    def test_an_mcp_file_is_one_of_the_workspace(self, started, failure, workspace):
        (workspace.directory / ".mcp.json").write_text("{}")
        arguments, _, _ = started(options={"mcp_config": ".mcp.json"})
        assert value_of(arguments, "--mcp-config") == f"{workspace.directory}/.mcp.json"
        error = failure(END, options={"mcp_config": "other.json"})
        assert (error.kind, error.retryable) == ("missing_file", False)

    def test_files_of_the_input_can_be_read(self, started, tmp_path, workspace):
        (tmp_path / "order.md").write_text("# Order 1001")
        part = {"type": "file", "value": "order.md"}
        arguments, _, _ = started(input_messages=(Message(role="user", content=[part]),))
        assert "# Order 1001" in arguments[1]
        assert value_of(arguments, "--add-dir") == f"{workspace.config}/files"

    def test_only_the_named_secrets_of_the_worker_are_passed_on(self, started, monkeypatch):
        for name in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "GATEWAY_TOKEN", "FARM_BROKER_URL"):
            monkeypatch.setenv(name, f"value of {name}")
        secret = {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "GATEWAY_TOKEN", "FARM_BROKER_URL"}
        assert secret & started()[1].keys() == {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"}
        assert secret & started(options={"secrets": ["GATEWAY_TOKEN"]})[1].keys() == {"GATEWAY_TOKEN"}
        assert secret & started(options={"secrets": []})[1].keys() == set()

    def test_no_proxy_is_used_for_the_machine_itself(self, started, monkeypatch):
        monkeypatch.setenv("NO_PROXY", "example.org")
        env = started(options={"base_url": "http://127.0.0.1:8080/x"})[1]
        assert env["NO_PROXY"] == env["no_proxy"] == "example.org,127.0.0.1,localhost,::1"

    def test_without_a_cli_the_session_says_what_to_do(self, make_session, monkeypatch):
        monkeypatch.setenv("PATH", "/nonexistent")
        monkeypatch.delenv("FARM_CLAUDE_PATH", raising=False)
        for spec, said in (
            (ClaudeSpec(), "npm install"),
            (ClaudeSpec(executable="/no/claude"), "/no/claude"),
        ):
            with pytest.raises(SessionError, match=said) as error:
                ClaudeAgent().run(make_session(spec=spec))
            assert (error.value.kind, error.value.retryable) == ("agent_unavailable", False)


class TestReading:
    def test_the_transcript_has_what_the_stream_says(self, run):
        transcript = run(INIT, call("a", command="ls"), answer("a", "x.txt"), END, model="m2")
        assert (transcript.agent, transcript.agent_version, transcript.model) == ("tester", "9.9", "m")
        assert (transcript.final_text, transcript.cost_usd, transcript.num_turns) == ("done", 0.5, 2)
        assert transcript.exit_code == 0
        (made,) = transcript.tool_calls()
        assert (made.tool, made.input, made.output) == ("Bash", {"command": "ls"}, "x.txt")

    def test_calls_of_two_messages_with_the_same_id_are_two_and_a_line_told_twice_is_one(self, run):
        def used(message: str, path: str) -> str:
            block = {"type": "tool_use", "id": "call_0", "name": "Read", "input": {"file_path": path}}
            return line(type="assistant", message={"id": message, "content": [block]})

        one, two = used("msg_1", "a"), used("msg_2", "b")
        transcript = run(INIT, one, one, answer("call_0", "A"), two, answer("call_0", "B"), END)
        made = [(call.input, call.output) for call in transcript.tool_calls()]
        assert made == [({"file_path": "a"}, "A"), ({"file_path": "b"}, "B")]

    def test_a_call_has_the_time_that_it_took(self, run):
        transcript = run(call("a"), "sleep 0.2", answer("a", ""), END)
        (made,) = transcript.tool_calls()
        assert made.duration_ms is not None
        assert 150 < made.duration_ms < 5000

    def test_tool_calls_are_told_once_each_while_the_session_goes_on(self, make_session, program, workspace):
        seen: list[ToolCall] = []
        go_on = workspace.directory / "go-on"

        def watch(made: ToolCall) -> None:
            seen.append(made)
            go_on.touch()

        first = call("a", command="ls")
        script = program(first, first, "until [ -e go-on ]; do sleep 0.01; done", call("b", "Read", "a"), END)
        session = make_session(spec=ClaudeSpec(executable=script))
        object.__setattr__(session, "on_tool_call", watch)
        transcript = ClaudeAgent().run(session)
        assert [(made.tool, made.id, made.parent_id) for made in seen] == [
            ("Bash", "a", None),
            ("Read", "b", "a"),
        ]
        assert [made.parent_id for made in transcript.tool_calls()] == [None, "a"]

    def test_no_line_makes_the_live_view_fail(self):
        blocks = [None, {"type": "tool_use"}, {"type": "tool_use", "id": 1, "name": "Read"}]
        lines: list[Any] = [
            None,
            [],
            {},
            {"type": "assistant"},
            {"type": "assistant", "message": {"content": blocks}},
        ]
        assert [list(tool_calls_of_line(data)) for data in lines] == [[]] * 5

    def test_what_it_cost_is_as_the_author_and_the_cli_say_and_doubtful_figures_are_told(
        self, make_session, program
    ):
        def costs(own: dict[str, Price], **models: float) -> tuple[float | None, tuple[str, ...]]:
            used = {
                model.replace("_", "-"): {"inputTokens": 1_000_000, "outputTokens": 0, "costUSD": told}
                for model, told in models.items()
            }
            end = line(
                type="result",
                subtype="success",
                is_error=False,
                result="x",
                total_cost_usd=sum(models.values()),
                modelUsage=used,
            )
            session = make_session(spec=ClaudeSpec(executable=program(INIT, end)))
            transcript = ClaudeAgent().run(replace(session, prices=own))
            return transcript.cost_usd, transcript.warnings

        assert costs({}, claude_sonnet_4_5=3.0) == (3.0, ())
        assert costs({"claude-sonnet-4-5": Price(input=1, output=1)}, claude_sonnet_4_5=3.0, mine=5.0) == (
            6.0,
            (
                'the price of the model "mine" is not known: $5.0000 is what Claude Code makes of it, '
                "and may be a guess; `prices` in farm.yaml decide",
            ),
        )
        assert costs({"mine": Price(input=2, output=1)}, mine=5.0) == (2.0, ())
        cost_usd, (doubt,) = costs({}, claude_haiku_4_5=5.0)
        assert cost_usd == 5.0
        assert 'says that "claude-haiku-4-5" cost $5.0000; by list prices it is $1.0000' in doubt

    def test_denials_are_recorded(self, run):
        stream = (FIXTURES / "stream_denied.jsonl").resolve()
        assert [denial.tool for denial in run(f"cat {stream}").permission_denials] != []

    def test_the_raw_stream_is_kept_beside_the_session_log(self, run, workspace):
        run(INIT, END)
        kept = (workspace.config / "stream.jsonl").read_text().splitlines()
        assert [json.loads(line)["type"] for line in kept] == ["system", "result"]

    def test_a_link_that_the_agent_puts_in_the_streams_place_is_not_followed(self, run, workspace, tmp_path):
        target = tmp_path / "precious"
        target.write_text("precious")
        run(f"ln -sf {target} {workspace.config}/stream.jsonl", END)
        assert target.read_text() == "precious"

    def test_secrets_are_in_no_part_of_the_record(self, run, make_session, program, monkeypatch, workspace):
        monkeypatch.setenv("ANTHROPIC_API_KEY", 'sk-"secret"-0123')
        seen: list[ToolCall] = []
        secret = os.environ["ANTHROPIC_API_KEY"]
        lines = (call("a", command=f"echo {secret}"), answer("a", secret), line(type="result", subtype="success", is_error=False, result=secret))  # fmt: skip
        transcript = run(*lines, watch=seen)
        for record in (
            transcript.model_dump_json(),
            repr(seen),
            (workspace.config / "stream.jsonl").read_text(),
        ):
            assert "0123" not in record
            assert "[ANTHROPIC_API_KEY]" in record

    def test_a_secret_that_comes_in_two_pieces_is_in_no_part_of_the_record(self, run, monkeypatch, workspace):
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-0123")
        seen: list[ToolCall] = []
        first, second = call("a", command="echo sk-secret-0123").split("ret-")
        pieces = (f"{first}ret-'".replace("\\n", "", 1), "sleep 0.3", f"printf '%s\\n' '{second}")
        transcript = run(*pieces, answer("a", "ok"), END, watch=seen)
        record = transcript.model_dump_json() + repr(seen) + (workspace.config / "stream.jsonl").read_text()
        assert record.count("echo [ANTHROPIC_API_KEY]") == 3
        assert "sk-" not in record
        assert "0123" not in record


class TestLogs:
    """What the CLI itself wrote down, for people who want to know exactly what happened."""

    KEY = 'sk-"secret"-0123'

    @pytest.fixture
    def logs_of(self, make_session, program, monkeypatch) -> Callable[..., dict[str, bytes]]:
        """Give a function that runs a session, however it ends, and gives its logs."""
        monkeypatch.setenv("ANTHROPIC_API_KEY", self.KEY)

        def logs_of(*commands: str, **fields: Any) -> dict[str, bytes]:
            logs: dict[str, bytes] = {}
            session = make_session(spec=ClaudeSpec(executable=program(*commands)), **fields)
            with suppress(SessionError):
                ClaudeAgent().run(replace(session, keep_log=logs.__setitem__))
            return logs

        return logs_of

    @pytest.fixture
    def log_of_session(self) -> str:
        """Give the part of a script that finds the place of the CLI's own log, as `$log`."""
        find = 'while [ "$1" != --session-id ]; do shift; done; log="$CLAUDE_CONFIG_DIR/projects/-tmp-x/$2"'
        return f'{find}; mkdir -p "$log/subagents"'

    @pytest.mark.parametrize("end", [END, "exit 3", "kill -9 $$", "sleep 60"])
    def test_the_stream_is_kept_however_the_session_ends(self, logs_of, end):
        logs = logs_of(INIT, answer("a", self.KEY), end, timeout_seconds=1 if "sleep" in end else 10)
        assert [*logs] == ["stream.jsonl"]
        first, second, *_ = map(json.loads, logs["stream.jsonl"].splitlines())
        assert first["subtype"] == "init"
        assert second["message"]["content"][0]["content"] == "[ANTHROPIC_API_KEY]"

    def test_the_clis_own_log_has_its_subagents_lines_in_their_place(self, logs_of, log_of_session):
        def written(path: str, *lines: dict[str, Any]) -> str:
            return "\n".join(f'{line(**fields)} >> "$log{path}"' for fields in lines)

        logs = logs_of(
            log_of_session,
            written(
                ".jsonl",
                {"n": 1, "timestamp": "2026-01-01T00:00:01Z"},
                {"n": 2},
                {"n": 5, "timestamp": "2026-01-01T00:00:03Z", "text": self.KEY},
            ),
            written("/subagents/agent-a.jsonl", {"n": 3, "timestamp": "2026-01-01T00:00:02Z"}),
            """printf '{"n": 4, "cut' >> "$log/subagents/agent-a.jsonl"; printf '{"n": 6' >> "$log.jsonl" """,
            END,
        )
        *whole, last = logs["session.jsonl"].splitlines()
        assert last == b'{"n": 6'
        assert whole.pop(3) == b'{"n": 4, "cut'
        assert [json.loads(each)["n"] for each in whole] == [1, 2, 3, 5]
        assert json.loads(whole[-1])["text"] == "[ANTHROPIC_API_KEY]"

    def test_what_subagents_are_said_to_have_written_fills_no_memory(self, logs_of, log_of_session):
        own = """printf '{"n": 1}\\n' > "$log.jsonl" """
        many = 'for n in 1 2 3 4; do truncate -s 60M "$log/subagents/agent-$n.jsonl"; done'
        logs = logs_of(log_of_session, own, many, END)
        assert logs["session.jsonl"].startswith(b'{"n": 1}\n')
        assert 60 * 2**20 <= len(logs["session.jsonl"]) < 64 * 2**20

    @pytest.mark.parametrize(
        "link",
        [
            'ln -s "$PRECIOUS/file" "$log.jsonl"',
            'cp -r "$PRECIOUS" "$HOME"; rm -r "${log%/*}"; ln -s "$PRECIOUS" "${log%/*}"; cp "$PRECIOUS/file" "$log.jsonl"',
            'mkfifo "$log.jsonl"',
            'ln -s "$log.jsonl" "$log.jsonl"',
            'rm -r "${log%/*/*}/projects"; ln -s projects "${log%/*/*}/projects"',
            'truncate -s 1T "$log.jsonl"',
        ],
    )
    def test_what_is_no_plain_file_of_the_session_is_no_log(self, logs_of, log_of_session, tmp_path, link):
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious/file").write_text("precious\n")
        logs = logs_of(log_of_session, link, END, env={"PRECIOUS": str(tmp_path / "precious")})
        assert [*logs] == ["stream.jsonl"]


class TestEnding:
    @pytest.mark.parametrize(
        ("end", "kind", "retryable"),
        [
            ({"is_error": True, "api_error_status": 529}, "api_overloaded", True),
            ({"is_error": True, "api_error_status": 429}, "rate_limited", True),
            ({"is_error": True, "api_error_status": 500}, "api_error", True),
            ({"is_error": True, "api_error_status": 401}, "authentication", False),
            ({"is_error": True, "api_error_status": 403}, "authentication", False),
            ({"is_error": True, "api_error_status": 400}, "bad_request", False),
            ({"is_error": True, "api_error_status": 413}, "bad_request", False),
            ({"is_error": True, "stop_reason": "refusal"}, "refusal", False),
            ({"is_error": True, "api_error_status": 200}, "api_error", True),
            ({"is_error": True, "api_error_status": ["?"]}, "api_error", True),
            ({"is_error": True}, "api_error", True),
            ({"subtype": "error_max_turns", "is_error": True}, "max_turns", False),
            ({"subtype": "error_max_budget_usd", "is_error": True}, "max_budget", False),
            ({"subtype": "error_during_execution", "is_error": True}, "crashed", True),
        ],
    )
    def test_an_error_in_the_result_is_classified(self, failure, end, kind, retryable):
        result = line(**{"type": "result", "subtype": "success", "result": "why it failed", **end})
        for commands in ((result, "exit 1"), (result,)):  # whatever the exit code
            error = failure(INIT, *commands)
            assert (error.kind, error.retryable) == (kind, retryable)
        assert "why it failed" in str(error)

    @pytest.mark.parametrize(
        ("word", "kind", "retryable"),
        [
            ("authentication_failed", "authentication", False),
            ("billing_error", "authentication", False),
            ("invalid_request", "bad_request", False),
            ("max_output_tokens", "max_tokens", False),
            ("rate_limit", "rate_limited", True),
            ("server_error", "api_error", True),
        ],
    )
    def test_without_a_status_the_agents_last_line_says_what_it_was(self, failure, word, kind, retryable):
        said = line(type="assistant", error=word, message={"id": "x", "content": "Not logged in"})
        result = line(type="result", subtype="success", is_error=True, result="Not logged in")
        error = failure(said, result, "exit 1")
        assert (error.kind, error.retryable) == (kind, retryable)

    def test_a_session_that_went_on_after_its_last_result_has_no_end(self, failure, run):
        assert failure(call("a"), answer("a", "x"), END, call("b")).kind == "no_result"
        late = run(call("a"), END, call("b", parent="a"))  # its subagent may
        assert [made.id for made in late.tool_calls()] == ["a", "b"]

    def test_success_with_another_exit_code_than_0_is_no_success(self, failure):
        error = failure(INIT, END, "echo oops >&2; exit 3")
        assert (error.kind, error.retryable) == ("crashed", True)
        assert "exit code 3: oops" in str(error)

    def test_exit_code_0_without_a_result_is_no_success(self, failure):
        for commands in ((INIT,), ("true",)):
            error = failure(*commands)
            assert (error.kind, error.retryable) == ("no_result", True)

    def test_an_end_without_a_result_says_what_stderr_says(self, failure):
        error = failure(INIT, "echo no such option >&2; exit 1")
        assert (error.kind, str(error)) == ("crashed", "the command ended with exit code 1: no such option")

    @pytest.mark.parametrize("commands", ["kill -9 $$", "exit 143", 'printf \'{"type": "assi\'; kill -9 $$'])
    def test_one_that_was_killed_says_so(self, failure, commands):
        error = failure(INIT, commands)
        assert (error.kind, error.retryable) == ("killed", True)

    def test_a_program_that_can_not_run_here_is_not_tried_again(self, failure):
        error = failure("exec /nonexistent/node")
        assert (error.kind, error.retryable) == ("agent_unavailable", False)

    def test_a_time_out_wins_over_all_that_was_printed(self, failure):
        error = failure(INIT, END, "sleep 300", timeout_seconds=0.5)
        assert (error.kind, error.retryable) == ("timeout", True)
        assert "0.5 s" in str(error)

    def test_a_stopped_session_is_stopped(self, make_session, program):
        session = make_session(spec=ClaudeSpec(executable=program("sleep 300")))
        threading.Timer(0.3, session.stop.set).start()
        with pytest.raises(SessionError) as error:
            ClaudeAgent().run(session)
        assert error.value.kind == "stopped"

    @pytest.mark.parametrize("garbage", ["echo not json", "printf '\\377\\n'", "echo '[1]'"])
    def test_a_line_that_can_not_be_read_may_have_been_a_call(self, failure, garbage):
        error = failure(INIT, garbage, END)
        assert (error.kind, error.retryable) == ("bad_output", True)

    def test_a_call_without_an_id_can_not_be_judged(self, failure):
        message = {"id": "m", "content": [{"type": "tool_use", "name": "Bash"}]}
        assert failure(line(type="assistant", message=message), END).kind == "bad_output"

    def test_a_stream_beyond_all_measure_is_not_half_read(self, failure, monkeypatch):
        monkeypatch.setattr(headless, "MAX_STREAM_BYTES", 1000)
        error = failure(END, "head -c 5000 /dev/zero | tr '\\0' ' '", "echo")
        assert (error.kind, error.retryable) == ("bad_output", False)

    def test_errors_hold_no_secret(self, failure, monkeypatch):
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-0123")
        assert "sk-secret" not in str(failure('echo "bad key $ANTHROPIC_API_KEY" >&2; exit 1'))
        refused = line(type="result", subtype="success", is_error=True, result="bad key sk-secret-0123")
        assert str(failure(refused, "exit 1")) == "bad key [ANTHROPIC_API_KEY]"


class TestAvailability:
    def test_the_cli_is_found_in_path_or_by_the_variable(self, program, monkeypatch, tmp_path):
        path = program("[ $1 = --version ] && echo '9.9.9 (Claude Code)'")
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("FARM_CLAUDE_PATH", raising=False)
        assert ClaudeAgent().availability().version == "9.9.9 (Claude Code)"
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        monkeypatch.setenv("FARM_CLAUDE_PATH", path)
        assert ClaudeAgent().availability().usable

    def test_that_it_did_not_run_once_is_not_remembered(self, program, monkeypatch, tmp_path):
        path = program(f"mkdir {tmp_path}/tried 2>/dev/null && exit 1; echo 9.9.9")
        monkeypatch.setenv("FARM_CLAUDE_PATH", str(path))
        assert not ClaudeAgent().availability().usable
        assert ClaudeAgent().availability().version == "9.9.9"

    def test_a_cli_that_does_not_run_is_not_usable(self, program, monkeypatch):
        monkeypatch.setenv("FARM_CLAUDE_PATH", program("echo wrong machine >&2; exit 1"))
        found = ClaudeAgent().availability()
        assert (found.usable, "wrong machine" in (found.reason or "")) == (False, True)

    def test_a_missing_cli_is_told_with_what_to_do(self, monkeypatch):
        monkeypatch.setenv("FARM_CLAUDE_PATH", "/nonexistent/claude")
        found = ClaudeAgent().availability()
        assert (found.usable, "FARM_CLAUDE_PATH" in (found.reason or "")) == (False, True)


class TestOptions:
    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ("permision_mode: plan", 'did you mean "permission_mode"?'),
            ("permission_mode: bypass", '"permission_mode" must be'),
            ("allowed_tools: Read", '"allowed_tools" must be a list'),
            ("mcp_config: /etc/mcp.json", '"mcp_config" must be a file of the workspace'),
            ('base_url: "http://[::1"', '"base_url" must be an address such as https://'),
            ("base_url: api.example.com", '"base_url" must be an address such as https://'),
            ("mcp_config: ../mcp.json", '"mcp_config" must be a file of the workspace'),
            ("mcp_config: {servers: {}}", 'must have a mapping "mcpServers"'),
            ("secrets: [FARM_BROKER_URL]", "no session may have it"),
            ("secrets: [celery_broker]", "no session may have it"),
            ("secrets: [\"A=B\"]", "is no name of an environment variable"),
            ("max_turns: 0", '"max_turns" must be at least 1'),
            ("setting_sources: [host]", "must be"),
        ],
    )  # fmt: skip
    def test_a_slip_in_farm_yaml_is_a_problem(self, tmp_path, option, message):
        (tmp_path / "farm.yaml").write_text(f"agents:\n  mine:\n    kind: claude\n    {option}\n")
        with pytest.raises(InputError) as error:
            load_settings(tmp_path)
        assert message in str(error.value)

    def test_options_survive_the_queue(self):
        spec = ClaudeSpec(allowed_tools=("Read",), mcp_config={"mcpServers": {}}, secrets=("TOKEN",))
        assert ClaudeSpec.model_validate_json(spec.model_dump_json()) == spec
        with pytest.raises(ValidationError):
            ClaudeSpec.model_validate({"secrets": ["FARM_STORE_URL"]})
