from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from farm.agents.availability import ask_agents, usable_agents
from farm.agents.base import Availability
from farm.agents.registry import AGENTS
from farm.cli import main
from farm.model.agent import AGENT_SPECS

FARM_FILE = """\
agent: claude-code
agents:
  fast: {kind: claude, model: haiku}
  gone: {kind: claude, executable: no-such-program}
  here: {kind: claude, executable: ./claude}
  broken: {kind: claude, executable: ./broken}
  mine: {kind: command, command: "my-agent {PROMPT}"}
  rehearsed: {kind: anthropic, api: "scripted:scenario.yaml"}
  scripted: {kind: command, command: "echo {PROMPT}"}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FARM_CLAUDE_PATH", "/nonexistent/claude")
    for name, does in (("claude", "echo 9.8.7"), ("broken", "exit 3")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "farm.yaml").write_text(FARM_FILE)
    (tmp_path / "scenario.yaml").write_text("turns: [{say: hello}]")
    for spec in AGENT_SPECS.values():
        for name in spec.model_fields["secrets"].default if "secrets" in spec.model_fields else ():
            monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_agents_are_listed_with_what_is_missing_and_what_to_do(project, capsys, monkeypatch):
    assert main._run(["agents"]) == 0
    lines = {line[2:].split("  ")[0].strip(): line for line in capsys.readouterr().out.splitlines()}
    missing = 'there is no program "/nonexistent/claude", which FARM_CLAUDE_PATH names'
    assert lines["claude *"].startswith("✗")
    assert lines["claude *"].endswith(missing)
    assert lines["fast (claude)"].endswith(missing)
    assert 'no program "no-such-program", which its `executable` in farm.yaml names' in lines["gone (claude)"]
    no_key = "no key: ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN is not set"
    assert lines["here (claude)"].startswith("!")
    assert lines["here (claude)"].endswith(f"  9.8.7, {no_key}")
    assert lines["anthropic"].startswith("✗")
    assert lines["rehearsed (anthropic)"].startswith("✓")  # what is scripted needs no key
    assert lines["broken (claude)"].startswith("✗")
    assert lines["broken (claude)"].endswith("exit code 3")
    assert lines["mine (command)"].startswith("✓")
    assert lines["mine (command)"].endswith("  my-agent {PROMPT}")
    assert lines["scripted (command)"].endswith("  echo {PROMPT}")  # a name of farm.yaml hides the kind
    assert "scripted" not in lines
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-some-key")
    assert main._run(["agents"]) == 0
    shown = capsys.readouterr().out
    assert not any(line.startswith("!") and "claude" in line for line in shown.splitlines())


def test_agents_as_json_have_every_kind_and_one_default(project, capsys):
    assert main._run(["agents", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == {*AGENTS, "fast", "gone", "here", "broken", "mine", "rehearsed"}
    assert [name for name, row in rows.items() if row["default"]] == ["claude"]
    assert (rows["fast"]["kind"], rows["fast"]["model"]) == ("claude", "haiku")
    assert all(row["reason"] for row in rows.values() if not row["usable"])


def test_the_default_may_be_an_agent_of_farm_yaml(project, capsys):
    (project / "farm.yaml").write_text(FARM_FILE.replace("agent: claude-code", "agent: mine"))
    main._run(["agents", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows if row["default"]] == ["mine"]


def test_all_kinds_are_asked_at_once(monkeypatch):
    meeting = threading.Barrier(2)  # each waits until the other is asked too

    class Slow:
        acts = True

        def availability(self) -> Availability:
            meeting.wait(timeout=30)
            return Availability(usable=True)

    monkeypatch.setitem(AGENTS, "codex", Slow())
    monkeypatch.setitem(AGENTS, "gemini", Slow())
    assert list(ask_agents(("gemini", "codex"))) == ["gemini", "codex"]
    assert ask_agents(()) == {}
    assert {"codex", "gemini", "replay"} <= set(usable_agents())
