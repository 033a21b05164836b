from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from farm.agents.registry import AGENTS
from farm.agents.session_files import dump_transcript
from farm.model.agent import ReplaySpec, ScriptedSpec
from farm.model.suite import Case
from farm.model.transcript import Transcript, WorkspaceChanges
from farm.running import TrialPlan, TrialResult, run_trial
from tests.unit.builders import case as make_case


def run(workspace: Path, case: Case, **fields: Any) -> TrialResult:
    plan = TrialPlan(
        case=case,
        agent="scripted",
        spec=ScriptedSpec(),
        workspace=workspace,
        files=workspace,
        timeout_seconds=20,
        **fields,
    )
    return run_trial(plan)


def scripted(*steps: dict[str, Any], **fields: Any) -> Case:
    return make_case(agent="scripted", script=steps, **fields)


def test_a_trial_that_does_right_passes(tmp_path):
    result = run(tmp_path, scripted({"say": "well hello"}))
    assert (result.report.outcome, result.report.score) == ("passed", 1.0)
    assert result.report.output == "well hello"
    assert result.report.error is None
    assert result.transcript is not None


def test_a_trial_that_does_wrong_fails(tmp_path):
    result = run(tmp_path, scripted({"say": "bye"}))
    assert (result.report.outcome, result.report.score) == ("failed", 0.0)


def test_a_session_that_did_not_end_properly_is_never_graded(tmp_path):
    never = {"tool": "Bash", "type": "tool_call", "called": False}
    crashed = scripted({"say": "hello"}, {"crash": "the line went dead"}, evaluators=(never,))
    result = run(tmp_path, crashed)
    assert result.report.outcome == "errored"
    assert result.report.verdicts == ()
    assert result.report.score is None
    assert result.report.error is not None
    assert (result.report.error.kind, result.report.error.retryable) == ("crashed", True)
    assert "the line went dead" in result.report.error.message


def test_a_failed_setup_is_errored_and_the_session_never_starts(tmp_path):
    broken = scripted(
        {"tool": "Write", "input": {"file_path": "x", "content": ""}}, setup=("echo no luck >&2; exit 3",)
    )
    calls: list[Any] = []
    result = run(tmp_path, broken, on_tool_call=calls.append)
    assert result.report.error is not None
    assert result.report.error.kind == "setup_failed"
    assert "exited with 3: no luck" in result.report.error.message
    assert calls == []


def test_setup_is_where_the_session_starts_from_not_a_change_of_it(tmp_path):
    steps = ({"tool": "Read", "input": {"file_path": "made.txt"}}, {"say": "hello"})
    exists = {"type": "file_exists", "path": "made.txt"}
    result = run(tmp_path, scripted(*steps, setup=("echo $GREETING > made.txt",), env={"GREETING": "hi"},
                                    evaluators=(exists,)))  # fmt: skip
    assert result.report.outcome == "passed"
    assert result.report.workspace_changes is not None
    assert result.report.workspace_changes.paths == ()
    assert result.transcript is not None
    assert "hi" in str(next(result.transcript.tool_calls()).output)


def test_what_the_agent_changed_is_recorded_and_the_workspace_it_came_from_is_untouched(tmp_path):
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / "gone.txt").write_text("gone")
    steps = (
        {"tool": "Write", "input": {"file_path": "new.txt", "content": "new"}},
        {"tool": "Bash", "input": {"command": "rm gone.txt && echo more >> kept.txt"}},
        {"say": "hello"},
    )
    result = run(tmp_path, scripted(*steps))
    changes = result.report.workspace_changes
    assert changes is not None
    assert (changes.added, changes.modified, changes.deleted) == (("new.txt",), ("kept.txt",), ("gone.txt",))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gone.txt", "kept.txt"]
    assert (tmp_path / "kept.txt").read_text() == "kept"


def test_the_exam_is_not_in_the_workspace(tmp_path):
    (tmp_path / "exam.yaml").write_text("secret")
    look = scripted({"tool": "Bash", "input": {"command": "ls; cat exam.yaml"}}, {"say": "hello"})
    result = run(tmp_path, look, exclude=frozenset({tmp_path / "exam.yaml"}))
    assert result.transcript is not None
    assert "secret" not in str(next(result.transcript.tool_calls()).output)


