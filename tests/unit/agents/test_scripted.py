import time

import pytest

from farm.agents.scripted import ScriptedAgent
from farm.errors import SessionError
from farm.model.agent import CallTool, Crash, Say, ScriptedSpec, Sleep
from farm.model.messages import ToolCall


def test_steps_become_messages_and_calls_are_carried_out(make_session, workspace):
    watched: list[ToolCall] = []
    session = make_session(
        script=(
            Say(say="first"),
            CallTool(tool="write_file", input={"file_path": "a.txt", "content": "hello"}),
            CallTool(tool="READ", input={"file_path": "a.txt"}),
            CallTool(tool="Bash", input={"command": "cat a.txt; exit 2"}),
            Say(say="last"),
        ),
        watch=watched,
    )
    transcript = ScriptedAgent().run(session)

    assert transcript.output_messages is not None
    assert (workspace.directory / "a.txt").read_text() == "hello"
    assert [call.tool for call in watched] == ["write_file", "READ", "Bash"]
    assert watched == list(transcript.tool_calls())
    assert [(call.output, call.is_error) for call in watched[1:]] == [
        ("1\thello", False),
        ("Exit code 2\nhello", True),
    ]
    assert [message.content for message in transcript.output_messages] == ["first", None, None, None, "last"]
    assert {message.role for message in transcript.output_messages} == {"assistant"}
    assert transcript.final_text == "last"


def test_calls_have_time_stamps_and_durations_and_the_session_has_no_cost(make_session):
    transcript = ScriptedAgent().run(
        make_session(script=(CallTool(tool="Bash", input={"command": "sleep 0.1"}),))
    )
    (call,) = transcript.tool_calls()

    assert transcript.output_messages is not None
    assert call.timestamp is not None
    assert transcript.duration_ms is not None
    assert call.duration_ms is not None
    assert call.duration_ms >= 100
    assert call.timestamp == transcript.output_messages[0].timestamp
    assert call.timestamp.endswith("Z")
    assert transcript.duration_ms >= call.duration_ms
    assert (transcript.cost_usd, transcript.usage, transcript.agent) == (None, None, "tester")


def test_a_tool_that_can_not_be_carried_out_gives_the_scripts_output(make_session):
    step = CallTool(tool="mcp__github__create_issue", input={"title": "x"}, output="#7")
    (call,) = ScriptedAgent().run(make_session(script=(step,))).tool_calls()

    assert (call.tool, call.input, call.output) == ("mcp__github__create_issue", {"title": "x"}, "#7")


def test_the_environment_of_agent_and_case_reaches_commands_and_the_cases_wins(make_session):
    session = make_session(
        spec=ScriptedSpec(env={"A": "agent", "B": "agent"}),
        env={"B": "case"},
        script=(CallTool(tool="Bash", input={"command": "echo $A $B"}),),
    )
    (call,) = ScriptedAgent().run(session).tool_calls()

    assert call.output == "agent case"


@pytest.mark.parametrize(
    "step", [Sleep(sleep=60), CallTool(tool="Bash", input={"command": "sleep 60", "timeout": 60000})]
)
def test_a_session_ends_when_its_time_is_up(make_session, step):
    started = time.monotonic()
    with pytest.raises(SessionError, match=r"longer than 0.3 s") as error:
        ScriptedAgent().run(make_session(script=(step, Say(say="never")), timeout_seconds=0.3))

    assert error.value.kind == "timeout"
    assert time.monotonic() - started < 50


def test_a_pause_within_the_time_is_only_a_pause(make_session):
    transcript = ScriptedAgent().run(make_session(script=(Sleep(sleep=0.1), Say(say="awake"))))

    assert transcript.final_text == "awake"
    assert transcript.duration_ms is not None
    assert transcript.duration_ms >= 100


def test_a_crash_is_an_error_of_the_session(make_session):
    with pytest.raises(SessionError, match="out of memory") as error:
        ScriptedAgent().run(make_session(script=(Crash(crash="out of memory"),)))
    assert (error.value.kind, error.value.retryable) == ("crashed", True)


def test_a_case_without_a_script_is_an_error(make_session):
    with pytest.raises(SessionError) as error:
        ScriptedAgent().run(make_session())
    assert (error.value.kind, error.value.retryable) == ("no_script", False)
