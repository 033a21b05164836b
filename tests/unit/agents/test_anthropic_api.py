"""The anthropic agent with the real SDK, against the scripted Messages API on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest

from farm.agents.anthropic_api import AnthropicAgent
from farm.agents.anthropic_loop import DEFAULT_MODEL
from farm.agents.base import Session
from farm.errors import SessionError
from farm.model.agent import AnthropicSpec
from farm.model.messages import Message, ToolCall
from farm.model.prices import Price
from farm.model.transcript import Transcript
from farm.sessions.sandbox import Sandbox, sandbox_availability
from farm.testing import ReceivedRequest, Scenario, ScriptedApi

KEY = "sk-ant-not-a-real-key-0123456789"
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 10}},
    "required": ["score"],
    "additionalProperties": False,
}


def turn(say: str | None = None, *tools: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**({"say": say} if say else {}), "tools": tools, **fields}


def use(tool: str, **given: Any) -> dict[str, Any]:
    return {"tool": tool, "input": given}


def fault(**fields: Any) -> dict[str, Any]:
    return {"fault": fields}


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedApi]]:
    """Give a function that serves one scenario."""
    running: list[ScriptedApi] = []

    def serve(*turns: dict[str, Any], **fields: Any) -> ScriptedApi:
        scenario = Scenario.model_validate({"turns": turns, **fields})
        running.append(ScriptedApi({"it": scenario}).__enter__())
        return running[-1]

    yield serve
    for api in running:
        api.close()


@pytest.fixture
def run(make_session, scripted, monkeypatch) -> Callable[..., tuple[Transcript, tuple[ReceivedRequest, ...]]]:
    """Give a function that runs a session on some turns; gives its transcript, and what the API was asked."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)

    def run(
        *turns: dict[str, Any],
        options: dict[str, Any] | None = None,
        session: dict[str, Any] | None = None,
        scenario: dict[str, Any] | None = None,
        **case: Any,
    ) -> tuple[Transcript, tuple[ReceivedRequest, ...]]:
        api = scripted(*turns, **(scenario or {}))
        spec = AnthropicSpec(**{"base_url": api.base_url("it"), "max_retries": 0, **(options or {})})
        made: Session = replace(make_session(spec=spec, **case), **(session or {}))
        return AnthropicAgent().run(made), api.received()

    return run


@pytest.fixture
def failure(run) -> Callable[..., SessionError]:
    """Give a function that runs a session which does not end properly."""

    def failure(*turns: dict[str, Any], **fields: Any) -> SessionError:
        with pytest.raises(SessionError) as error:
            run(*turns, **fields)
        return error.value

    return failure


