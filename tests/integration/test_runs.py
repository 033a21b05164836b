"""A whole run by the library alone: submitted, carried out, aggregated and fetched in this process."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from farm.agents.session_files import read_session
from farm.errors import OutputError, UsageError
from farm.model.agent import CommandSpec, ScriptedSpec
from farm.model.limits import LimitSpec
from farm.model.report import SuiteReport
from farm.model.suite import Case, Suite
from farm.queue import carry_out as carrying
from farm.queue.broker import Broker
from farm.queue.carry_out import WorkPlace, carry_out, retry_delay_ms
from farm.queue.collect import aggregate
from farm.queue.compression import compress, decompress
from farm.queue.following import UnknownRunError, follow_run
from farm.queue.planning import RunOptions
from farm.queue.report_directory import check_out, fetch_report
from farm.queue.submit import new_run_id, submit_run
from farm.reporting.json import dump_report, parse_report
from farm.sessions.removal import remove_tree
from farm.settings import Settings
from tests.integration.carrying import carry_out_all
from tests.unit.builders import case as make_case

Ran = tuple[SuiteReport, Path]


def scripted(case_id: str, said: str = "hello", **fields: Any) -> Case:
    return make_case(**{"id": case_id, "agent": "scripted", "script": [{"say": said}], **fields})


class Running:
    """Submits suites and carries them out, as a submitter and a worker would."""

    def __init__(self, place: WorkPlace, root: Path) -> None:
        self.place = place
        self.root = root

    def submit(self, *cases: Case, settings: Settings | None = None, **options: Any) -> str:
        run_id = new_run_id()
        suite = Suite(name="demo", root=str(self.root), cases=cases)
        options = {"out": self.root / "out", "workspace": self.root, **options}
        check_out(options["out"]).remove()
        assert submit_run(suite, settings or Settings(), RunOptions(**options), self.place.broker, run_id)
        return run_id

    def carry_out_all(self, run_id: str) -> None:
        carry_out_all(run_id, self.place)

    def __call__(self, *cases: Case, out: Path | None = None, **options: Any) -> Ran:
        out = out or self.root / "out"
        run_id = self.submit(*cases, out=out, **options)
        self.carry_out_all(run_id)
        assert aggregate(run_id, self.place.broker)
        path = fetch_report(self.place.broker, run_id, out)
        return parse_report(path.read_bytes()), out


@pytest.fixture
def run(place: WorkPlace, tmp_path: Path) -> Running:
    return Running(place, tmp_path)


def test_every_case_is_in_the_report_once(run):
    report, _ = run(scripted("b", "bye"), scripted("a"), scripted("c", skip="not today"))
    assert [(case.id, case.outcome) for case in report.cases] == [
        ("a", "passed"),
        ("b", "failed"),
        ("c", "skipped"),
    ]
    assert report.state == "complete"
    assert (report.engine.executions, report.engine.workers) == (2, 1)


def test_the_report_and_the_transcripts_are_written(run):
    report, out = run(scripted("a", trials={"count": 2}))
    written = json.loads((out / "report.json").read_text())
    assert written["run_id"] == report.run_id
    names = [trial["transcript"] for trial in written["cases"][0]["trials"]]
    assert names == ["transcripts/00001.json", "transcripts/00002.json"]
    assert read_session(out / names[0]).final_text == "hello"


def test_a_report_written_case_by_case_is_the_same_as_one_written_whole(run):
    report, out = run(scripted("a"), scripted("b", "bye"), scripted("c", skip="not today"))
    assert (out / "report.json").read_bytes() == dump_report(report)


def test_a_run_without_anything_to_do_has_a_report(run):
    run_id = run.submit(scripted("a", skip="not today"))
    assert aggregate(run_id, run.place.broker)
    report = parse_report(fetch_report(run.place.broker, run_id, run.root / "out").read_bytes())
    assert [case.outcome for case in report.cases] == ["skipped"]


def test_aggregating_twice_writes_the_same_report_and_finishes_once(run):
    run_id = run.submit(scripted("a"), scripted("b", "bye"))
    run.carry_out_all(run_id)
    broker = run.place.broker
    assert aggregate(run_id, broker)
    first = fetch_report(broker, run_id, run.root / "first").read_bytes()
    broker.client.hset(f"farm:run:{run_id}", "state", "aggregating")  # as after a crash before the end
    assert aggregate(run_id, broker)
    assert fetch_report(broker, run_id, run.root / "second").read_bytes() == first
    assert not aggregate(run_id, broker)


def test_trials_repeat_a_case(run):
    report, _ = run(scripted("a", trials={"count": 3}))
    assert [trial.trial for trial in report.cases[0].trials] == [1, 2, 3]


def test_the_command_line_wins_over_the_case(run):
    settings = Settings(agents={"mine": ScriptedSpec(model="agents-own")})
    case = scripted("a", model="cases-own")
    report, _ = run(case, settings=settings, agent="mine", model="from-the-command-line")
    assert (report.cases[0].agent, report.cases[0].model) == ("mine", "from-the-command-line")
    report, _ = run(case, settings=settings)
    assert (report.cases[0].agent, report.cases[0].model) == ("scripted", "cases-own")
    report, _ = run(scripted("a"), settings=settings, agent="mine")
    assert report.cases[0].model == "agents-own"
    report, _ = run(scripted("a"), settings=Settings(model="farms-own"))
    assert report.cases[0].model == "farms-own"


def test_the_workspace_is_the_cases_then_farm_yamls_then_here(run, tmp_path, monkeypatch):
    for name in ("cases", "farms", "here"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
    monkeypatch.chdir(tmp_path / "here")

    def files_of(workspace: str | None, settings: Settings) -> str:
        exists = [{"type": "file_exists", "path": "*.txt"}]
        report, _ = run(
            scripted("a", workspace=workspace, evaluators=exists), settings=settings, workspace=None
        )
        return " ".join(report.cases[0].trials[0].verdicts[0].hits)

    assert "cases.txt" in files_of("cases", Settings(workspace="farms"))
    assert "farms.txt" in files_of(None, Settings(workspace="farms"))
    assert "here.txt" in files_of(None, Settings())


def test_what_a_case_refers_to_travels_with_it(run, tmp_path):
    judge = tmp_path / "judge" / "judge.sh"
    judge.parent.mkdir()
    judge.write_text("#!/bin/sh\necho '{\"score\": 1}'\n")
    judge.chmod(0o755)
    evaluators = [{"type": "code_judge", "command": ["judge/judge.sh"], "files": ["judge/judge.sh"]}]
    case = scripted("a", evaluators=evaluators, files=["judge/judge.sh"])
    run_id = run.submit(case)
    judge.unlink()  # what was submitted is what is run
    run.carry_out_all(run_id)
    aggregate(run_id, run.place.broker)
    report = parse_report(fetch_report(run.place.broker, run_id, tmp_path / "out").read_bytes())
    assert report.cases[0].outcome == "passed", report.cases[0].trials


def test_an_errored_trial_is_tried_again_as_a_new_attempt(run, monkeypatch):
    monkeypatch.setattr(carrying, "retry_delay_ms", lambda errors: 1)
    report, _ = run(scripted("a", script=[{"crash": "the API is down"}]), scripted("b"))
    (trial,) = report.cases[0].trials
    assert (trial.outcome, trial.attempt) == ("errored", 3)
    assert trial.error is not None
    assert (trial.error.kind, trial.error.retryable) == ("crashed", True)
    assert (report.engine.executions, report.engine.retries) == (4, 2)


def test_an_error_that_no_retry_can_help_is_not_tried_again(run, tmp_path):
    settings = Settings(agents={"gone": CommandSpec(command="no-such-program")})
    report, _ = run(make_case(id="a", agent="gone"), settings=settings)
    assert (report.cases[0].trials[0].attempt, report.engine.executions) == (1, 1)


def test_retries_can_be_turned_off(run):
    report, _ = run(scripted("a", script=[{"crash": "down"}]), retries=0)
    assert report.cases[0].trials[0].attempt == 1


def test_the_wait_before_a_retry_grows():
    waits = [[retry_delay_ms(errors) for _ in range(50)] for errors in (1, 2, 3)]
    assert max(waits[0]) < min(waits[1])
    assert max(waits[1]) < min(waits[2])
    assert len(set(waits[0])) > 1  # not all at the same time


def test_a_large_result_is_a_blob_and_arrives_whole(run):
    said = "hello " * 50_000
    report, _ = run(scripted("a", said))
    assert report.cases[0].trials[0].output == said


def test_output_that_is_no_utf_8_does_not_break_the_report(run, tmp_path):
    command = r"""printf '{"text": "hello \\ud800"}' > {OUTPUT_FILE}"""
    settings = Settings(agents={"odd": CommandSpec(command=command)})
    report, _ = run(make_case(id="a", agent="odd"), settings=settings)
    assert report.cases[0].outcome == "passed"


def test_a_cancelled_run_keeps_what_is_done_and_says_what_is_not(run):
    run_id = run.submit(scripted("a"), scripted("b"), scripted("c"))
    broker = run.place.broker
    job = next(job for job in broker.ledger.waiting(run_id) if job.case_id == "a")
    carry_out(job, run.place)
    assert broker.ledger.cancel(run_id)
    for left in broker.ledger.waiting(run_id):
        carry_out(left, run.place)  # refused
    assert aggregate(run_id, broker)
    report = parse_report(fetch_report(broker, run_id, run.root / "out").read_bytes())
    assert report.state == "cancelled"
    assert [case.outcome for case in report.cases] == ["passed", "cancelled", "cancelled"]
    assert broker.ledger.resume(run_id) == 2
    run.carry_out_all(run_id)
    assert aggregate(run_id, broker)
    report = parse_report(fetch_report(broker, run_id, run.root / "out").read_bytes())
    assert (report.state, report.totals.passed) == ("complete", 3)


def test_a_budget_stops_a_run(run):
    command = """printf '{"text": "hello", "cost_usd": 0.4}' > {OUTPUT_FILE}"""
    settings = Settings(agents={"dear": CommandSpec(command=command)})
    cases = [make_case(id=name, agent="dear", max_cost_usd=0.5) for name in "abcd"]
    report, _ = run(*cases, settings=settings, max_cost_usd=1.0)
    assert report.state == "over_budget"
    assert report.totals.passed == 2
    assert report.totals.cost_usd == pytest.approx(0.8)


def test_limits_of_farm_yaml_hold_for_an_agent(run):
    name = f"agent-{secrets.token_hex(4)}"  # limits hold for all runs of the server
    limits = {name: LimitSpec(starts_per_minute=1), "another": LimitSpec(concurrency=1)}
    settings = Settings(agents={name: ScriptedSpec()}, limits=limits)
    run_id = run.submit(scripted("a"), scripted("b"), settings=settings, agent=name)
    for job in list(run.place.broker.ledger.waiting(run_id)):
        carry_out(job, run.place)
    status = run.place.broker.ledger.status(run_id)
    assert (status.done, status.executions) == (1, 1)


def test_following_gives_every_case_once_and_then_the_end(run):
    run_id = run.submit(scripted("a", trials={"count": 2}), scripted("b", "bye"))
    run.carry_out_all(run_id)
    aggregate(run_id, run.place.broker)
    updates = list(follow_run(run.place.broker, run_id))
    seen = [(case.id, case.outcome) for update in updates for case in update.cases]
    assert sorted(seen) == [("a", "passed"), ("b", "failed")]
    assert [update.is_last for update in updates] == [False] * (len(updates) - 1) + [True]
    assert updates[-1].outcomes == {"passed": 1, "failed": 1}


def test_following_an_unknown_run_says_so(run):
    with pytest.raises(UnknownRunError, match='no run "nothing" here'):
        list(follow_run(run.place.broker, "nothing"))


def test_kept_directories_are_named(run):
    run_id = run.submit(scripted("a", "bye"), scripted("b"), keep="failed")
    run.carry_out_all(run_id)
    aggregate(run_id, run.place.broker)
    kept = [kept for update in follow_run(run.place.broker, run_id) for kept in update.kept]
    assert [(each.case_id, each.worker) for each in kept] == [("a", "here")]
    directory = Path(kept[0].directory)
    assert directory.is_dir()
    shutil.rmtree(directory)


def test_a_kept_trial_with_paths_too_long_to_name_has_its_outcome_its_transcript_and_its_price(
    run, tmp_path, tmp_path_factory, monkeypatch
):
    monkeypatch.setenv("HTTPS_PROXY", "http://farm:proxy-password@127.0.0.1:9")
    place = tmp_path_factory.mktemp("kept")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    dig = "for i in 1 2 3 4; do d=$(printf 'd/%.0s' $(seq 1100)); mkdir -p $d; cd -P $d; done"
    answer = """printf '{"text": "bye", "cost_usd": 0.25}' > {OUTPUT_FILE}"""
    settings = Settings(agents={"deep": CommandSpec(command=f"{answer}; {dig}; echo $HTTPS_PROXY > x")})
    report, out = run(make_case(id="a", agent="deep"), settings=settings, keep="failed")

    (trial,) = report.cases[0].trials
    assert (trial.outcome, trial.error, trial.attempt, trial.cost_usd) == ("failed", None, 1, 0.25)
    assert (report.engine.executions, report.totals.cost_usd) == (1, 0.25)
    assert trial.transcript is not None
    assert read_session(out / trial.transcript).final_text == "bye"
    found = subprocess.run(("grep", "-rl", "proxy-password", str(place)), capture_output=True, check=False)
    assert (found.returncode, found.stdout) == (1, b"")
    assert remove_tree(place)  # pytest could not


def test_what_breaks_once_a_trial_has_begun_is_not_told_as_if_it_had_not(run, monkeypatch):
    def break_down(_plan: object) -> None:
        raise OSError("a bug of ours")

    monkeypatch.setattr(carrying, "run_trial", break_down)
    run_id = run.submit(scripted("a"))
    (job,) = run.place.broker.ledger.waiting(run_id)
    with pytest.raises(OSError, match="a bug of ours"):
        carry_out(job, run.place)


def test_an_out_directory_holds_nothing_of_an_earlier_run(run, tmp_path):
    run(scripted("a"), scripted("b"))
    mine = tmp_path / "out" / "notes.txt"
    mine.write_text("not the farm's")
    report, out = run(scripted("c"))
    assert [path.name for path in (out / "transcripts").iterdir()] == ["00001.json"]
    assert json.loads((out / "report.json").read_text())["run_id"] == report.run_id
    assert mine.exists()


def test_an_out_directory_that_can_not_be_made_is_the_users_to_mend(run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written to"):
        run(scripted("a"), out=tmp_path / "file" / "out")


def test_the_report_of_a_run_is_not_in_the_workspaces_of_the_next(run):
    run(scripted("a"))
    look = [{"tool": "Bash", "input": {"command": "find ."}}, {"say": "hello"}]
    _, out = run(scripted("a", script=look))
    (call,) = read_session(out / "transcripts" / "00001.json").tool_calls()
    assert "report" not in str(call.output)
    assert "out" not in str(call.output)


def test_run_ids_sort_by_time_and_differ():
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", new_run_id())
    assert new_run_id() != new_run_id()


def test_a_report_that_can_not_be_written_is_no_bug_and_no_verdict(run, tmp_path):
    run_id = run.submit(scripted("a"))
    run.carry_out_all(run_id)
    aggregate(run_id, run.place.broker)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="can't be written") as caught:
        fetch_report(run.place.broker, run_id, tmp_path / "file")
    assert caught.value.exit_code == 3


def test_a_directory_that_is_written_to_again_loses_nothing_but_the_earlier_run(run):
    _, out = run(scripted("a"), scripted("b"))
    (out / "transcripts" / "mine.json").write_text("{}")
    run(scripted("a"))
    assert sorted(path.name for path in (out / "transcripts").iterdir()) == ["00001.json", "mine.json"]


@pytest.mark.parametrize("content", ["{}", "[]", "not JSON", '{"schema": "another"}'])
def test_a_report_of_another_program_is_not_overwritten(tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text(content)
    with pytest.raises(UsageError, match="is no report of the farm; choose another --out"):
        check_out(tmp_path / "out")
    assert (tmp_path / "out" / "report.json").read_text() == content


def test_only_the_report_that_was_there_before_is_removed(run):
    _, out = run(scripted("a"))
    earlier = check_out(out)
    run_id = run.submit(scripted("b"))
    run.carry_out_all(run_id)
    aggregate(run_id, run.place.broker)
    fetch_report(run.place.broker, run_id, out)
    earlier.remove()
    assert parse_report((out / "report.json").read_bytes()).run_id == run_id
    check_out(out).remove()
    assert list((out / "transcripts").iterdir()) == []
    assert not (out / "report.json").exists()


def test_a_plan_that_can_not_even_be_claimed_ends_as_errored_and_the_run_ends(run):
    limits = {"two\nlines": LimitSpec(concurrency=1)}  # which no farm.yaml may say
    run_id = run.submit(scripted("a", model="two\nlines"), settings=Settings(limits=limits))
    run.carry_out_all(run_id)
    assert aggregate(run_id, run.place.broker)
    report = parse_report(fetch_report(run.place.broker, run_id, run.root / "out").read_bytes())
    (trial,) = report.cases[0].trials
    assert (trial.outcome, trial.error and trial.error.kind) == ("errored", "internal_error")


def test_a_plan_of_another_version_ends_as_errored_and_the_run_ends(run):
    run_id = run.submit(scripted("a"), scripted("b"))
    broker = run.place.broker
    plan = json.loads(decompress(broker.ledger.case(run_id, "a"), max_bytes=10**6))
    row = compress(json.dumps({**plan, "of_tomorrow": 1}).encode())
    broker.client.hset(f"farm:run:{run_id}:cases", "a", row)
    run.carry_out_all(run_id)
    assert aggregate(run_id, broker)
    report = parse_report(fetch_report(broker, run_id, run.root / "out").read_bytes())
    assert [case.outcome for case in report.cases] == ["errored", "passed"]
    assert report.cases[0].trials[0].error is not None
    assert report.cases[0].trials[0].error.kind == "unreadable_plan"


def test_a_worker_with_another_store_says_so(run, tmp_path_factory):
    run_id = run.submit(scripted("a"), retries=0)
    elsewhere = Broker(run.place.broker.url, tmp_path_factory.mktemp("other").as_uri())
    lost = WorkPlace("lost", elsewhere, run.place.heartbeat, tmp_path_factory.mktemp("cache"))
    (job,) = elsewhere.ledger.waiting(run_id)
    carry_out(job, lost)
    assert not aggregate(run_id, elsewhere)
    status = elsewhere.ledger.status(run_id)
    assert status is not None
    assert "another FARM_STORE_URL" in (status.trouble or "")
    assert aggregate(run_id, run.place.broker)
    report = parse_report(fetch_report(run.place.broker, run_id, run.root / "out").read_bytes())
    error = report.cases[0].trials[0].error
    assert error is not None
    assert (error.kind, "another FARM_STORE_URL" in error.message) == ("wrong_store", True)
    elsewhere.client.close()


def test_an_aggregator_that_was_overtaken_does_not_have_the_last_word(run, monkeypatch):
    run_id = run.submit(scripted("a"), scripted("b"))
    broker = run.place.broker
    job = next(iter(broker.ledger.waiting(run_id)))
    carry_out(job, run.place)
    broker.ledger.cancel(run_id)
    write = type(broker.archive).write

    def write_late(self, *arguments):
        # Before its report is written, the run is resumed and comes to another end.
        monkeypatch.undo()
        time.sleep(0.01)
        broker.ledger.resume(run_id)
        run.carry_out_all(run_id)
        write(self, *arguments)

    monkeypatch.setattr(type(broker.archive), "write", write_late)
    assert not aggregate(run_id, broker)
    assert aggregate(run_id, broker)
    report = parse_report(fetch_report(broker, run_id, run.root / "out").read_bytes())
    assert (report.state, report.totals.passed) == ("complete", 2)
