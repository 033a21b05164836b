"""What people are told of a scheduled run."""

from __future__ import annotations

import json

import pytest

from farm.model.report import CaseReport, SuiteReport
from farm.reporting.compare import compare, standing_of
from farm.reporting.notification import Notification, dump_notification, events_of, with_outcome, with_text
from farm.reporting.summarize import summarize_case
from tests.unit.builders import case, suite_report, trial


def run(**outcomes: str) -> SuiteReport:
    return suite_report(*(_case(case_id, outcome) for case_id, outcome in outcomes.items()))


def _case(case_id: str, outcome: str) -> CaseReport:
    return summarize_case(case(id=case_id), [trial(outcome)], agent="scripted", model=None)


WELL, FAILING, ERRORED = run(a="passed"), run(a="failed"), run(a="errored")


@pytest.mark.parametrize(
    ("before", "now", "events"),
    [
        (None, WELL, []),
        (None, FAILING, ["failure"]),
        (WELL, WELL, []),
        (WELL, FAILING, ["regression", "failure"]),
        (FAILING, FAILING, ["failure"]),
        (FAILING, WELL, ["recovery"]),
        (WELL, ERRORED, ["errors"]),
        (ERRORED, WELL, ["recovery"]),
        (FAILING, ERRORED, ["errors"]),
        (ERRORED, FAILING, ["failure", "errors"]),  # nobody can say whether it is worse
        (FAILING, run(b="passed"), ["regression"]),  # not well again: it is gone
        (WELL, WELL.model_copy(update={"state": "over_budget"}), ["errors"]),
        (WELL.model_copy(update={"state": "cancelled"}), WELL, ["recovery"]),
    ],
)
def test_the_events_of_a_run(before: SuiteReport | None, now: SuiteReport, events: list[str]):
    comparison = compare(standing_of(before)[0], standing_of(now)[0]) if before else None
    assert list(events_of(now, before, comparison)) == events


def test_text_of_others_is_shown_and_not_obeyed():
    hostile = "x\x1b[31m\n<!channel> @here <http://evil|ok>\u202e"
    before, now = run(**{hostile: "passed"}), run(**{hostile: "failed"})
    told = Notification(
        event="regression", schedule="n", suite="s", run_id="r", state="complete", report="here"
    )
    comparison = compare(standing_of(before)[0], standing_of(now)[0])
    told = with_text(with_outcome(told, now, comparison))
    assert told.regressed == (r"x\x1b[31m <!channel> @here <http://evil|ok>\u202e",)
    assert told.text == (
        r"s, n: worse than before · x\x1b[31m ‹!channel› ＠here ‹http://evil|ok›\u202e · 1 failed · run r: here"  # noqa: RUF001
    )
    assert json.loads(dump_notification(told))["schema"] == "farm.notification/1"


def test_of_many_cases_the_first_are_named_and_all_are_counted():
    names = [f"case-{number:03}" for number in range(100)]
    before, now = run(**dict.fromkeys(names, "passed")), run(**dict.fromkeys(names, "failed"))
    told = Notification(
        event="regression", schedule="n", suite="s", run_id="r", state="complete", report="here"
    )
    told = with_text(with_outcome(told, now, compare(standing_of(before)[0], standing_of(now)[0])))
    assert (told.regressed_count, len(told.regressed)) == (100, 20)
    assert "case-000, case-001, case-002 and 97 more" in told.text


def test_a_lone_surrogate_does_not_break_the_json():
    told = Notification(
        event="errors", schedule="n", suite="s", run_id="r", state="x", reason="\ud800", report="none"
    )
    assert json.loads(dump_notification(told))["reason"] == "?"
