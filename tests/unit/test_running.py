from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.agents import redaction
from farm.agents.base import Session
from farm.agents.registry import AGENTS
from farm.agents.scripted import ScriptedAgent
from farm.agents.session_files import dump_transcript
from farm.errors import SessionError
from farm.evaluators.registry import EVALUATORS
from farm.model.agent import ClaudeSpec, CommandSpec, ReplaySpec, ScriptedSpec
from farm.model.suite import Case
from farm.model.transcript import Transcript, WorkspaceChanges
from farm.resolving import resolve_isolation
from farm.running import TrialPlan, TrialResult, run_trial
from farm.sessions.removal import remove_tree
from farm.sessions.trial_directories import TrialDirectories
from farm.settings import Settings
from tests.unit.builders import case as make_case


def run(workspace: Path, case: Case, **fields: Any) -> TrialResult:
    fields = {"agent": "scripted", "spec": ScriptedSpec(), "timeout_seconds": 20, **fields}
    return run_trial(TrialPlan(case=case, workspace=workspace, files=workspace, **fields))


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


def test_a_limit_that_the_agent_can_not_keep_is_told(tmp_path):
    case = make_case(max_turns=3, max_cost_usd=0.5)
    result = run(tmp_path, case, spec=CommandSpec(command="echo hello"), agent="mine")
    assert result.report.outcome == "passed"
    assert result.report.warnings == (
        "`max_turns` was not kept: agents of kind `command` have no such limit",
        "`max_cost_usd` was not kept: agents of kind `command` have no such limit",
    )
    kept = run(tmp_path, scripted({"say": "hello"}, max_turns=3))  # it does what is written down
    assert kept.report.warnings == ()


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