@pytest.mark.parametrize(("outcome", "said"), [("passed", "hello"), ("failed", "bye")])
def test_the_working_directory_is_kept_only_for_the_outcomes_asked_for(
    tmp_path, tmp_path_factory, monkeypatch, outcome, said
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("kept")))  # pytest tidies it up
    kept = run(tmp_path, scripted({"say": said}), keep=lambda seen: seen == outcome)
    assert kept.workspace is not None
    assert (kept.workspace / "workspace").is_dir()
    gone = run(tmp_path, scripted({"say": said}), keep=lambda seen: seen != outcome)
    assert gone.workspace is None


def test_a_bug_in_an_agent_is_errored_and_does_not_end_the_run(tmp_path, monkeypatch, caplog):
    class Buggy:
        acts = True

        def run(self, session):
            raise ZeroDivisionError("oops")

    monkeypatch.setitem(AGENTS, "scripted", Buggy())
    result = run(tmp_path, scripted({"say": "hello"}))
    assert result.report.outcome == "errored"
    assert result.report.error is not None
    assert (result.report.error.kind, result.report.error.message) == (
        "internal_error",
        "ZeroDivisionError: oops",
    )
    assert "ZeroDivisionError" in caplog.text


def test_a_workspace_that_can_not_be_made_is_errored_and_does_not_end_the_run(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "link").symlink_to("/usr")
    result = run(tmp_path / "ws", scripted({"say": "hello"}))
    assert result.report.outcome == "errored"
    assert result.report.error is not None
    assert (result.report.error.kind, result.report.error.retryable) == ("workspace_failed", False)
    assert "is a link to /usr" in result.report.error.message


def test_a_recorded_session_is_never_judged_by_files_it_did_not_work_on(tmp_path):
    recording = {"output_messages": [{"role": "assistant", "content": "hello"}]}
    (tmp_path / "recorded.json").write_text(json.dumps(recording))
    evaluators = (
        {"type": "files_changed", "forbid": "**"},
        {"type": "file_exists", "path": "recorded.json"},
        {"type": "contains", "value": "hello"},
    )
    replayed = make_case(agent="replay", replay="recorded.json", evaluators=evaluators)
    plan = TrialPlan(replayed, "replay", ReplaySpec(), tmp_path, tmp_path, timeout_seconds=20)
    report = run_trial(plan).report
    assert [verdict.outcome for verdict in report.verdicts] == ["errored", "errored", "passed"]
    assert report.workspace_changes is None


def test_a_recorded_session_needs_no_workspace(tmp_path):
    (tmp_path / "recorded.json").write_text('{"text": "hello"}')
    (tmp_path / "link").symlink_to("/usr")  # a copy of the directory would be refused for it
    replayed = make_case(agent="replay", replay="recorded.json", setup=("exit 1",))
    plan = TrialPlan(replayed, "replay", ReplaySpec(), tmp_path, tmp_path, timeout_seconds=20)
    assert run_trial(plan).report.outcome == "passed"


def test_what_a_recorded_transcript_says_of_changed_files_is_judged(tmp_path):
    changed = WorkspaceChanges(added=("new.py",))
    recorded = Transcript(agent="claude", output_messages=(), workspace_changes=changed)
    (tmp_path / "recorded.json").write_bytes(dump_transcript(recorded))
    replayed = make_case(
        agent="replay", replay="recorded.json", evaluators=({"type": "files_changed", "expect": "*.py"},)
    )
    plan = TrialPlan(replayed, "replay", ReplaySpec(), tmp_path, tmp_path, timeout_seconds=20)
    report = run_trial(plan).report
    assert report.outcome == "passed"
    assert report.workspace_changes == changed


def test_an_errored_evaluator_does_not_fail_the_case(tmp_path):
    unknown = {"type": "cost", "budget": 1.0}
    result = run(tmp_path, scripted({"say": "hello"}, evaluators=(unknown,)))
    assert result.report.outcome == "errored"
    assert result.report.verdicts[0].outcome == "errored"
