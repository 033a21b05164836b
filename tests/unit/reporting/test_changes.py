"""A comparison for people, and as JSON."""

from __future__ import annotations

import json

from hypothesis import given, settings

from farm.reporting.changes import comparison_lines, dump_comparison
from farm.reporting.compare import compare, standing_of
from tests.unit.builders import suite_report
from tests.unit.reporting.hostile import hostile_report, hostile_text
from tests.unit.reporting.test_compare import compared, report

BEFORE = suite_report(
    report("broke", "passed"),
    report("crashed", "passed"),
    report("doubted", "passed", "passed", "passed"),
    report("fine", "passed"),
    report("gone", "failed"),
    report("mended", "failed"),
    report("old", "failed"),
    report("wavers", "passed"),
)
AFTER = suite_report(
    report("added", "passed"),
    report("broke", "failed"),
    report("crashed", "errored"),
    report("doubted", "failed", "passed", "failed"),
    report("fine", "passed"),
    report("mended", "passed"),
    report("old", "failed"),
    report("wavers", "passed", "failed", policy="any"),
)


def test_the_worst_comes_first_and_what_is_as_it_was_is_only_counted():
    assert list(comparison_lines(compared(BEFORE, AFTER))) == [
        "✗ broke  regressed: passed → failed",
        "✗ doubted  regressed: passed → failed, 3/3 → 1/3 trials passed (44 to 100 % → 6 to 79 %), uncertain",
        "✗ gone  missing: was failed",
        "! crashed  inconclusive: passed → errored",
        "! wavers  flaky: passed, 1/1 → 1/2 trials passed (one trial → 9 to 91 %)",
        "✓ mended  fixed: failed → passed",
        "- added  new: passed",
        "✗ old  still failing: failed",
        "Compared with 20260101-000000-abcdef: 2 regressed, 1 missing, 1 inconclusive, 1 flaky, 1 fixed, 1 new, "
        "1 still failing, 1 still passing",
    ]


def test_the_last_line_counts_what_was_not_selected():
    nothing, _ = standing_of(suite_report())
    *_, last = comparison_lines(compare(nothing, nothing, not_selected=3))
    assert last == "Compared with 20260101-000000-abcdef: 3 not selected"


def test_as_json_it_has_the_shape_that_others_build_on():
    data = json.loads(dump_comparison(compared(BEFORE, AFTER)))
    assert data["schema"] == "farm.comparison/1"
    assert data["states"]["regressed"] == 2
    assert data.keys() == {"schema", "before", "after", "states", "not_selected", "cases"}
    assert data["cases"][3] == {
        "id": "doubted",
        "name": "Greeting",
        "state": "regressed",
        "uncertain": True,
        "before": {"outcome": "passed", "flaky": False, "score": None, "passed": 3, "judged": 3, "interval": [0.4385, 1.0]},
        "after": {"outcome": "failed", "flaky": True, "score": None, "passed": 1, "judged": 3, "interval": [0.0615, 0.7923]},
    }  # fmt: skip
    assert dump_comparison(compared(BEFORE, AFTER)) == dump_comparison(compared(BEFORE, AFTER))


@settings(max_examples=25, deadline=None)
@given(hostile_text)
def test_no_text_of_a_run_reaches_the_terminal_as_a_command(text):
    comparison = compared(hostile_report(text), hostile_report("x"))
    for line in comparison_lines(comparison):
        assert not set(line) & set("\n\r\x00\x1b\u202e\u2066")
    assert json.loads(dump_comparison(comparison))["schema"]