class TestSucceeding:
    def test_tools_are_carried_out_in_the_workspace_and_recorded(self, run, workspace):
        seen: list[ToolCall] = []
        transcript, asked = run(
            turn("let me see", use("Write", file_path="a.txt", content="one\n")),
            turn(None, use("Bash", command="cat a.txt; echo two >> a.txt")),
            turn("all done"),
            watch=seen,
        )
        assert (workspace.directory / "a.txt").read_text() == "one\ntwo\n"
        calls = list(transcript.tool_calls())
        assert seen == calls
        assert [(call.tool, call.is_error) for call in calls] == [("Write", False), ("Bash", False)]
        assert calls[1].output == "one"
        assert all(call.id and call.timestamp and call.duration_ms is not None for call in calls)
        assert (transcript.final_text, transcript.num_turns, transcript.agent) == ("all done", 3, "tester")
        assert (transcript.model, transcript.agent_version) == (DEFAULT_MODEL, version("anthropic"))
        assert [request.turn for request in asked] == [0, 1, 2]
        (result,) = asked[2].body["messages"][-1]["content"]
        assert (result["tool_use_id"], result["content"]) == (calls[1].id, "one")

    def test_several_tools_of_one_answer_are_answered_together_in_their_order(self, run):
        transcript, asked = run(
            turn(None, *(use("Bash", command=f"echo {number}") for number in range(3))), turn("ok")
        )
        assert transcript.output_messages is not None
        first, last = transcript.output_messages
        assert [call.output for call in first.tool_calls] == ["0", "1", "2"]
        answers = asked[1].body["messages"][-1]["content"]
        assert [answer["tool_use_id"] for answer in answers] == [call.id for call in first.tool_calls]
        assert len({call.id for call in first.tool_calls}) == 3
        assert last.content == "ok"

    def test_what_a_tool_can_not_do_goes_back_to_the_model(self, run):
        transcript, asked = run(
            turn(
                None,
                use("Read", file_path="absent"),
                use("Bash", command="echo out; exit 3"),
                use("Read", file="a"),
                use("WebFetch", url="x"),
            ),
            turn("ok"),
        )
        answers = asked[1].body["messages"][-1]["content"]
        assert [answer["is_error"] for answer in answers] == [True] * 4
        assert [call.is_error for call in transcript.tool_calls()] == [True] * 4
        outputs = [str(call.output) for call in transcript.tool_calls()]
        assert "does not exist" in outputs[0]
        assert outputs[1] == "Exit code 3\nout"
        assert "no parameter file" in outputs[2]
        assert outputs[3] == "there is no tool WebFetch"

    def test_only_the_tools_that_are_allowed_are_offered_and_carried_out(self, run, workspace):
        options = {"allowed_tools": ("Read", "Bash"), "disallowed_tools": ("Bash",)}
        transcript, asked = run(turn(None, use("Bash", command="touch made")), turn("ok"), options=options)
        assert [tool["name"] for tool in asked[0].body["tools"]] == ["Read"]
        assert [call.output for call in transcript.tool_calls()] == ["there is no tool Bash"]
        assert not (workspace.directory / "made").exists()

    def test_the_request_says_what_the_case_and_the_agent_say(self, run, workspace):
        messages = (
            Message(role="system", content="be brief"),
            Message(role="user", content="one?"),
            Message(role="assistant", content="1"),
            Message(role="user", content="two?"),
        )
        _, (asked,) = run(
            turn("1"), turn("2"), input_messages=messages, model="claude-opus-5", options={"max_tokens": 99}
        )
        assert asked.body["system"].endswith("\n\nbe brief")
        assert str(workspace.directory) in asked.body["system"]
        assert asked.body["messages"] == [
            {"role": "user", "content": "one?"},
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": "two?"},
        ]
        assert (asked.body["model"], asked.body["max_tokens"]) == ("claude-opus-5", 99)

    def test_a_conversation_that_the_api_has_no_form_for_is_told_as_text(self, run):
        messages = (Message(role="user", content="one?"), Message(role="tool", content="1"))
        _, (asked,) = run(turn("2"), input_messages=messages, options={"system": "own words"})
        assert asked.body["messages"] == [{"role": "user", "content": "User:\none?\n\nTool:\n1"}]
        assert asked.body["system"] == "own words"

    def test_a_file_of_the_input_can_be_read_but_not_changed(self, run, tmp_path, workspace):
        (tmp_path / "big.txt").write_text("x" * 70_000)
        copy = workspace.config / "files/big.txt"
        parts = [{"type": "text", "value": "see"}, {"type": "file", "value": "big.txt"}]
        transcript, (asked, _) = run(
            turn(
                None,
                use("Read", file_path=str(copy)),
                use("Write", file_path=str(copy), content="changed"),
            ),
            turn("ok"),
            input_messages=(Message(role="user", content=parts),),
        )
        assert f'<file path="{copy}"/>' in asked.text.replace('\\"', '"')
        assert [call.is_error for call in transcript.tool_calls()] == [False, True]
        assert copy.read_text() == "x" * 70_000

    def test_an_error_that_passes_is_asked_again(self, run):
        once = {"fault": {"status": 529, "count": 1, "retry_after_seconds": 0}}
        transcript, asked = run(turn("ok", **once), options={"max_retries": 1})
        assert transcript.final_text == "ok"
        assert [request.status for request in asked] == [529, 200]


