"""How a run ends that is held against an earlier one."""

from __future__ import annotations

import pytest

from farm.cli.yardstick import Yardstick, yardstick_code
from farm.errors import OutputError, UsageError
from farm.model.report import SuiteReport
from farm.reporting.compare import compare, standing_of
from farm.reporting.json import dump_report
from tests.unit.builders import suite_report
from tests.unit.reporting.test_compare import compared, report


def run(**outcomes: str) -> SuiteReport:
    return suite_report(*(report(name, outcome) for name, outcome in sorted(outcomes.items())))


@pytest.mark.parametrize(
    ("before", "after", "on_failure", "on_regression"),
    [
        (run(a="passed"), run(a="passed"), 0, 0),
        (run(a="passed"), run(a="failed"), 1, 1),
        (run(a="failed"), run(a="failed"), 1, 0),
        (run(), run(a="failed"), 1, 0),  # what is new has not regressed
        (run(a="passed"), run(), 0, 1),  # what is missing has
        (run(a="passed"), run(a="errored"), 3, 3),
        (run(a="passed"), run(a="failed", b="errored"), 1, 1),
        (run(a="failed"), run(a="failed", b="errored"), 1, 3),
        (run(a="errored"), run(a="failed"), 1, 3),  # nobody knows whether it is worse
        (run(a="errored"), run(a="passed"), 0, 0),
        (None, run(a="failed"), 1, 0),
        (None, run(a="cancelled"), 3, 3),
    ],
)
def test_the_exit_code_is_that_of_what_the_user_cares_about(before, after, on_failure, on_regression):
    comparison = None if before is None else compared(before, after)
    codes = [yardstick_code(fail_on, after, comparison) for fail_on in ("failure", "regression", "never")]
    assert codes == [on_failure, on_regression, 0]


def test_a_run_whose_budget_ended_is_never_fine():
    stopped = run(a="passed").model_copy(update={"state": "over_budget"})
    assert yardstick_code("regression", stopped, compared(run(a="passed"), stopped)) == 3


def test_a_comparison_is_written_beside_the_report(tmp_path, capsys):
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(run(a="failed")))
    baseline, _ = standing_of(run(a="passed"))
    assert Yardstick("regression", baseline).measure(path, as_json=False) == 1
    assert capsys.readouterr().out == (
        "✗ a  regressed: passed → failed\nCompared with 20260101-000000-abcdef: 1 regressed\n"
    )
    now, _ = standing_of(run(a="failed"))
    written = (tmp_path / "comparison.json").read_text()
    assert compare(baseline, now).model_dump_json()[1:40] in written.replace("\n", "").replace(" ", "")
    assert "### Regressed (1)" in (tmp_path / "report.md").read_text()


def test_with_json_the_comparison_is_not_on_standard_output(tmp_path, capsys):
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(run(a="passed")))
    Yardstick("failure", standing_of(run(a="passed"))[0]).measure(path, as_json=True)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "Compared with 20260101-000000-abcdef: 1 still passing\n")


def test_a_comparison_of_another_program_is_neither_written_over_nor_removed(tmp_path):
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(run(a="passed")))
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(UsageError, match="none of the farm's"):
        Yardstick("failure", standing_of(run())[0]).check(tmp_path)
    Yardstick().measure(path, as_json=False)
    assert (tmp_path / "comparison.json").read_text() == "{}"


def test_a_file_that_can_not_be_written_is_told_of(tmp_path):
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(run(a="passed")))
    with pytest.raises(OutputError, match="can't be written"):
        Yardstick(junit=tmp_path / "nowhere" / "junit.xml").measure(path, as_json=False)
