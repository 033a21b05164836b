"""The formats of a report."""

from __future__ import annotations

import pytest

from farm.errors import FarmError
from farm.model.report import CaseReport, Engine, SuiteReport, Totals, TrialReport
from farm.reporting.formats import FORMATS
from farm.reporting.json import dump_report, parse_report, read_head

CASE = CaseReport(
    id="a",
    name='"cases": [',
    file="a.yaml",
    agent="scripted",
    outcome="passed",
    trials=(TrialReport(trial=1, outcome="passed"),),
)
REPORT = SuiteReport(
    run_id="r",
    suite='x\n  "cases": [',
    state="complete",
    started_at="2026-01-02T03:04:05.000Z",
    totals=Totals(cases=1, passed=1),
    engine=Engine(),
    cases=(CASE,),
)


def test_every_format_has_a_file_of_its_own():
    files = [known.file for known in FORMATS.values()]
    assert len(set(files)) == len(files)


def test_json_is_what_a_run_writes():
    assert parse_report(FORMATS["json"].render(REPORT)) == REPORT


def test_text_is_what_a_run_prints():
    assert FORMATS["text"].render(REPORT).decode() == '✓ a  "cases": [\nResults: 1/1 passed\n'


@pytest.mark.parametrize("report", [REPORT, REPORT.model_copy(update={"cases": ()})])
def test_the_head_of_a_report_is_all_but_its_cases(tmp_path, report):
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(report))
    assert read_head(path) == report.model_copy(update={"cases": ()})


def test_a_file_that_is_no_report_has_no_head(tmp_path):
    path = tmp_path / "report.json"
    for text in ("{}", '{\n  "schema": "other/1",\n  "cases": []\n}\n'):
        path.write_text(text)
        with pytest.raises(FarmError, match="not a report of this farm"):
            read_head(path)
