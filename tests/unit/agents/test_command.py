"""The command agent on real processes: what it gives a program, what it takes back, how sessions end."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from farm.agents import command as command_module
from farm.agents.base import Session
from farm.agents.command import CommandAgent
from farm.errors import SessionError
from farm.model.agent import CommandSpec
from farm.model.messages import Message, ToolCall
from farm.model.transcript import Transcript, Usage
from farm.sessions.workspace import open_workspace

Run = Callable[..., Transcript]

HOSTILE_PROMPTS = [
    "it's \"quoted\" 'twice'",
    "two\nlines\n\n  and a half\t",
    "$(rm -rf . ; touch pwned) `touch pwned` ${HOME} $HOME \\ \\n",
    "; touch pwned & | > pwned < x * ? [a] ~ ! #",
    "--help -rf -- -",
    "{PROMPT_FILE} {EVAL_ID} {x} %s %n",
    "Grüße, 世界 🌍 \u202e\u2028\x7f\x1b[31m",
    " ",
]


@pytest.fixture
def run(make_session: Callable[..., Session]) -> Run:
    """Give a function that runs a command on a prompt."""

    def run(command: str, prompt: str | None = None, *, agent_env=None, **options) -> Transcript:
        if prompt is not None:
            options["input_messages"] = (Message(role="user", content=prompt),)
        spec = CommandSpec(command=command, env=agent_env or {})
        return CommandAgent().run(make_session(spec=spec, **options))

    return run


@pytest.fixture
def failure(run: Run) -> Callable[..., SessionError]:
    """Give a function that runs a command whose session does not end properly."""

    def failure(command: str, *arguments, **options) -> SessionError:
        with pytest.raises(SessionError) as caught:
            run(command, *arguments, **options)
        return caught.value

    return failure


def prints(data: object) -> str:
    """Give a command that prints JSON, or a text as it is."""
    return f"printf %s {shlex.quote(data if isinstance(data, str) else json.dumps(data))}"


def test_it_can_run_where_there_is_a_shell(monkeypatch):
    assert CommandAgent().availability().usable
    monkeypatch.setattr(command_module, "_SHELL", "/nowhere/sh")
    assert CommandAgent().availability().reason == "there is no /nowhere/sh"


# What the program is given


@pytest.mark.parametrize("prompt", HOSTILE_PROMPTS)
def test_a_prompt_reaches_the_program_as_it_is(run, workspace, prompt):
    assert run("printf '%s.' {PROMPT}", prompt).final_text == f"{prompt}."
    assert run("cat {PROMPT_FILE}; printf .", prompt).final_text == f"{prompt}."
    assert list(workspace.directory.iterdir()) == []


@pytest.mark.parametrize("case_id", ["tests/it's $(touch pwned)::a b", "-n", "suite#2"])
def test_the_program_learns_the_case_and_the_attempt(run, workspace, case_id):
    transcript = run("printf '%s|%s' {EVAL_ID} {ATTEMPT}", id=case_id, attempt=3)
    assert transcript.final_text == f"{case_id}|3"
    assert list(workspace.directory.iterdir()) == []


def test_the_program_works_in_the_workspace_and_the_exchange_lies_beside_it(run, workspace):
    workspace.remember_files()
    transcript = run("pwd; printf '%s\\n' {PROMPT_FILE} {OUTPUT_FILE}; touch made; printf x > {OUTPUT_FILE}")
    assert transcript.final_text == "x"
    assert workspace.changes().paths == ("made",)
    cwd, *others = run("pwd; printf '%s\\n' {PROMPT_FILE} {OUTPUT_FILE}").final_text.split("\n")
    assert Path(cwd) == workspace.directory
    for path in map(Path, others):
        assert path.is_relative_to(workspace.root)
        assert not path.is_relative_to(workspace.directory)


def test_the_output_file_is_not_there_before(run):
    assert run("test -e {OUTPUT_FILE} && printf yes || printf no").final_text == "no"


def test_the_program_has_nothing_on_its_stdin(run):
    assert run("cat; printf end").final_text == "end"


def test_files_are_copies_each_a_word_of_its_own(run, tmp_path, workspace):
    names = ["a/order.md", "b/order.md", "it's a $(file).txt", "a/order.md"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"in {name}")
    content = [{"type": "file", "value": name} for name in names]
    expected = (Message(role="assistant", content=[{"type": "file", "value": "secret.md"}]),)
    transcript = run(
        "printf '%s\\n' {FILES}; cat {FILES}; echo changed | tee {FILES} >/dev/null",
        input_messages=(Message(role="user", content=content),),
        expected_messages=expected,
    )
    *paths, contents = transcript.final_text.split("\n")
    assert [re.sub(".*/files/", "", path) for path in paths] == names[:3]
    assert contents == "".join(f"in {name}" for name in names[:3])
    assert all(Path(path).is_relative_to(workspace.config) for path in paths)
    assert (tmp_path / "a/order.md").read_text() == "in a/order.md"


def test_without_files_there_is_no_word(run):
    assert run("printf '%s|' x {FILES} y").final_text == "x|y|"


def test_a_prompt_tells_where_its_files_are_and_what_is_in_them(run, tmp_path):
    (tmp_path / "order.md").write_text("2 lamps\n")
    content = [{"type": "text", "value": "Check:"}, {"type": "file", "value": "order.md"}]
    said = run("cat {PROMPT_FILE}", input_messages=(Message(role="user", content=content),)).final_text
    path = re.search('<file path="(.*)">', said)
    assert path is not None
    assert said == f'Check:\n<file path="{path[1]}">\n2 lamps\n</file>'
    assert path[1].endswith("/files/order.md")


@pytest.mark.parametrize("name", ["gone.md", "../outside.md", "/etc/passwd"])
def test_a_file_that_is_gone_or_elsewhere_is_an_error_of_the_session(failure, name):
    content = [{"type": "file", "value": name}]
    error = failure("cat {FILES}", input_messages=(Message(role="user", content=content),))
    assert (error.kind, error.retryable) == ("missing_file", False)
    assert name in str(error)


def test_a_long_prompt_goes_through_a_file(run):
    prompt = "long 'story' " * 16_000
    assert len(prompt) > 200_000
    assert run("cat {PROMPT_FILE}; printf .", prompt).final_text == f"{prompt}."


def test_a_prompt_that_is_too_long_for_a_command_says_what_to_do(failure):
    error = failure("printf %s {PROMPT}", "x" * 3_000_000)
    assert (error.kind, error.retryable) == ("bad_prompt", False)
    assert str(error) == (
        "with the prompt in it, the command is too long (3,000,010 bytes); "
        "use {PROMPT_FILE} in place of {PROMPT}"
    )


def test_a_prompt_with_a_nul_says_what_to_do(run, failure):
    error = failure("printf %s {PROMPT}", "a\0b")
    assert (error.kind, error.retryable) == ("bad_prompt", False)
    assert "use {PROMPT_FILE}" in str(error)
    assert run("tr '\\000' n < {PROMPT_FILE}", "a\0b").final_text == "anb"


def test_the_environment_of_agent_and_case_reaches_the_program_and_the_cases_wins(
    run, workspace, monkeypatch
):
    monkeypatch.setenv("A_SECRET", "secret")
    transcript = run(
        'echo "$A $B $HOME ${A_SECRET-none}"', agent_env={"A": "agent", "B": "agent"}, env={"B": "case"}
    )
    assert transcript.final_text == f"agent case {workspace.home} none"


def test_the_program_has_the_secrets_that_are_named_and_they_are_in_no_record(make_session, monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", "sesame-sesame")
    monkeypatch.setenv("OTHER_TOKEN", "not-for-this-one")
    calls: list[ToolCall] = []
    record = '{"output_messages": [{"role": "assistant", "content": "%s", "tool_calls": [{"tool": "%s", "input": {}}]}]}'
    command = f'printf \'{record}\' "$GATEWAY_TOKEN/$OTHER_TOKEN" "$GATEWAY_TOKEN"'
    spec = CommandSpec(command=command, secrets=("GATEWAY_TOKEN",))
    transcript = CommandAgent().run(make_session(spec=spec, watch=calls))
    assert transcript.final_text == "[GATEWAY_TOKEN]/"
    assert [call.tool for call in calls] == ["[GATEWAY_TOKEN]"]


def test_the_program_learns_which_model_it_is_to_use(run):
    transcript = run('echo "${FARM_MODEL-none}"', model="some-model")
    assert (transcript.final_text, transcript.model) == ("some-model", "some-model")
    assert run('echo "${FARM_MODEL-none}"').final_text == "none"
    assert run('echo "$FARM_MODEL"', model="a", agent_env={"FARM_MODEL": "b"}).final_text == "b"


# What it gives back


def test_plain_text_is_the_answer_and_nothing_is_known_of_tools(run):
    transcript = run("echo Paris; sleep 0.05; echo noise >&2")
    assert transcript.duration_ms >= 50
    assert transcript == Transcript(
        agent="tester", final_text="Paris", exit_code=0, duration_ms=transcript.duration_ms
    )


@pytest.mark.parametrize("command", ["true", "printf '\\n\\n'", ": > {OUTPUT_FILE}"])
def test_no_output_is_an_empty_answer(run, command):
    transcript = run(command)
    assert (transcript.final_text, transcript.exit_code) == ("", 0)


def test_only_line_breaks_at_the_end_are_left_out(run):
    assert run("printf '\\n  a \\n b \\r\\n\\n'").final_text == "\n  a \n b "


def test_the_output_file_wins_over_stdout_unless_it_is_empty(run):
    assert run("echo progress; echo answer > {OUTPUT_FILE}").final_text == "answer"
    assert run("echo answer; : > {OUTPUT_FILE}").final_text == "answer"
    assert run("echo answer; printf ' ' > {OUTPUT_FILE}").final_text == " "


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": 42}',
        '{"riskLevel": "High", "nested": {"text": "not at the top"}}',
        '{"result": "Paris", "duration_ms": 900, "cost_usd": 0.1}',
        '{"text": null}',
        '[{"text": "a"}, {"text": "b"}]',
        '"text"',
        "42",
        "null",
        '{"text": "broken',
        '{"text": "x"} and more',
        '{"a": 1}\n{"a": 2}',
        '{"text": "x"}\nthen words\n{"text": "y"}',
        '{"text": NaN}',
        '{"a":' * 5000,
    ],
)
def test_any_other_text_is_the_answer_itself_also_json_of_another_shape(run, text):
    transcript = run(prints(text))
    assert (transcript.final_text, transcript.output_messages) == (text, None)


# The user's data looks like structural keys in either spelling.
MESSAGE = {"role": "assistant", "content": {"riskLevel": "High"}, "metadata": {"costUsd": "mine"}}
CALL = {
    "tool": "Search",
    "input": {"maxHits": 3, "some_key": {"duration_ms": "mine"}},
    "output": [{"toolCalls": 1}],
}
SNAKE = {
    "text": "Paris",
    "output_messages": [{**MESSAGE, "tool_calls": [{**CALL, "duration_ms": 12}]}],
    "token_usage": {"input_tokens": 9, "output_tokens": 2, "cached": 1},
    "cost_usd": 0.25,
    "duration_ms": 7,
}
CAMEL = {
    "text": "Paris",
    "outputMessages": [{**MESSAGE, "toolCalls": [{**CALL, "durationMs": 12}]}],
    "tokenUsage": {"inputTokens": 9, "outputTokens": 2, "cached": 1},
    "costUsd": 0.25,
    "durationMs": 7,
}


@pytest.mark.parametrize("record", [SNAKE, CAMEL], ids=["snake_case", "camelCase"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("where", ["", " > {OUTPUT_FILE}"])
def test_json_says_what_was_done_and_the_users_data_is_untouched(run, record, indent, where):
    watched: list[ToolCall] = []
    transcript = run(prints(json.dumps(record, indent=indent)) + where, watch=watched)
    (message,) = transcript.output_messages
    assert (message.content, message.metadata) == (MESSAGE["content"], MESSAGE["metadata"])
    assert message.tool_calls == (ToolCall.model_validate({**CALL, "duration_ms": 12}),)
    assert watched == list(message.tool_calls)
    assert (transcript.final_text, transcript.agent) == ("Paris", "tester")
    assert transcript.usage == Usage(input_tokens=9, output_tokens=2, cache_read_tokens=1)
    assert (transcript.cost_usd, transcript.duration_ms, transcript.exit_code) == (0.25, 7, 0)


def test_json_without_a_duration_gets_the_measured_one(run):
    transcript = run(f"sleep 0.05; {prints({'output_messages': [{'role': 'assistant', 'content': 'hi'}]})}")
    assert transcript.final_text == "hi"
    assert transcript.duration_ms >= 50
    assert run(prints({"text": "hi", "duration_ms": 0})).duration_ms == 0


def test_a_trace_is_read_where_there_are_no_messages(run):
    watched: list[ToolCall] = []
    events = [{"type": "tool_call", "name": "Search", "input": {"q": 1}}, {"type": "message", "text": "done"}]
    transcript = run(prints({"trace": events}), watch=watched)
    assert transcript.output_messages is None
    assert transcript.final_text == "done"
    assert watched == [ToolCall(tool="Search", input={"q": 1})]


@pytest.mark.parametrize("key", ["id", "eval_id", "evalId"])
@pytest.mark.parametrize("own", ["suite::case", "case"])
def test_of_json_lines_the_cases_is_taken(run, key, own):
    lines = [{key: "other", "text": "no"}, {key: own, "text": "yes"}, {key: "third", "text": "no"}]
    assert run(prints("\n".join(map(json.dumps, lines)))).final_text == "yes"


def test_one_json_line_needs_no_id(run):
    assert run(prints('\n{"text": "only"}\n\n')).final_text == "only"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ('{"text": 5}', "stdout:1:1: text: must be a string"),
        ('{"output_messages": "none"}', "stdout:1:1: output_messages: must be a list"),
        ('{"output_messages": [{"content": "x"}]}', "output_messages[0].role: Field required"),
        ('{"text": "x", "cost_usd": -1}', "cost_usd: must be a number that is not negative"),
        (
            '{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}',
            'has 2 records, of which none has the id "case"',
        ),
        ('{"id": "case", "text": "x"}\n{"id": "b", "te', "stdout:2:1: not valid JSON: the line is cut off"),
    ],
)
def test_a_record_that_can_not_be_read_is_never_graded(failure, output, told):
    error = failure(prints(output))
    assert (error.kind, error.retryable) == ("bad_output", False)
    assert told in str(error)


def test_bytes_that_are_no_text_are_replaced_and_a_nul_does_no_harm(run):
    assert run("printf 'a\\377b\\000c'").final_text == "a\ufffdb\0c"
    assert run("printf '\\357\\273\\277a'").final_text == "a"
    said = run("""printf '{"text": "a\\377b", "output_messages": []}'""")
    assert (said.final_text, said.output_messages) == ("a\ufffdb", ())


def test_output_that_is_too_large_to_be_read_whole_is_never_graded(run, failure, monkeypatch):
    monkeypatch.setattr(command_module, "MAX_OUTPUT_BYTES", 1000)
    assert len(run("printf '%1000d' 1").final_text) == 1000
    for command in ("printf '%1001d' 1", "printf '%1001d' 1 > {OUTPUT_FILE}"):
        error = failure(command)
        assert (error.kind, error.retryable) == ("bad_output", False)
        assert "larger than" in str(error)
    # What is not the output may be as long as it likes.
    assert run("printf '%5000d' 1; printf '%5000d' 1 >&2; echo x > {OUTPUT_FILE}").final_text == "x"


@pytest.mark.parametrize(
    "make",
    [
        "mkdir {OUTPUT_FILE}",
        "mkfifo {OUTPUT_FILE}",
        "ln -s /etc/hostname {OUTPUT_FILE}",
        "ln -s /dev/zero {OUTPUT_FILE}",
        "ln -s nowhere {OUTPUT_FILE}",
    ],
)
def test_something_else_in_place_of_the_output_file_is_not_read(failure, make):
    started = time.monotonic()
    error = failure(f"{make}; echo answer")
    assert (error.kind, error.retryable) == ("bad_output", False)
    assert time.monotonic() - started < 50


# How sessions end


def test_an_exit_code_is_a_crash_with_what_the_program_said(failure):
    error = failure("echo answer; echo 'no such model' >&2; exit 3")
    assert (error.kind, error.retryable) == ("crashed", True)
    assert str(error) == "the command ended with exit code 3: no such model"
    assert str(failure("echo out of paper; exit 1")) == "the command ended with exit code 1: out of paper"
    assert str(failure("exit 255")) == "the command ended with exit code 255"


def test_only_the_end_of_a_long_complaint_is_told(failure):
    message = str(failure("printf '%9000d' 1 >&2; printf '\\377end' >&2; exit 1"))
    assert len(message) < 600
    assert message.endswith("\ufffdend")


def test_output_of_a_session_that_crashed_is_not_graded(failure):
    watched: list[ToolCall] = []
    record = {"output_messages": [{"role": "assistant", "tool_calls": [{"tool": "Read"}]}]}
    assert failure(f"{prints(record)}; exit 1", watch=watched).kind == "crashed"
    assert watched == []


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("kill -KILL $$", "SIGKILL"),
        ("sh -c 'kill -SEGV $$'; exit $?", "SIGSEGV"),
        ("exit 143", "SIGTERM"),
    ],
)
def test_a_signal_is_told_also_when_the_shell_passes_it_on(failure, command, name):
    error = failure(f"echo last words >&2; {command}")
    assert (error.kind, error.retryable) == ("killed", True)
    assert str(error).startswith(f"the command was killed by {name}: last words")


def test_a_command_that_is_not_there_is_no_fault_of_the_agent(failure, workspace):
    error = failure("no-such-agent {PROMPT}")
    assert (error.kind, error.retryable) == ("agent_unavailable", False)
    assert "no-such-agent" in str(error)
    (workspace.directory / "agent").write_text("#!/bin/sh\n")
    assert failure("./agent").kind == "agent_unavailable"


def test_a_workspace_that_is_gone_is_no_fault_of_the_agent(failure, workspace):
    workspace.directory.rmdir()
    error = failure("true")
    assert (error.kind, error.retryable) == ("agent_unavailable", False)


def test_a_session_ends_when_its_time_is_up_and_nothing_survives(failure, workspace):
    mark = f"survivor-{os.getpid()}-{time.monotonic_ns()}"
    error = failure(f"setsid sh -c 'sleep 60 # {mark}' & echo waiting >&2; sleep 60", timeout_seconds=3)
    assert (error.kind, error.retryable) == ("timeout", True)
    assert str(error) == "the session took longer than 3 s: waiting"
    running = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert mark not in running


def test_what_a_program_leaves_in_the_background_is_not_waited_for(run, workspace):
    started = time.monotonic()
    assert run("(setsid sleep 60 &) ; echo done").final_text == "done"
    assert time.monotonic() - started < 50


def test_a_stopped_session_says_so_and_is_worth_another_attempt(make_session, workspace):
    begun = workspace.directory / "begun"
    session = make_session(spec=CommandSpec(command="touch begun; sleep 300"), timeout_seconds=200)

    def stop_once_it_runs() -> None:
        for _ in range(10_000):
            if begun.exists():
                break
            time.sleep(0.01)
        session.stop.set()

    watcher = threading.Thread(target=stop_once_it_runs)
    watcher.start()
    with pytest.raises(SessionError) as caught:
        CommandAgent().run(session)
    watcher.join()
    assert (caught.value.kind, caught.value.retryable) == ("stopped", True)


def test_many_sessions_at_once_do_not_mix(make_session, tmp_path):
    template = make_session()
    code = (
        "import sys; prompt = open(sys.argv[1]).read(); open('mine', 'a').write(prompt); "
        "open(sys.argv[2], 'w').write(f'{prompt} {sys.argv[3]} ' + open('mine').read())"
    )
    spec = CommandSpec(
        command=f"{sys.executable} -I -S -c {shlex.quote(code)} {{PROMPT_FILE}} {{OUTPUT_FILE}} {{EVAL_ID}}"
    )

    def one(number: int) -> str:
        with open_workspace() as workspace:
            case = template.case.model_copy(
                update={
                    "id": f"case {number}",
                    "input_messages": (Message(role="user", content=f"prompt {number}"),),
                }
            )
            session = replace(template, case=case, spec=spec, workspace=workspace, timeout_seconds=60)
            return CommandAgent().run(session).final_text

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(one, range(48)))
    assert answers == [f"prompt {n} case {n} prompt {n}" for n in range(48)]