class TestAnsweringOnly:
    def test_a_judge_is_offered_no_tools(self, run):
        transcript, asked = run(turn(None, use("Bash", command="true")), turn("ok"), session={"tools": False})
        assert "tools" not in asked[0].body
        assert "system" not in asked[0].body
        assert [call.output for call in transcript.tool_calls()] == ["there is no tool Bash"]

    def test_the_answers_form_is_asked_for_and_checked(self, run):
        transcript, (asked,) = run(
            turn('{"score": 7}'), session={"tools": False, "answer_schema": dict(SCHEMA)}
        )
        form = asked.body["output_config"]["format"]
        assert (form["type"], form["schema"]["required"]) == ("json_schema", ["score"])
        assert json.loads(transcript.final_text) == {"score": 7}

    @pytest.mark.parametrize("said", ["seven", '{"score": 11}', '{"score": 7, "more": 1}', "[" * 100_000])
    def test_an_answer_of_another_form_is_no_answer(self, failure, said):
        error = failure(turn(said), session={"tools": False, "answer_schema": dict(SCHEMA)})
        assert (error.kind, error.retryable) == ("bad_output", True)


class TestEnding:
    @pytest.mark.parametrize(
        ("trouble", "kind", "retryable"),
        [
            (fault(status=400), "bad_request", False),
            (fault(status=401), "authentication", False),
            (fault(status=403), "authentication", False),
            (fault(status=404), "bad_request", False),
            (fault(status=413), "bad_request", False),
            (fault(status=429), "rate_limited", True),
            (fault(status=500), "api_error", True),
            (fault(status=529), "api_overloaded", True),
            (fault(drop_after_events=1), "api_error", True),
            (fault(malformed="{"), "bad_output", True),
            (fault(malformed='{"type": "message", "content": "text"}'), "bad_output", True),
            (fault(malformed='{"type": "message", "content": [{"type": "tool_use"}]}'), "bad_output", True),
            (fault(malformed='{"type": "message", "content": [], "usage": 3}'), "bad_output", True),
            (fault(malformed="[1, 2]"), "bad_output", True),
            (turn("cut o", stop_reason="max_tokens"), "max_tokens", False),
            (turn("no", stop_reason="refusal"), "refusal", False),
            (turn("no tool", stop_reason="tool_use"), "bad_output", True),
            (fault(malformed='{"type": "message", "content": [], "stop_reason": null}'), "bad_output", True),
            (
                fault(malformed='{"type": "message", "content": [], "stop_reason": "bored"}'),
                "bad_output",
                True,
            ),
        ],
    )
    def test_no_other_end_is_a_transcript(self, failure, trouble, kind, retryable):
        error = failure(turn("first", use("Bash", command="true")), trouble)
        assert (error.kind, error.retryable) == (kind, retryable)

    def test_the_end_says_what_the_api_said_and_when_to_come_back(self, failure):
        error = failure(fault(status=429, message="slow down", retry_after_seconds=17))
        assert "429: slow down" in str(error)
        assert error.retry_after_seconds == 17

    def test_a_service_that_is_not_there_is_an_error_of_the_connection(self, failure):
        error = failure(turn("x"), options={"base_url": "http://127.0.0.1:9"})
        assert (error.kind, error.retryable) == ("api_error", True)
        assert "http://127.0.0.1:9" in str(error)

    def test_no_more_turns_than_allowed_are_taken(self, failure, workspace):
        more = turn(None, use("Bash", command="echo x >> turns"))
        error = failure(more, options={"max_turns": 9}, max_turns=3, scenario={"repeat_last": True})
        assert (error.kind, error.retryable) == ("max_turns", False)
        assert "3 turns" in str(error)
        assert (workspace.directory / "turns").read_text() == "x\nx\n"

    def test_the_last_turn_may_end_the_session(self, run):
        transcript, _ = run(turn("ok"), max_turns=1)
        assert transcript.num_turns == 1

    def test_no_more_money_than_allowed_is_spent(self, failure):
        more = turn(None, use("Bash", command="true"), usage={"input_tokens": 1_000_000, "output_tokens": 0})
        error = failure(
            more, model="claude-opus-5", max_cost_usd=11.0, scenario={"repeat_last": True}
        )  # $5 a turn
        assert (error.kind, error.retryable) == ("max_budget", False)
        assert "$15.0000 of $11" in str(error)
        assert error.cost_usd == pytest.approx(15.0)

    @pytest.mark.parametrize(
        ("trouble", "cost_usd", "is_partial"),
        [
            (turn("cut o", stop_reason="max_tokens", usage={"input_tokens": 1_000_000, "output_tokens": 0}), 10.0, False),
            (fault(status=529), 5.0, False),
            (fault(status=500), 5.0, True),  # it may have been paid for
            (fault(malformed="{"), 5.0, True),
        ],
    )  # fmt: skip
    def test_a_session_that_fails_tells_what_it_cost_as_far_as_it_knows(
        self, failure, trouble, cost_usd, is_partial
    ):
        paid = turn(None, use("Bash", command="true"), usage={"input_tokens": 1_000_000, "output_tokens": 0})
        error = failure(paid, trouble, model="claude-opus-5")
        assert (error.cost_usd, error.cost_is_partial) == (pytest.approx(cost_usd), is_partial)

    def test_what_was_not_even_asked_has_cost_nothing(self, failure, monkeypatch):
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        error = failure(turn("never asked"))
        assert (error.kind, error.cost_usd, error.cost_is_partial) == ("authentication", 0.0, False)

    def test_an_answer_without_usage_costs_nobody_knows_what(self, run, failure):
        content = '[{"type": "text", "text": "ok"}]'
        untold = fault(malformed=f'{{"type": "message", "content": {content}, "stop_reason": "end_turn"}}')
        transcript, _ = run(untold)
        assert (transcript.cost_usd, transcript.usage) == (None, None)
        assert "told no usage" in transcript.warnings[0]
        assert failure(untold, max_cost_usd=1.0).kind == "bad_output"

    def test_a_request_that_waits_is_ended_with_the_session(self, run, scripted):
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        began = time.monotonic()
        with pytest.raises(SessionError) as error:
            run(turn("late", delay_seconds=60), session={"stop": stop})
        assert error.value.kind == "stopped"
        assert time.monotonic() - began < 10

    def test_a_command_that_runs_is_ended_with_the_session(self, failure):
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        error = failure(turn(None, use("Bash", command="sleep 60")), session={"stop": stop})
        assert error.kind == "stopped"

    @pytest.mark.parametrize(
        "slow", [turn("late", delay_seconds=60), turn(None, use("Bash", command="sleep 60"))]
    )
    def test_the_session_takes_no_longer_than_its_time(self, failure, slow):
        began = time.monotonic()
        error = failure(slow, timeout_seconds=0.5)
        assert (error.kind, error.retryable) == ("timeout", True)
        assert time.monotonic() - began < 10


