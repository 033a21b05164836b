"""A run's transcripts judged again, by the library alone: paired, submitted, carried out and reported here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farm.cli import main
from farm.cli.bringing import bring_report
from farm.errors import FarmError, UsageError
from farm.model.agent import CommandSpec
from farm.model.limits import LimitSpec
from farm.model.report import CaseReport, SuiteReport, TrialReport
from farm.model.suite import Case, Suite, Trials
from farm.queue.carry_out import WorkPlace
from farm.queue.collect import aggregate
from farm.queue.following import UnknownRunError
from farm.queue.planning import RunOptions
from farm.queue.regrading import EarlierRun, files_of_run, pair_cases, regrade_run
from farm.queue.report_directory import fetch_report
from farm.queue.rows import parse_plan
from farm.queue.submit import new_run_id, submit_run
from farm.reporting.json import dump_report, parse_report
from farm.settings import Settings
from tests.integration.carrying import carry_out_all
from tests.unit.builders import case as make_case
from tests.unit.builders import suite_report, trial

HELLO = [{"type": "contains", "value": "hello"}]
BYE = [{"type": "contains", "value": "bye"}]
# What a program says of its session: figures that no replay would have by itself.
COMMAND = (
    """printf '{"text": "bye %s", "cost_usd": 0.5, "token_usage": {"input": 7, "output": 3}}' {ATTEMPT}"""
)


def scripted(case_id: str, said: str = "hello", **fields: Any) -> Case:
    return make_case(
        **{"id": case_id, "agent": "scripted", "script": [{"say": said}], "evaluators": HELLO, **fields}
    )


class Running:
    """Submits, regrades and carries out, as a submitter and a worker would."""

    def __init__(self, place: WorkPlace, root: Path) -> None:
        self.place = place
        self.root = root

    def suite(self, *cases: Case) -> Suite:
        return Suite(name="demo", root=str(self.root), cases=cases)

    def run(self, *cases: Case, settings: Settings | None = None) -> EarlierRun:
        run_id = new_run_id()
        options = RunOptions(workspace=self.root, retries=0)
        assert submit_run(self.suite(*cases), settings or Settings(), options, self.place.broker, run_id)
        return self.finish(run_id)

    def regrade(self, earlier: EarlierRun, *cases: Case, settings: Settings | None = None) -> EarlierRun:
        run_id = new_run_id()
        suite = pair_cases(self.suite(*cases), earlier.report)
        assert regrade_run(suite, earlier, settings or Settings(), self.place.broker, run_id)
        return self.finish(run_id)

    def finish(self, run_id: str) -> EarlierRun:
        carry_out_all(run_id, self.place)
        assert aggregate(run_id, self.place.broker)
        path = fetch_report(self.place.broker, run_id, self.root / run_id)
        return EarlierRun(parse_report(path.read_bytes()), path.parent)


@pytest.fixture
def farm(place: WorkPlace, tmp_path: Path) -> Running:
    return Running(place, tmp_path)


def outcomes(run: EarlierRun) -> dict[str, str]:
    return {case.id: case.outcome for case in run.report.cases}


def test_todays_evaluators_judge_yesterdays_sessions(farm):
    earlier = farm.run(scripted("a", "bye"), scripted("b"))
    assert outcomes(earlier) == {"a": "failed", "b": "passed"}
    # What the files would have the agent do now is of no account: it does not run.
    later = farm.regrade(
        earlier, scripted("a", "hello", evaluators=BYE), scripted("b", "bye", evaluators=BYE)
    )
    assert outcomes(later) == {"a": "passed", "b": "failed"}
    assert (earlier.report.regraded_from, later.report.regraded_from) == (None, earlier.report.run_id)
    assert later.report.run_id != earlier.report.run_id
    # And what was regraded can be regraded again.
    assert outcomes(farm.regrade(later, scripted("a"), scripted("b"))) == outcomes(earlier)


def test_each_trial_is_judged_by_its_own_session(farm):
    script = [{"tool": "Bash", "input": {"command": "pwd | cksum"}}, {"say": "hello"}]
    trials = Trials(count=3)
    earlier = farm.run(scripted("a", script=script, trials=trials))
    (case,) = earlier.report.cases
    shuffled = case.model_copy(
        update={"trials": case.trials[::-1]}
    )  # as another program may have written them
    report = earlier.report.model_copy(update={"cases": (shuffled,)})
    # The number of trials is the run's; the policy is today's.
    later = farm.regrade(replace(earlier, report=report), scripted("a", trials=Trials(count=1, policy="any")))

    def sessions(run: EarlierRun) -> list[bytes]:
        (case,) = run.report.cases
        return [(run.directory / str(trial.transcript)).read_bytes() for trial in case.trials]

    assert sessions(later) == sessions(earlier)
    assert len(set(sessions(later))) == 3
    assert [trial.duration_ms for trial in later.report.cases[0].trials] == [
        trial.duration_ms for trial in earlier.report.cases[0].trials
    ]


def test_the_figures_are_those_of_the_recorded_sessions_and_nothing_is_spent(farm):
    settings = Settings(
        agents={"mine": CommandSpec(command=COMMAND)}, limits={"mine": LimitSpec(concurrency=1)}
    )
    case = make_case(id="a", agent="mine", model="m-1", evaluators=BYE)
    earlier = farm.run(case, settings=settings)
    later = farm.regrade(earlier, case.model_copy(update={"model": "m-2"}), settings=settings)
    assert later.report.totals.cost_usd == 0.5
    assert (later.report.totals.input_tokens, later.report.totals.output_tokens) == (7, 3)
    assert [(case.agent, case.model) for case in later.report.cases] == [("mine", "m-1")]
    ledger = farm.place.broker.ledger
    status = ledger.status(later.report.run_id)
    assert status is not None
    assert (status.spent_usd, status.unknown_costs) == (0.0, 0)
    plan = parse_plan(ledger.case(later.report.run_id, "a") or b"")
    assert (plan.spec.kind, plan.limits, plan.bundle) == ("replay", {}, None)


def test_an_agent_of_farm_yaml_that_is_called_replay_does_not_run(farm):
    settings = Settings(agents={"replay": CommandSpec(command="echo hello {PROMPT}; touch ran")})
    case = make_case(id="a", agent="replay", evaluators=[{"type": "files_changed", "expect": ["ran"]}])
    earlier = farm.run(case, settings=settings)
    later = farm.regrade(
        earlier, case, settings=Settings(agents={"replay": CommandSpec(command="false {PROMPT}")})
    )
    assert outcomes(later) == {"a": "passed"}


def test_what_has_no_session_keeps_its_error(farm):
    crashing = scripted("a", script=[{"crash": "boom"}])
    later = farm.regrade(farm.run(crashing, scripted("b")), scripted("a"), scripted("b"))
    (again,) = later.report.cases[0].trials
    assert outcomes(later) == {"a": "errored", "b": "passed"}
    assert again.error is not None
    assert (again.error.kind, again.error.message) == ("crashed", "boom")


def test_a_transcript_that_is_gone_broken_or_elsewhere_is_no_verdict(farm):
    cases = [scripted(case_id) for case_id in "abcd"]
    earlier = farm.run(*cases)
    gone, broken, elsewhere, empty = earlier.report.cases
    (earlier.directory / str(empty.trials[0].transcript)).write_bytes(b"")
    (earlier.directory / str(gone.trials[0].transcript)).unlink()
    (earlier.directory / str(broken.trials[0].transcript)).write_text("{")
    (farm.root / "secret.json").write_text(json.dumps({"text": "hello"}))
    astray = elsewhere.model_copy(
        update={"trials": (elsewhere.trials[0].model_copy(update={"transcript": "../secret.json"}),)}
    )
    report = earlier.report.model_copy(update={"cases": (gone, broken, astray, empty)})
    later = farm.regrade(EarlierRun(report, earlier.directory), *cases)
    errors = [case.trials[0].error for case in later.report.cases]
    assert [error and error.kind for error in errors] == [
        "no_transcript",
        "bad_replay",
        "no_transcript",
        "no_transcript",
    ]


def test_cases_without_a_counterpart_are_skipped_and_say_why(farm):
    earlier = farm.run(scripted("a"), scripted("gone", "bye"), scripted("idle", skip="not then"))
    later = farm.regrade(
        earlier, scripted("a"), scripted("idle"), scripted("new"), scripted("off", skip="not now")
    )
    run_id = earlier.report.run_id
    assert [(case.id, case.outcome, case.skip_reason) for case in later.report.cases] == [
        ("a", "passed", None),
        ("gone", "skipped", "it is not in the test files any more"),
        ("idle", "skipped", f"it was skipped in run {run_id}"),
        ("new", "skipped", f"run {run_id} has no session of it"),
        ("off", "skipped", "not now"),
    ]
    with pytest.raises(UsageError, match=f"no case in the test files has a session in run {run_id}"):
        pair_cases(farm.suite(scripted("other")), earlier.report)


def test_a_cancelled_trial_is_not_judged(farm):
    earlier = farm.run(scripted("a"))
    case = earlier.report.cases[0].model_copy(
        update={"trials": (TrialReport(trial=1, outcome="cancelled"),), "outcome": "cancelled"}
    )
    report = earlier.report.model_copy(update={"cases": (case,)})
    later = farm.regrade(EarlierRun(report, earlier.directory), scripted("a"))
    error = later.report.cases[0].trials[0].error
    assert error is not None
    assert "was not carried out" in error.message


def test_evaluators_of_files_can_not_judge_but_changes_and_programs_can(farm, tmp_path):
    (tmp_path / "judge.py").write_text(
        "import json, sys; print(json.dumps({'score': float(json.load(sys.stdin)['candidate_answer'] == 'bye')}))"
    )
    script = [{"tool": "Write", "input": {"file_path": "out.txt", "content": "x"}}, {"say": "bye"}]
    earlier = farm.run(scripted("a", script=script, evaluators=BYE))
    evaluators = [
        {"type": "file_exists", "path": "out.txt"},
        {"type": "files_changed", "expect": ["out.txt"]},
        {"type": "code_judge", "command": ["python3", "judge.py"], "files": ["judge.py"]},
    ]
    later = farm.regrade(earlier, scripted("a", evaluators=evaluators, files=["judge.py"]))
    verdicts = later.report.cases[0].trials[0].verdicts
    assert [(verdict.type, verdict.outcome) for verdict in verdicts] == [
        ("file_exists", "errored"),
        ("files_changed", "passed"),
        ("code_judge", "passed"),
    ]
    assert "no workspace is kept" in str(verdicts[0].reasoning)


def test_the_files_of_run_a_run_are_found_by_its_cases(tmp_path):
    for name in (
        "login.yaml",
        "deep/eval.yml",
        "lines.jsonl",
        "lines.yaml",
        "cases/one.yaml",
        "main.yaml",
        "a#1.yaml",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    cases = {
        "login": "login.yaml",
        "login#2": "login.yaml",
        "deep/eval::x": "deep/eval.yml",
        "lines::y": "lines.jsonl",
        "main::one": "cases/one.yaml",  # written in a case file that main.yaml names
        "a#1": "a#1.yaml",
        "gone": "gone.yaml",
    }
    report = SuiteReport(
        run_id="r",
        suite="s",
        state="complete",
        started_at="",
        totals={},
        engine={},
        cases=tuple(
            CaseReport(id=case_id, name="n", file=file, agent="claude", outcome="passed")
            for case_id, file in cases.items()
        ),
    )
    found = [str(path.relative_to(tmp_path)) for path in files_of_run(report, tmp_path)]
    assert found == ["login.yaml", "deep/eval.yml", "lines.jsonl", "main.yaml", "a#1.yaml"]


def test_llm_judges_are_those_of_the_agent_that_ran_and_have_a_budget_and_limits_of_their_own(farm):
    earlier = farm.run(scripted("a"))
    case = earlier.report.cases[0].model_copy(update={"agent": "claude", "model": "m-1"})
    report = earlier.report.model_copy(update={"cases": (case,)})
    judged = make_case(
        id="a", agent="anthropic", evaluators=[{"type": "llm_judge", "prompt": "Is it polite?"}]
    )
    limits = {name: LimitSpec(concurrency=1) for name in ("claude", "other")}
    run_id = new_run_id()
    suite = pair_cases(farm.suite(judged), report)
    regrade_run(
        suite,
        EarlierRun(report, earlier.directory),
        Settings(limits=limits),
        farm.place.broker,
        run_id,
        max_cost_usd=2.0,
    )
    plan = parse_plan(farm.place.broker.ledger.case(run_id, "a") or b"")
    judge = plan.judges[""]
    assert (plan.spec.kind, plan.agent, plan.model) == ("replay", "claude", "m-1")
    assert (judge.spec.kind, judge.agent, judge.model) == ("claude", "claude", "m-1")
    assert plan.limits.keys() == {"claude"}
    status = farm.place.broker.ledger.status(run_id)
    assert status is not None
    assert status.budget_usd == 2.0
    farm.place.broker.ledger.cancel(run_id)


def test_what_can_not_be_regraded_is_told(server, tmp_path, monkeypatch):
    monkeypatch.setenv("FARM_BROKER_URL", server.broker_url)
    monkeypatch.chdir(tmp_path)
    Path("farm.yaml").touch()
    Path("here.yaml").write_text("name: n\nprompt: p\nassertions: [{tool: Read}]\n")

    def refusal(*arguments: str) -> str:
        with pytest.raises(FarmError) as refused:
            main._run(["regrade", *arguments])
        assert refused.value.exit_code == 2
        return str(refused.value)

    assert refusal("nowhere") == 'there is no run "nowhere" here; `farm status` lists those there are'
    Path("other.json").write_text("{}")
    assert "not a report of this farm" in refusal("other.json")
    elsewhere = CaseReport(id="elsewhere", name="n", file="elsewhere.yaml", agent="a", outcome="passed")
    Path("other.json").write_bytes(dump_report(suite_report(elsewhere, run_id="r")))
    assert refusal("other.json").startswith(f"no test file of run r is under {tmp_path}; name them")
    assert refusal("other.json", "here.yaml").startswith("no case in the test files has a session in run r")
    here = CaseReport(
        id="here", name="n", file="here.yaml", agent="a", outcome="errored", trials=[trial("errored")]
    )
    Path("other.json").write_bytes(dump_report(suite_report(here, run_id="r")))
    assert refusal("other.json", "--out", "x").startswith("--out needs --wait")
    assert refusal("other.json", "--case", "nope").startswith("no case matches --case nope")
    assert not Path(".farm").exists()
    assert not Path("x").exists()


def test_a_report_is_found_in_the_store_when_the_broker_has_forgotten_the_run(farm, monkeypatch, tmp_path):
    broker = farm.place.broker
    earlier = farm.run(scripted("a"))
    run_id = earlier.report.run_id
    for key in broker.client.scan_iter(f"*{run_id}*"):
        broker.client.delete(key)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("FARM_BROKER_URL", broker.url)
    monkeypatch.setenv("FARM_STORE_URL", broker.store_url or "")
    if broker.store_url is None:
        with pytest.raises(UnknownRunError):
            bring_report(run_id, tmp_path / "brought")
        return
    path = bring_report(run_id, tmp_path / "brought")
    assert parse_report(path.read_bytes()) == earlier.report
    assert (path.parent / str(earlier.report.cases[0].trials[0].transcript)).is_file()
