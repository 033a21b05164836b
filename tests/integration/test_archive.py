"""The archive: what is kept of runs that are over, on a real broker and in a store."""

from __future__ import annotations

from io import BytesIO

import pytest

from farm.errors import FarmError, UsageError
from farm.model.report import SuiteReport
from farm.queue.archive import REPORT, Archive, BrokerArchive, NotArchivedError, blessing_key
from farm.queue.baselines import NoEarlierRunError, bless, blessed_runs, opened_report, read_standing
from farm.queue.broker import Broker
from farm.queue.history import JoinedArchive, past_cases, past_runs
from farm.reporting.json import dump_report, parse_report
from tests.unit.builders import suite_report
from tests.unit.reporting.test_compare import report


@pytest.fixture
def suite(run_id: str) -> str:
    """A suite of this test's own: the server is shared by many."""
    return f"suite of {run_id}"


def ignore(_: str) -> None:
    """Of the reports that other tests have broken."""


def keep(archive: Archive, suite: str, run_id: str, **outcomes: str) -> SuiteReport:
    cases = [report(name, outcome) for name, outcome in sorted(outcomes.items())]
    done = suite_report(*cases, suite=suite, run_id=run_id)
    archive.write(run_id, REPORT, BytesIO(dump_report(done)))
    return done


def test_runs_are_listed_newest_first_and_those_without_a_report_left_out(broker, suite, run_id):
    for number in (2, 1, 3):
        keep(broker.archive, suite, f"{run_id}-{number}", a="passed")
    broker.archive.write(f"{run_id}-4", "transcripts.tsv", BytesIO(b""))
    found = [name for name in broker.archive.runs() if name.startswith(run_id)]
    assert found == [f"{run_id}-{number}" for number in (4, 3, 2, 1)]
    heads = list(past_runs(broker.archive, ignore, suite=suite))
    assert [head.run_id for head in heads] == found[1:]
    assert all(head.cases == () and head.totals.passed == 1 for head in heads)


def test_lines_are_read_no_further_than_asked_for(broker, suite, run_id):
    done = keep(broker.archive, suite, run_id, **{f"case{number}": "passed" for number in range(200)})
    lines = broker.archive.lines(run_id, REPORT)
    assert next(lines) == b"{\n"
    lines.close()
    assert b"".join(broker.archive.lines(run_id, REPORT)) == dump_report(done)
    with pytest.raises(NotArchivedError):
        next(broker.archive.lines(f"{run_id}-none", REPORT))


def test_a_case_is_found_in_every_run_that_has_it(broker, suite, run_id):
    keep(broker.archive, suite, f"{run_id}-1", a="passed", b="failed")
    keep(broker.archive, suite, f"{run_id}-2", a="failed")
    keep(broker.archive, suite, f"{run_id}-3", b="passed")
    found = past_cases(broker.archive, "b", ignore, suite=suite)
    assert [(past.run.run_id[-1], past.case.outcome) for past in found] == [("3", "passed"), ("1", "failed")]


def test_a_broken_report_hides_no_other(broker, suite, run_id):
    keep(broker.archive, suite, f"{run_id}-1", a="passed")
    broker.archive.write(f"{run_id}-2", REPORT, BytesIO(b"{}"))
    told: list[str] = []
    heads = list(past_runs(broker.archive, told.append, suite=suite))
    assert [head.run_id for head in heads] == [f"{run_id}-1"]
    assert f"the report of run {run_id}-2: not a report of this farm" in told


def test_a_report_of_another_version_is_told_of_by_its_run_and_hides_no_other(broker, suite, run_id):
    keep(broker.archive, suite, f"{run_id}-1", a="passed")
    newer = dump_report(keep(broker.archive, suite, f"{run_id}-2", a="passed"))
    newer = newer.replace(b'      "id": "a",', b'      "id": "a",\n      "of_tomorrow": 1,')
    broker.archive.write(f"{run_id}-2", REPORT, BytesIO(newer))
    told: list[str] = []
    found = past_cases(broker.archive, "a", told.append, suite=suite)
    assert [past.run.run_id for past in found] == [f"{run_id}-1"]
    why = f"the report of run {run_id}-2: can't be read: is it of another version of the farm?"
    assert why in told
    with (
        pytest.raises(FarmError, match=why.replace("?", r"\?")),
        opened_report(f"{run_id}-2", broker.archive, ignore) as file,
    ):
        read_standing(file)