def test_the_password_of_an_inherited_proxy_is_in_no_record(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://farm:proxy-password@127.0.0.1:9")
    steps = (
        {"tool": "Bash", "input": {"command": "echo $HTTPS_PROXY | tee seen"}},
        {"say": "proxy-password"},
    )
    result = run(tmp_path, scripted(*steps))
    assert result.transcript is not None
    record = result.transcript.model_dump_json() + result.report.model_dump_json()
    assert record.count("http://farm:[HTTPS_PROXY]@127.0.0.1:9") == 2  # printed, and in the diff
    assert "proxy-password" not in record


def test_a_file_named_after_a_secret_is_in_no_record(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://farm:proxy-password@127.0.0.1:9")
    touch = {"tool": "Bash", "input": {"command": "p=${HTTPS_PROXY#*farm:}; touch ${p%@*}"}}
    result = run(tmp_path, scripted(touch, {"say": "hello"}))
    assert result.transcript is not None
    assert result.transcript.workspace_changes == WorkspaceChanges(added=("[HTTPS_PROXY]",))
    assert "proxy-password" not in result.transcript.model_dump_json()


def test_what_an_error_or_a_judge_says_is_told_without_the_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://farm:proxy-password@127.0.0.1:9")
    failed = run(tmp_path, scripted({"say": "hello"}, setup=("echo no way to $HTTPS_PROXY >&2; exit 3",)))
    assert failed.report.error is not None
    assert failed.report.error.message.endswith("no way to http://farm:[HTTPS_PROXY]@127.0.0.1:9")

    tell = """echo '{"score": 1, "reasoning": "proxy-password", "details": {"proxy-password": 1}}'"""
    judged = run(tmp_path, scripted(evaluators=({"type": "code_judge", "command": tell},)))
    (verdict,) = judged.report.verdicts
    assert (verdict.outcome, verdict.reasoning) == ("passed", "[HTTPS_PROXY]")
    assert verdict.details == {"[HTTPS_PROXY]": 1}


def test_a_secret_of_digits_does_not_cost_a_trial_its_outcome(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://farm:12345678@127.0.0.1:9")
    output = '{"text": "hello 12345678", "cost_usd": 0.12345678}'
    command = CommandSpec(command=f"printf '%s' '{output}' > {{OUTPUT_FILE}}")
    report = run(tmp_path, make_case(), spec=command, agent="mine").report
    assert (report.outcome, report.output, report.cost_usd) == ("passed", "hello [HTTPS_PROXY]", 0.12345678)


def test_half_a_surrogate_pair_does_not_cost_a_trial_its_outcome(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://farm:proxy-password@127.0.0.1:9")
    report = run(tmp_path, scripted({"say": "hello \ud800 proxy-password"})).report
    assert (report.outcome, report.output) == ("passed", "hello \ud800 [HTTPS_PROXY]")


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


DIG = "for i in 1 2 3 4; do d=$(printf 'd/%.0s' $(seq 1100)); mkdir -p $d; cd -P $d; done; echo $HTTPS_PROXY > x"


@pytest.fixture
def secret_and_place(tmp_path_factory, monkeypatch) -> Iterator[Path]:
    """Give sessions a password; say where their directories are made."""
    monkeypatch.setenv("HTTPS_PROXY", "http://farm:proxy-password@127.0.0.1:9")
    place = tmp_path_factory.mktemp("kept")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    for path in place.iterdir():
        assert remove_tree(path)  # pytest could not


def test_a_kept_directory_is_searched_however_long_its_paths_are(tmp_path, secret_and_place):
    case = scripted({"tool": "Bash", "input": {"command": DIG}}, {"say": "bye"})
    result = run(tmp_path, case, keep=lambda outcome: outcome == "failed")
    assert (result.report.outcome, result.report.error, result.report.warnings) == ("failed", None, ())
    assert [result.workspace] == list(secret_and_place.iterdir())
    find = ("find", str(secret_and_place), "-name", "x", "-execdir", "cat", "{}", ";")
    assert subprocess.check_output(find) == b"http://farm:[HTTPS_PROXY]@127.0.0.1:9\n"


def test_a_directory_with_secrets_that_can_not_be_taken_out_is_not_kept_and_the_outcome_stays(
    tmp_path, secret_and_place, monkeypatch
):
    monkeypatch.setattr(redaction, "_MAX_FILE_BYTES", 100)
    monkeypatch.setattr(redaction, "remove_tree", lambda *_: False)  # as of a file that nobody may change
    case = scripted({"tool": "Write", "input": {"file_path": "a", "content": "x" * 101}}, {"say": "bye"})
    result = run(tmp_path, case, keep=lambda _: True)
    assert (result.report.outcome, result.report.error, result.workspace) == ("failed", None, None)
    (warning,) = result.report.warnings
    assert warning.startswith("the trial's directory was not kept: secrets may be left in it: ")
    assert result.transcript is not None
    assert list(secret_and_place.iterdir()) == []


@pytest.mark.parametrize("keeps", [True, False])
def test_a_directory_that_can_not_be_put_away_is_removed_and_the_outcome_stays(
    tmp_path, secret_and_place, keeps
):
    class Broken(TrialDirectories):
        def keep(self, root):
            raise OSError("no luck")

        remove = keep

    result = run(tmp_path, scripted({"say": "bye"}), keep=lambda _: keeps, directories=Broken())
    assert (result.report.outcome, result.report.error, result.workspace) == ("failed", None, None)
    assert result.report.warnings == ("the trial's directory could not be put away: OSError: no luck",)
    assert list(secret_and_place.iterdir()) == []


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


STOPPED_DURING: dict[str, dict[str, Any]] = {
    "setup": {"setup": ("touch $SEEN; sleep 300",)},
    "a sleep": {"script": ({"tool": "Bash", "input": {"command": "touch $SEEN"}}, {"sleep": 300})},
    "a tool": {"script": ({"tool": "Bash", "input": {"command": "touch $SEEN; sleep 300"}},)},
    "a code judge": {
        "evaluators": (
            {"type": "code_judge", "command": "touch $SEEN; sleep 300", "timeout_seconds": 300},
            {"type": "contains", "value": "hello"},
        )
    },
}


@pytest.mark.parametrize("during", STOPPED_DURING)
def test_a_stopped_trial_is_errored_and_never_has_a_verdict(tmp_path, during):
    seen, source = tmp_path / "seen", tmp_path / "source"
    source.mkdir()
    text = json.dumps({"script": ({"say": "hello"},), **STOPPED_DURING[during]}).replace("$SEEN", str(seen))
    stop = threading.Event()

    def stop_once_it_runs() -> None:
        for _ in range(10_000):
            if seen.exists():
                break
            time.sleep(0.01)
        stop.set()

    watcher = threading.Thread(target=stop_once_it_runs)
    watcher.start()
    result = run(
        source,
        make_case(agent="scripted", **json.loads(text)),
        stop=stop,
        timeout_seconds=200,
        isolation="process",
    )
    watcher.join()

    assert (result.report.outcome, result.report.verdicts) == ("errored", ())
    assert result.report.error is not None
    assert (result.report.error.kind, result.report.error.retryable) == ("stopped", True)
    assert result.report.duration_ms is not None
    assert result.report.duration_ms < 100_000


def test_a_trial_that_was_stopped_before_it_began_runs_nothing(tmp_path):
    stop = threading.Event()
    stop.set()
    calls: list[Any] = []
    write = {"tool": "Write", "input": {"file_path": "x", "content": ""}}
    result = run(tmp_path, scripted(write), stop=stop, on_tool_call=calls.append)

    assert result.report.error is not None
    assert result.report.error.kind == "stopped"
    assert calls == []


def test_a_session_that_was_stopped_right_at_its_end_is_not_judged(tmp_path, monkeypatch):
    judged = []
    monkeypatch.setitem(EVALUATORS, "contains", lambda *seen: judged.append(seen))
    stop = threading.Event()
    last = {"tool": "Bash", "input": {"command": "true"}}
    result = run(tmp_path, scripted({"say": "hello"}, last), stop=stop, on_tool_call=lambda _: stop.set())

    assert (result.report.outcome, result.transcript, judged) == ("errored", None, [])
    assert result.report.error is not None
    assert (result.report.error.kind, result.report.error.retryable) == ("stopped", True)


def test_case_wins_over_agent_and_agent_over_farm_yaml():
    spec, settings = ScriptedSpec(isolation="process", network=False), Settings(isolation="bubblewrap")

    assert resolve_isolation(make_case(), ScriptedSpec(), Settings()) == ("process", True)
    assert resolve_isolation(make_case(), ClaudeSpec(), Settings()) == ("auto", True)
    assert resolve_isolation(make_case(), ScriptedSpec(), settings) == ("bubblewrap", True)
    assert resolve_isolation(make_case(), spec, settings) == ("process", False)
    assert resolve_isolation(make_case(isolation="auto", network=True), spec, settings) == ("auto", True)
    assert resolve_isolation(make_case(), ScriptedSpec(), Settings(network=False)) == ("auto", False)


def test_what_protects_nobody_though_it_was_asked_for_is_errored_and_runs_nothing(tmp_path):
    calls: list[Any] = []
    write = {"tool": "Write", "input": {"file_path": "x", "content": ""}}
    result = run(tmp_path, scripted(write), isolation="process", network=False, on_tool_call=calls.append)

    assert result.report.error is not None
    assert (result.report.error.kind, result.report.error.retryable) == ("sandbox_unavailable", False)
    assert calls == []


@pytest.mark.parametrize("isolation", ["process", "bubblewrap"])
def test_setup_tools_and_judges_run_the_same_in_a_sandbox_and_without(
    tmp_path, isolation, requires_bubblewrap
):
    (tmp_path / "judge.py").write_text(
        "import json, sys, pathlib\n"
        "workspace = pathlib.Path(json.load(sys.stdin)['workspace_path'])\n"
        "pathlib.Path('own').write_text('mine')\n"
        "print(json.dumps({'score': float((workspace / 'both').read_text() == 'setup\\ntool\\n')}))\n"
    )
    case = scripted(
        {"tool": "Bash", "input": {"command": "echo tool >> both"}},
        {"say": "hello"},
        setup=("echo setup > both; echo kept > /tmp/farm-$$ && cat /tmp/farm-$$ && rm /tmp/farm-$$",),
        evaluators=(
            {"type": "code_judge", "command": ["python3", "judge.py"], "files": ("judge.py",)},
            {"type": "file_contains", "path": "both", "value": "tool"},
        ),
    )
    result = run(tmp_path, case, isolation=isolation)

    assert result.report.outcome == "passed", result.report


def test_in_a_sandbox_neither_tool_nor_judge_reaches_what_is_not_theirs(tmp_path, requires_bubblewrap):
    outside, workspace = tmp_path / "outside", tmp_path / "source"
    workspace.mkdir()
    judge = 'echo changed > $(sed \'s/.*workspace_path": "\\([^"]*\\).*/\\1/\')/kept || echo \'{"score": 1}\''
    steps = [
        {"tool": "Bash", "input": {"command": command}} for command in (f"touch {outside}", "echo > kept")
    ]
    case = scripted(*steps, {"say": "hello"}, evaluators=({"type": "code_judge", "command": judge},))
    result = run(workspace, case, isolation="bubblewrap")

    assert result.report.outcome == "passed", result.report
    assert not outside.exists()
    assert result.transcript is not None
    assert [call.is_error for call in result.transcript.tool_calls()] == [True, False]


def test_a_session_that_puts_a_link_in_the_place_of_its_workspace_shows_nobody_where_it_leads(tmp_path):
    outside, source = tmp_path / "outside", tmp_path / "source"
    outside.mkdir()
    source.mkdir()
    (outside / "secret").write_text("hello")
    swap = f'here=$PWD; cd ..; mv "$here" "$here.gone" && ln -s {outside} "$here"'
    case = scripted(
        {"tool": "Bash", "input": {"command": swap}},
        {"say": "hello"},
        evaluators=({"type": "file_contains", "path": "secret", "value": "hello"},),
    )
    result = run(source, case)

    assert result.report.outcome == "errored"
    assert result.report.error is not None
    assert result.report.error.kind == "workspace_replaced"
    assert "secret" not in result.report.model_dump_json()


def test_that_a_session_cost_more_than_is_known_is_told(tmp_path, monkeypatch):
    class Paid(ScriptedAgent):
        def run(self, session: Session) -> Transcript:
            failure = SessionError("api_error", "gone", retryable=True)
            failure.cost_usd, failure.cost_is_partial = 3.0, True
            raise failure

    monkeypatch.setitem(AGENTS, "scripted", Paid())
    report = run(tmp_path, scripted({"say": "hello"})).report
    assert (report.outcome, report.cost_usd, report.cost_is_partial) == ("errored", 3.0, True)
    assert report.warnings == (
        "the session has cost more than this: what its last request cost is not known",
    )