class TestKeys:
    def test_the_key_reaches_the_api_and_nothing_else(self, run, workspace):
        seen: list[ToolCall] = []
        (workspace.directory / "leak").write_text(KEY)
        transcript, asked = run(
            turn(f"I know {KEY}", use("Bash", command="env; cat leak; tr a-z A-Z < leak")),
            turn(f"it is {KEY}"),
            watch=seen,
            env={"ANTHROPIC_API_KEY": KEY, "OWN": "kept"},
        )
        recorded = transcript.model_dump_json() + "".join(call.model_dump_json() for call in seen)
        assert KEY not in recorded
        (call,) = transcript.tool_calls()
        assert "OWN=kept" in str(call.output)
        assert "ANTHROPIC_API_KEY=" not in str(call.output)
        assert KEY.upper() in str(call.output)  # the command did run
        assert "[ANTHROPIC_API_KEY]" in str(call.output)
        assert transcript.final_text == "it is [ANTHROPIC_API_KEY]"
        assert all(KEY not in request.text for request in asked)

    def test_the_key_is_taken_out_of_what_the_api_says_is_wrong(self, failure):
        assert KEY not in str(failure(fault(status=401, message=f"{KEY} is no key")))

    def test_a_session_without_a_key_says_what_is_missing(self, failure, monkeypatch, make_session):
        monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
        monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "not-asked-for-by-name")
        with pytest.raises(SessionError, match="ANTHROPIC_API_KEY is not set in the worker's") as error:
            AnthropicAgent().run(make_session(spec=AnthropicSpec()))
        assert (error.value.kind, error.value.retryable) == ("authentication", False)

    def test_a_token_is_used_where_the_agent_names_it(self, run, monkeypatch, scripted):
        monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-0123456789")
        transcript, _ = run(turn("token-0123456789"), options={"secrets": ("ANTHROPIC_AUTH_TOKEN",)})
        assert transcript.final_text == "[ANTHROPIC_AUTH_TOKEN]"

    def test_headers_of_the_workers_environment_are_not_sent(self, run, monkeypatch):
        monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Gateway: hunter2hunter2\nContent-Type: text/plain")
        _, (asked,) = run(turn("ok"))
        assert "x-gateway" not in asked.headers
        assert asked.headers["content-type"] == "application/json"

    def test_whether_it_can_run_here_depends_on_a_key(self, monkeypatch):
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        found = AnthropicAgent().availability()
        assert (found.usable, found.reason) == (False, "ANTHROPIC_API_KEY is not set")
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        assert AnthropicAgent().availability().version == f"SDK {version('anthropic')}"


