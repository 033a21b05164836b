"""A report that is read a case at a time is the same as one that is read whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from farm.errors import FarmError
from farm.reporting import report_file
from farm.reporting.json import dump_report
from farm.reporting.report_file import ReportFile
from tests.unit.builders import suite_report
from tests.unit.reporting.hostile import hostile_report, hostile_text


@settings(max_examples=30, deadline=None)
@given(hostile_text)
def test_the_cases_of_a_file_are_those_of_the_report(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("report") / "report.json"
    path.write_bytes(dump_report(hostile_report(text)))
    whole = ReportFile(path).whole
    for size in (7, 1000, 2**20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(report_file, "_CHUNK_BYTES", size)
            assert tuple(ReportFile(path).cases()) == whole.cases
            data = path.read_bytes()
            for at, case in ReportFile(path).raw_cases():
                assert data[at : at + len(case)] == case
    assert ReportFile(path).head == whole.model_copy(update={"cases": ()})


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_a_report_that_another_program_has_laid_out_anew_is_still_one(tmp_path, indent):
    path = tmp_path / "report.json"
    report = hostile_report("x")
    path.write_text(json.dumps(json.loads(dump_report(report)), indent=indent))
    assert ReportFile(path).head == report.model_copy(update={"cases": ()})
    assert tuple(ReportFile(path).cases()) == report.cases


def test_a_report_without_cases_has_none(tmp_path):
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(suite_report()))
    assert list(ReportFile(path).cases()) == []


def test_a_report_that_is_cut_off_or_changed_is_told_in_one_sentence(tmp_path):
    path = tmp_path / "report.json"
    data = dump_report(hostile_report("x"))
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(FarmError, match="not a report of this farm, or cut off"):
        list(ReportFile(path).cases())
    path.write_bytes(data.replace(b'"outcome"', b'"outcame"'))
    with pytest.raises(FarmError, match="can't be read: is it of another version of the farm"):
        list(ReportFile(path).cases())