def test_a_run_of_a_part_of_the_suite_does_not_hide_the_rest(broker, suite, run_id):
    keep(broker.archive, suite, f"{run_id}-1", a="passed", b="failed")
    keep(broker.archive, suite, f"{run_id}-2", a="passed", b="passed")
    keep(broker.archive, suite, f"{run_id}-3", a="passed")

    def latest(*case_ids: str) -> str:
        with opened_report("latest", broker.archive, ignore, suite=suite, case_ids=set(case_ids)) as file:
            return file.head.run_id

    assert latest("a", "b") == f"{run_id}-2"
    assert latest("a", "b", "new") == f"{run_id}-2"
    assert latest("a") == f"{run_id}-3"
    assert latest("new") == f"{run_id}-3"


def test_the_latest_is_the_newest_complete_run_of_the_suite(broker, suite, run_id):
    with pytest.raises(NoEarlierRunError), opened_report("latest", broker.archive, ignore, suite=suite):
        pass
    keep(broker.archive, suite, f"{run_id}-1", a="passed")
    keep(broker.archive, f"another {suite}", f"{run_id}-2", a="passed")
    cancelled = suite_report(suite=suite, run_id=f"{run_id}-3", state="cancelled")
    broker.archive.write(cancelled.run_id, REPORT, BytesIO(dump_report(cancelled)))
    with opened_report("latest", broker.archive, ignore, suite=suite) as file:
        assert file.head.run_id == f"{run_id}-1"
    with (
        pytest.raises(NoEarlierRunError),
        opened_report("latest", broker.archive, ignore, suite=suite, before=f"{run_id}-1"),
    ):
        pass


def test_what_is_blessed_outlives_its_run_and_is_one_a_suite(broker: Broker, suite, run_id):
    archive = broker.archive
    with (
        pytest.raises(UsageError, match="is blessed; `farm bless RUN` does"),
        opened_report("blessed", archive, ignore, suite=suite),
    ):
        pass
    for number in (1, 2):
        keep(archive, suite, f"{run_id}-{number}", a="passed")
        with opened_report(f"{run_id}-{number}", archive, ignore) as file:
            assert bless(archive, file).run_id == f"{run_id}-{number}"
    if isinstance(archive, BrokerArchive):
        assert broker.client.ttl("farm:blessed") == -1
        broker.client.delete(f"farm:archive:{run_id}-2")
    with opened_report("blessed", archive, ignore, suite=suite) as file:
        assert file.whole.run_id == f"{run_id}-2"
    assert [head.run_id for head in blessed_runs(archive, ignore) if head.suite == suite] == [f"{run_id}-2"]


@pytest.mark.parametrize("suite", ["../../etc", "", ".", "a/b", "x" * 300, "\ud800", "naïve"])
def test_a_suite_of_any_name_has_a_key_that_is_a_name(suite):
    key = blessing_key(suite)
    assert "/" not in key
    assert not key.startswith(".")
    assert len(key) < 100
    assert key.isascii()
    assert key != blessing_key(f"{suite} ")


def test_two_archives_are_one(broker, suite, run_id, tmp_path):
    first, second = broker.archive, Broker("", f"file://{tmp_path}").archive
    keep(first, suite, f"{run_id}-1", a="passed")
    keep(second, suite, f"{run_id}-2", a="failed")
    keep(second, suite, f"{run_id}-1", a="failed")
    both = JoinedArchive(first, second)
    heads = list(past_runs(both, ignore, suite=suite))
    assert [(head.run_id[-1], head.totals.passed) for head in heads] == [("2", 0), ("1", 1)]
    with opened_report(f"{run_id}-2", both, ignore) as file:
        bless(both, file)
    target = BytesIO()
    first.read_blessed(blessing_key(suite), target)
    assert target.getvalue() == dump_report(file_report(second, f"{run_id}-2"))
    with pytest.raises(NotArchivedError):
        second.read_blessed(blessing_key(suite), BytesIO())
    assert blessing_key(suite) in both.blessed()


def file_report(archive: Archive, run_id: str) -> SuiteReport:
    target = BytesIO()
    archive.read(run_id, REPORT, target)
    return parse_report(target.getvalue())


@pytest.mark.parametrize("reference", ["nowhere", "../x", "a b", "x" * 5000, "empty"])
def test_what_is_no_report_is_told_in_one_sentence(broker, tmp_path, monkeypatch, reference):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FarmError) as told, opened_report(reference, broker.archive, ignore):
        pass
    assert told.value.exit_code == 2
