"""A directory that a report is written to: what is the farm's in it goes with the report, what is not stays."""

from __future__ import annotations

import pytest

from farm.errors import OutputError, UsageError
from farm.queue.report_directory import check_out, copy_report
from farm.reporting.changes import dump_comparison
from farm.reporting.compare import compare, standing_of
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


def test_a_report_that_is_brought_again_leaves_what_lies_beside_it_and_another_does_not(tmp_path):
    out = tmp_path / "out"
    kept, other = (tmp_path / name / "report.json" for name in ("kept", "other"))
    for path, report in ((kept, suite_report()), (other, suite_report(run_id="20260102-000000-abcdef"))):
        path.parent.mkdir()
        path.write_bytes(dump_report(report))
    write_beside(copy_report(kept, out))
    (out / "report.md").write_text("with a comparison")
    (out / "comparison.json").write_bytes(
        dump_comparison(compare(*(standing_of(suite_report())[0] for _ in range(2))))
    )
    write_beside(copy_report(kept, out), only_missing=True)
    assert (out / "report.md").read_text() == "with a comparison"
    assert (out / "comparison.json").exists()
    copy_report(other, out)
    assert {path.name for path in out.iterdir()} == {"report.json", "transcripts"}
    write_beside(out / "report.json", only_missing=True)
    assert {path.name for path in out.iterdir()} == {"report.json", "transcripts", *FILES}


def test_transcripts_and_logs_go_with_their_report_and_what_is_not_ours_stays(tmp_path):
    kept, out = tmp_path / "kept", tmp_path / "out"
    ours = {"00001.json", "00001.stream.jsonl", "00001.session.jsonl"}
    (kept / "transcripts").mkdir(parents=True)
    (kept / "report.json").write_bytes(dump_report(suite_report()))
    for name in ours:
        (kept / "transcripts" / name).touch()
    copy_report(kept / "report.json", out)
    others = {"00002.json.bak", "mine.jsonl", "1.json", "00001.other.jsonl"}
    for name in others:
        (out / "transcripts" / name).touch()
    assert {path.name for path in (out / "transcripts").iterdir()} == ours | others
    check_out(out).remove()
    assert {path.name for path in (out / "transcripts").iterdir()} == others


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
