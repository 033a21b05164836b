"""A directory that a report is written to: what is the farm's in it goes with the report, what is not stays."""

from __future__ import annotations

import pytest

from farm.errors import OutputError, UsageError
from farm.queue.report_directory import check_out
from farm.reporting.formats import FORMATS_BESIDE, write_beside
from farm.reporting.json import dump_report
from tests.unit.builders import suite_report

FILES = {"junit.xml", "report.html", "report.md"}


def test_a_report_has_its_other_forms_beside_it_and_they_go_with_it(tmp_path):
    earlier = tmp_path / "report.json"
    earlier.write_bytes(dump_report(suite_report()))
    write_beside(earlier)
    assert {known.file for known in FORMATS_BESIDE} == FILES
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", *FILES}
    (tmp_path / "mine.html").touch()
    check_out(tmp_path).remove()
    assert {path.name for path in tmp_path.iterdir()} == {"mine.html", "transcripts"}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_of_anothers_is_not_written_over(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(
        UsageError, match=rf"{name} exists, and is no report of the farm; choose another --out"
    ):
        check_out(tmp_path)
    assert (tmp_path / name).read_text() == "mine"


def test_a_form_that_can_not_be_written_is_told_in_one_sentence(tmp_path):
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(suite_report()))
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OutputError, match="can't be written"):
        write_beside(path)
