from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from farm.agents.registry import AGENTS
from farm.agents.session_files import read_session
from farm.errors import OutputError, UsageError
from farm.in_process import RunOptions, new_run_id, run_in_process
from farm.model.agent import ScriptedSpec
from farm.model.suite import Case, Suite
from farm.settings import Settings
from tests.unit.builders import case as make_case


def scripted(case_id: str, said: str = "hello", **fields: Any) -> Case:
    return make_case(id=case_id, agent="scripted", script=[{"say": said}], **fields)


def run(tmp_path: Path, *cases: Case, settings: Settings | None = None, **options: Any):
    suite = Suite(name="demo", root=str(tmp_path), cases=cases)
    options = {"out": tmp_path / "out", "workspace": tmp_path, **options}
    return run_in_process(suite, settings or Settings(), RunOptions(**options))


def test_every_case_is_in_the_report_once(tmp_path):
    report, _ = run(tmp_path, scripted("a"), scripted("b", "bye"), scripted("c", skip="not today"))
    assert [(case.id, case.outcome) for case in report.cases] == [
        ("a", "passed"),
        ("b", "failed"),
        ("c", "skipped"),
    ]
    assert report.state == "complete"
    assert report.engine.executions == 2


def test_the_report_and_the_transcripts_are_written(tmp_path):
    report, out = run(tmp_path, scripted("a", trials={"count": 2}))
    written = json.loads((out / "report.json").read_text())
    assert written["run_id"] == report.run_id
    names = [trial["transcript"] for trial in written["cases"][0]["trials"]]
    assert names == ["transcripts/00001.json", "transcripts/00002.json"]
    assert read_session(out / names[0]).final_text == "hello"


def test_trials_repeat_a_case(tmp_path):
    report, _ = run(tmp_path, scripted("a", trials={"count": 3}))
    assert [trial.trial for trial in report.cases[0].trials] == [1, 2, 3]


def test_the_command_line_wins_over_the_case(tmp_path):
    settings = Settings(agents={"mine": ScriptedSpec(model="agents-own")})
    case = scripted("a", model="cases-own")
    report, _ = run(tmp_path, case, settings=settings, agent="mine", model="from-the-command-line")
    assert (report.cases[0].agent, report.cases[0].model) == ("mine", "from-the-command-line")
    report, _ = run(tmp_path, case, settings=settings)
    assert (report.cases[0].agent, report.cases[0].model) == ("scripted", "cases-own")
    report, _ = run(tmp_path, scripted("a"), settings=settings, agent="mine")
    assert report.cases[0].model == "agents-own"
    report, _ = run(tmp_path, scripted("a"), settings=Settings(model="farms-own"))
    assert report.cases[0].model == "farms-own"


def test_the_workspace_is_the_cases_then_farm_yamls_then_here(tmp_path, monkeypatch):
    for name in ("cases", "farms", "here"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
    monkeypatch.chdir(tmp_path / "here")

    def files_of(workspace: str | None, settings: Settings) -> str:
        exists = [{"type": "file_exists", "path": "*.txt"}]
        report, _ = run(
            tmp_path, scripted("a", workspace=workspace, evaluators=exists), settings=settings, workspace=None
        )
        return " ".join(report.cases[0].trials[0].verdicts[0].hits)

    assert "cases.txt" in files_of("cases", Settings(workspace="farms"))
    assert "farms.txt" in files_of(None, Settings(workspace="farms"))
    assert "here.txt" in files_of(None, Settings())


def test_an_interrupted_run_keeps_what_is_done_and_says_what_is_not(tmp_path, monkeypatch):
    scripted_agent = AGENTS["scripted"]

    class Interrupted:
        acts = True

        def run(self, session):
            if session.case.id == "b":
                raise KeyboardInterrupt
            return scripted_agent.run(session)

    monkeypatch.setitem(AGENTS, "scripted", Interrupted())
    report, out = run(tmp_path, scripted("a"), scripted("b"), scripted("c"))
    assert report.state == "interrupted"
    assert [case.outcome for case in report.cases] == ["passed", "cancelled", "cancelled"]
    assert json.loads((out / "report.json").read_text())["state"] == "interrupted"


def test_an_out_directory_holds_nothing_of_an_earlier_run(tmp_path):
    run(tmp_path, scripted("a"), scripted("b"))
    mine = tmp_path / "out" / "notes.txt"
    mine.write_text("not the farm's")
    report, out = run(tmp_path, scripted("c"))
    assert [path.name for path in (out / "transcripts").iterdir()] == ["00001.json"]
    assert json.loads((out / "report.json").read_text())["run_id"] == report.run_id
    assert mine.exists()


def test_an_out_directory_that_can_not_be_made_is_the_users_to_mend(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written to"):
        run(tmp_path, scripted("a"), out=tmp_path / "file" / "out")


def test_the_report_of_a_run_is_not_in_the_workspaces_of_the_next(tmp_path):
    run(tmp_path, scripted("a"))
    look = make_case(
        agent="scripted",
        script=[{"tool": "Bash", "input": {"command": "find ."}}, {"say": "hello"}],
    )
    _, out = run(tmp_path, look)
    (call,) = read_session(out / "transcripts" / "00001.json").tool_calls()
    assert "report" not in str(call.output)
    assert "out" not in str(call.output)


def test_run_ids_sort_by_time_and_differ():
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", new_run_id())
    assert new_run_id() != new_run_id()


def test_a_report_that_can_not_be_written_is_no_bug_and_no_verdict(tmp_path):
    remove = {"tool": "Bash", "input": {"command": f"rm -rf {tmp_path / 'out'}"}}
    with pytest.raises(OutputError, match="can't be written: No such file or directory") as caught:
        run(tmp_path, make_case(id="a", agent="scripted", script=[remove]))
    assert caught.value.exit_code == 3


def test_a_directory_that_is_written_to_again_loses_nothing_but_the_earlier_run(tmp_path):
    _, out = run(tmp_path, scripted("a"), scripted("b"))
    (out / "transcripts" / "mine.json").write_text("{}")
    run(tmp_path, scripted("a"))
    assert sorted(path.name for path in (out / "transcripts").iterdir()) == ["00001.json", "mine.json"]


@pytest.mark.parametrize("content", ["{}", "[]", "not JSON", '{"schema": "another"}'])
def test_a_report_of_another_program_is_not_overwritten(tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text(content)
    with pytest.raises(UsageError, match="is no report of the farm; choose another --out"):
        run(tmp_path, scripted("a"))
    assert (tmp_path / "out" / "report.json").read_text() == content
