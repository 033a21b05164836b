"""`api: scripted:FILE`: the farm plays the API to real agents."""

from __future__ import annotations

import json
import shlex
import sys

import pytest
from pydantic import ValidationError

from farm.agents.anthropic_api import AnthropicAgent
from farm.agents.claude_code import ClaudeAgent
from farm.agents.scripted_api import with_scripted_api
from farm.errors import InputError, SessionError
from farm.model.agent import AnthropicSpec, ClaudeSpec
from farm.settings import load_settings

TWO = """
name: first
turns: [{say: one}]
---
name: second
turns: [{tools: [{tool: Bash, input: {command: env}}]}, {say: two}]
"""


@pytest.fixture
def session(make_session, tmp_path, monkeypatch):
    """Give a function that makes a session whose API a scenario plays."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-the-workers-own-key")

    def make(scenario: str, **fields):
        (tmp_path / "api.yaml").write_text(scenario)
        return make_session(**{"spec": AnthropicSpec(api="scripted:api.yaml", max_retries=0), **fields})

    return make


def test_the_only_scenario_of_a_file_is_played_to_every_case(session):
    assert AnthropicAgent().run(session("turns: [{say: hello}]", id="any")).final_text == "hello"


@pytest.mark.parametrize(
    ("case_id", "said"), [("suite::first", "one"), ("dir/second", "two"), ("a/b::second", "two")]
)
def test_of_several_scenarios_a_case_plays_the_one_of_its_name(session, case_id, said):
    assert AnthropicAgent().run(session(TWO, id=case_id)).final_text == said


def test_no_key_of_the_worker_is_used_or_passed_on(session):
    env = {"ANTHROPIC_API_KEY": "of-the-case", "OWN": "kept"}
    transcript = AnthropicAgent().run(session(TWO, id="second", env=env))
    (call,) = transcript.tool_calls()
    assert "OWN=kept" in str(call.output)
    assert "ANTHROPIC" not in str(call.output)


def test_a_case_without_a_scenario_of_its_name_is_errored(session):
    with pytest.raises(SessionError, match='none named "third"') as error:
        AnthropicAgent().run(session(TWO, id="suite::third"))
    assert not error.value.retryable


def test_the_cli_is_led_to_the_scenario_without_a_real_key(session, tmp_path, workspace, monkeypatch):
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "the-workers-own-token")
    program = tmp_path / "claude"
    ask = "\n".join(
        [
            "import json, os, urllib.request as web",
            "base = os.environ['ANTHROPIC_BASE_URL']",
            "body = json.dumps({'messages': [{'role': 'user', 'content': 'go'}]}).encode()",
            "answer = json.load(web.urlopen(web.Request(f'{base}/v1/messages', body)))",
            "open('seen', 'w').write(json.dumps(dict(os.environ)))",
            "print(json.dumps({'type': 'result', 'subtype': 'success', 'is_error': False,"
            " 'result': answer['content'][0]['text'], 'session_id': 'x'}))",
        ]
    )
    program.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(ask)}\n")
    program.chmod(0o755)
    spec = ClaudeSpec(executable=str(program), api="scripted:api.yaml")
    made = session("turns: [{say: from the scenario}]", spec=spec, env={"ANTHROPIC_API_KEY": "of-the-case"})
    assert ClaudeAgent().run(made).final_text == "from the scenario"
    env = json.loads((workspace.directory / "seen").read_text())
    assert (env["ANTHROPIC_API_KEY"], "CLAUDE_CODE_OAUTH_TOKEN" in env) == ("no-key", False)


def test_the_server_is_gone_after_the_session(session):
    with with_scripted_api(session("turns: [{say: hello}]")) as connected:
        assert AnthropicAgent().run(connected).final_text == "hello"
    with pytest.raises(SessionError, match="did not answer"):
        AnthropicAgent().run(connected)


@pytest.mark.parametrize("api", ["recorded:x.yaml", "scripted:", "scripted:/etc/x", "scripted:../x.yaml"])
def test_another_api_is_refused(api):
    with pytest.raises(ValidationError, match=r"scripted:FILE|beside farm\.yaml"):
        AnthropicSpec(api=api)


def test_a_scenario_that_is_not_there_is_told_with_its_line(tmp_path):
    (tmp_path / "farm.yaml").write_text(
        "agents:\n  demo:\n    kind: anthropic\n    api: scripted:gone.yaml\n"
    )
    with pytest.raises(InputError, match=r'farm\.yaml:4:.*there is no file "gone\.yaml"'):
        load_settings(tmp_path)


def test_prices_are_read_from_farm_yaml_and_checked(tmp_path):
    (tmp_path / "farm.yaml").write_text("prices:\n  my-model: {input: 1, output: 2.5}\n")
    assert load_settings(tmp_path).prices["my-model"].output == 2.5
    (tmp_path / "farm.yaml").write_text("prices:\n  my-model: {input: -1, ouput: 2.5}\n")
    with pytest.raises(InputError, match=r'farm\.yaml:2:.*ouput.*did you mean "output"'):
        load_settings(tmp_path)