class TestCosts:
    def test_tokens_and_cost_of_all_turns_are_added_up(self, run):
        used = {"usage": {"input_tokens": 1000, "output_tokens": 100}}
        transcript, _ = run(
            turn(None, use("Bash", command="true"), **used), turn("ok", **used), model="claude-haiku-4-5"
        )
        assert transcript.usage is not None
        assert (transcript.usage.input_tokens, transcript.usage.output_tokens) == (2000, 200)
        assert transcript.cost_usd == pytest.approx(0.003)
        assert transcript.warnings == ()

    def test_an_unknown_price_leaves_the_cost_unknown_and_says_so(self, run):
        transcript, _ = run(turn("ok"), model="some-model")
        assert transcript.cost_usd is None
        (warning,) = transcript.warnings
        assert 'price of the model "some-model" is not known' in warning

    def test_a_price_of_farm_yaml_makes_it_known(self, run):
        transcript, _ = run(
            turn("ok", usage={"input_tokens": 10, "output_tokens": 1}),
            model="some-model",
            session={"prices": {"some-model": Price(input=1.0, output=2.0)}},
        )
        assert transcript.cost_usd == pytest.approx(12e-6)
        assert transcript.warnings == ()

    def test_a_budget_that_can_not_be_kept_is_not_begun(self, failure):
        error = failure(turn("ok"), model="some-model", max_cost_usd=1.0)
        assert (error.kind, error.retryable) == ("unknown_price", False)


class TestConfinement:
    def test_no_file_tool_leaves_the_workspace_not_even_by_links_of_the_agents_own(
        self, run, workspace, tmp_path
    ):
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret").write_text("hidden words")
        transcript, _ = run(
            turn(
                None,
                use(
                    "Bash",
                    command=f"ln -s {outside} way; ln -s {outside}/secret file; ln -s {outside}/new new",
                ),
                use("Read", file_path=str(outside / "secret")),
                use("Read", file_path="../../../../../.." + str(outside / "secret")),
                use("Read", file_path="way/secret"),
                use("Read", file_path="file"),
                use("Write", file_path="new", content="x"),
                use("Write", file_path="way/new", content="x"),
                use("Edit", file_path="file", old_string="hidden", new_string="shown"),
                use("Glob", pattern="*", path="way"),
                use("Glob", pattern="**/secret"),
                use("Grep", pattern="hidden", path="way"),
                use("Grep", pattern="hidden"),
                use("Grep", pattern="hidden", path="file"),
            ),
            turn("ok"),
        )
        assert "hidden words" not in transcript.model_dump_json()
        outputs = {index: str(call.output) for index, call in enumerate(transcript.tool_calls())}
        refused = [index for index, output in outputs.items() if "is outside the workspace" in output]
        assert refused == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
        assert (outputs[9], outputs[11]) == ("No files found", "No matches found")
        assert [path.name for path in outside.iterdir()] == ["secret"]

    @pytest.mark.skipif(not sandbox_availability().works, reason="no sandbox here")
    def test_a_workspace_that_was_swapped_for_a_link_leads_nowhere(self, run, workspace, tmp_path):
        (tmp_path / "secret").write_text("hidden words")
        parent = workspace.directory.parent
        swap = f"cd {parent}; mv {workspace.directory.name} gone; ln -s {tmp_path} {workspace.directory.name}"
        transcript, _ = run(
            turn(None, use("Bash", command=swap), use("Read", file_path="secret")),
            turn("ok"),
            session={"sandbox": Sandbox(writable=(workspace.root,), tmp=workspace.tmp, hidden=(tmp_path,))},
        )
        assert "hidden words" not in transcript.model_dump_json()
        assert "is outside the workspace" in str(list(transcript.tool_calls())[1].output)
