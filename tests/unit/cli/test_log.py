from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.agents.session_files import read_session
from farm.authoring.load import load_suite
from farm.cli import main
from farm.errors import UsageError

FARM_FILE = """\
isolation: process
model: m-1
timeout_seconds: 30
agents:
  cat: {kind: command, command: "cat README.md; echo {PROMPT}; touch made"}
  broken: {kind: command, command: "echo {PROMPT} >&2; exit 7"}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "farm.yaml").write_text(FARM_FILE)
    (tmp_path / "README.md").write_text("a project\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "README.md").write_text("another\n")
    return tmp_path


def test_a_session_works_in_a_copy_and_is_shown(project, capsys):
    assert main._run(["log", "say so", "--agent", "cat"]) == 0
    shown = capsys.readouterr().out
    assert "Final text:\n  a project\n  say so\nChanged files:\n  + made\ncat, m-1" in shown
    assert not (project / "made").exists()


def test_the_transcript_can_be_printed_and_kept(project, capsys):
    options = ["--agent", "cat", "-w", "other", "--model", "m-2", "--json", "--out", "s.json"]
    assert main._run(["log", "say so", *options]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert (printed["schema"], printed["final_text"]) == ("farm.transcript/1", "another\nsay so")
    kept = read_session(project / "s.json")
    assert (kept.agent, kept.model, kept.final_text) == ("cat", "m-2", "another\nsay so")
    assert captured.err == "Transcript: s.json\n"


def test_a_test_that_is_made_of_a_session_works_where_it_did_and_with_its_model(project, capsys):
    assert main._run(["log", "say so", "--agent", "cat", "-w", "other", "--model", "m-2", "--yaml"]) == 0
    (project / "tests").mkdir()
    (project / "tests" / "made.yaml").write_text(capsys.readouterr().out)
    (case,) = load_suite([project / "tests"]).cases
    assert case.workspace is not None
    assert (case.model, (project / case.workspace).resolve()) == ("m-2", project / "other")
    assert main._run(["log", "say so", "--agent", "cat", "--yaml"]) == 0
    assert "workspace" not in capsys.readouterr().out


def test_a_session_that_does_not_end_properly_is_told_and_exits_with_3(project, capsys):
    assert main._run(["log", "so\x1b[31m", "--agent", "broken", "--out", "s.json"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("farm: the session did not end properly: ")
    assert "\x1b" not in captured.err
    assert not (project / "s.json").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--agent", "cta"], 'unknown agent "cta"; did you mean "cat"?'),
        (["--agent", "scripted"], 'agent "scripted" does what a case says, and no prompt'),
        (["--agent", "cat", "--out", "nowhere/s.json"], "nowhere/s.json can't be written"),
        (["--agent", "cat", "--out", "other"], "other can't be written"),
        (["--agent", "cat", "--json", "--yaml"], "not allowed with argument"),
    ],
)
def test_what_can_not_be_done_is_told_before_anything_is_spent(project, options, told):
    with pytest.raises(UsageError) as refused:
        main._run(["log", "p", *options])
    assert told in str(refused.value)
