from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from farm.errors import EvaluatorError
from farm.evaluators.dates import parse_date
from farm.model.messages import Message
from farm.model.verdict import Verdict
from tests.unit.evaluators.builders import a_case, session, verdict

INVOICE = {
    "id": "X1",
    "lines": [{"amount": 10.2}, {"amount": 5}],
    "paid": True,
    "due": "2025-01-15",
    "note": None,
}


def accuracy(answer: Any, *fields: Any, expected: Any = INVOICE, **more: Any) -> Verdict:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    listed = [{"path": field} if isinstance(field, str) else field for field in fields]
    return verdict(session(text=text, case=a_case(expected)), type="field_accuracy", fields=listed, **more)


def one(answer_value: Any, expected_value: Any, **field: Any) -> Verdict:
    return accuracy({"v": answer_value}, {"path": "v", **field}, expected={"v": expected_value})


def test_the_score_is_the_weighted_share_of_fields_that_agree():
    answer = {**INVOICE, "id": "X2"}
    found = accuracy(answer, "id", {"path": "paid", "weight": 3})
    assert (found.score, found.outcome) == (0.75, "failed")
    assert found.hits == ("paid: true",)
    assert found.misses == ('id: "X2", expected "X1"',)
    assert accuracy(answer, "id", {"path": "paid", "weight": 4}).outcome == "passed"


def test_all_or_nothing():
    found = accuracy(
        {**INVOICE, "id": "X2"}, "id", {"path": "paid", "weight": 9}, aggregation="all_or_nothing"
    )
    assert (found.score, found.outcome) == (0.0, "failed")
    assert accuracy(INVOICE, "id", "paid", aggregation="all_or_nothing").score == 1.0


def test_a_missing_field_is_a_miss_and_a_missing_required_one_takes_the_whole_score():
    answer = {"paid": True}
    found = accuracy(answer, "id", {"path": "paid", "weight": 9})
    assert (found.score, found.misses) == (0.9, ("id: missing",))
    found = accuracy(answer, {"path": "id", "required": True}, {"path": "paid", "weight": 9})
    assert (found.score, found.outcome, found.misses) == (0.0, "failed", ("id: missing (required)",))


def test_a_required_field_that_is_there_but_wrong_only_costs_its_weight():
    found = accuracy({**INVOICE, "id": "X2"}, {"path": "id", "required": True}, {"path": "paid", "weight": 9})
    assert found.score == 0.9


@pytest.mark.parametrize("path", ["lines[1].amount", "lines[0]", "note", "lines"])
def test_paths_lead_into_lists_and_mappings(path):
    assert accuracy(INVOICE, path).score == 1.0


def test_a_list_that_is_too_short_lacks_the_field():
    assert accuracy({"lines": [{"amount": 10.2}]}, "lines[1].amount").misses == ("lines[1].amount: missing",)


def test_the_last_expected_message_is_compared():
    messages = (Message(role="user", content={"v": 1}), Message(role="assistant", content={"v": 2}))
    context = session(text='{"v": 2}', case=a_case(expected_messages=messages))
    assert verdict(context, type="field_accuracy", fields=[{"path": "v"}]).score == 1.0


def test_a_list_at_the_root_can_be_entered():
    assert accuracy([[1, 2]], "[0][1]", expected=[[3, 2]]).score == 1.0


@pytest.mark.parametrize("path", ["lines[2].amount", "idd", "lines.amount", "id.x", "[0]", "id[0]"])
def test_a_path_that_the_expected_value_lacks_is_errored_never_passed(path):
    for answer in (INVOICE, "no json"):
        found = accuracy(answer, "id", path)
        assert found.outcome == "errored"
        assert found.reasoning == f'field "{path}" is not in the expected message'


@pytest.mark.parametrize("path", ["a..b", ".a", "a.", "a[", "a[x]", "a[-1]", "a]b", "a[0]b"])
def test_a_path_that_is_none_is_errored(path):
    found = accuracy(INVOICE, path)
    assert found.outcome == "errored"
    assert found.reasoning is not None
    assert "is not like invoice.lines[0].amount" in found.reasoning


@pytest.mark.parametrize(
    ("answer", "expected", "agree"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, None, True),
        ("a", "A", False),
        ("1", 1, False),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2.0}]}, True),
        ({"a": [True]}, {"a": [1]}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        (10**30, 10**30, True),
    ],
)
def test_exact_is_deep_equality_of_json(answer, expected, agree):
    assert one(answer, expected).score == float(agree)


@pytest.mark.parametrize(
    ("answer", "expected", "tolerance", "relative", "agree"),
    [
        (10.3, 10.2, 0.1, False, True),  # 0.10000000000000142 apart in binary
        (10.31, 10.2, 0.1, False, False),
        (9.9, 10, 0.1, False, True),
        (105, 100, 0.05, True, True),
        (106, 100, 0.05, True, False),
        (-95, -100, 0.05, True, True),
        (0.01, 0, 0.05, True, False),
        (7, 7, 0, False, True),
        ("10.25", 10.2, 0.1, False, True),
        (" -3 ", -3, 0, False, True),
        ("1e2", 100, 0, False, True),
        ("1,234.50", 1234.5, 1, False, False),
        ("$10", 10, 1, False, False),
        ("", 0, 1, False, False),
        ("NaN", 0, 1, False, False),
        (True, 1, 1, False, False),
        (None, 0, 1, False, False),
        ([1], 1, 1, False, False),
        ("9" * 300, 1, 1, False, False),
        ("1e999", 1, 1, False, False),
    ],
)
def test_numbers_within_the_tolerance_agree(answer, expected, tolerance, relative, agree):
    found = one(answer, expected, match="numeric_tolerance", tolerance=tolerance, relative=relative)
    assert found.score == float(agree)


def test_a_number_too_large_for_a_float_does_not_agree():
    found = accuracy('{"v": 1e999}', {"path": "v", "match": "numeric_tolerance"}, expected={"v": 1})
    assert found.outcome == "failed"


@pytest.mark.parametrize(
    ("answer", "expected", "formats", "agree"),
    [
        ("2025-01-15", "2025-01-15", (), True),
        ("15-Jan-2025", "2025-01-15", (), True),
        ("January 15, 2025", "2025-01-15", (), True),
        ("Jan 5, 2025", "2025-01-05", (), True),
        ("2025-01-15T10:00:00Z", "2025-01-15", (), True),
        ("2025-01-15 10:00", "2025-01-15", (), True),
        ("2025-01-16", "2025-01-15", (), False),
        ("01/02/2025", "2025-01-02", (), False),  # ambiguous: only with a format
        ("01/02/2025", "2025-01-02", ("MM/DD/YYYY",), True),
        ("01/02/2025", "2025-02-01", ("DD/MM/YYYY",), True),
        ("2025-02-01", "2025-02-01", ("DD/MM/YYYY",), False),
        ("31.12.2025 23:59:59", "2025-12-31", ("DD.MM.YYYY HH:mm:ss",), True),
        ("2025-02-30", "2025-02-28", (), False),
        ("soon", "2025-02-28", (), False),
        (20250115, "2025-01-15", (), False),
        (None, "2025-01-15", (), False),
    ],
)
def test_dates_in_any_of_the_formats_agree_by_day(answer, expected, formats, agree):
    assert one(answer, expected, match="date", formats=formats).score == float(agree)


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d", "YYYY-QQ-DD", "YYYY-MM", "MM-DD", "YYYY-MM-MM-DD", "YYYY-MM-MMM-DD"]
)
def test_a_date_format_that_is_none_is_errored(form):
    with pytest.raises(EvaluatorError, match="date format"):
        parse_date("2025-01-15", (form,))
    assert one("2025-01-15", "2025-01-15", match="date", formats=[form]).outcome == "errored"


def test_month_names_are_read_whole_or_by_three_letters_in_any_case():
    assert parse_date("3-MAY-2025", ()) == date(2025, 5, 3)
    assert parse_date("3 september 2025", ()) == date(2025, 9, 3)
    assert parse_date("3 Septem 2025", ()) is None


@pytest.mark.parametrize(("match", "value"), [("numeric_tolerance", "ten"), ("date", "someday"), ("date", 5)])
def test_an_expected_value_that_does_not_suit_the_match_is_errored(match, value):
    assert one("1", value, match=match).outcome == "errored"


def test_the_answer_may_be_prose_with_one_block_of_json():
    block = "```json\n" + json.dumps(INVOICE) + "\n```"
    assert accuracy(f"Here it is:\n{block}\nDone.", "id").score == 1.0
    assert accuracy(f"```python\nprint(1)\n```\n{block.replace('json', '', 1)}", "id").score == 1.0
    for text in (f"{block}\n{block}", "Here: {}", "```json\n{]\n```", "", "```json\n{}"):
        found = accuracy(text, "id")
        assert (found.score, found.outcome) == (0.0, "failed")
        assert found.misses[0].startswith("the answer is not JSON")


@pytest.mark.parametrize(
    "expected", [json.dumps(INVOICE), [{"type": "text", "value": json.dumps(INVOICE)}], INVOICE]
)
def test_the_expected_message_may_be_data_or_a_text_of_json(expected):
    assert accuracy(INVOICE, "id", expected=expected).score == 1.0


def test_without_an_expected_value_it_is_errored():
    assert accuracy(INVOICE, "id", expected="just words").outcome == "errored"
    assert accuracy(INVOICE, "id", expected=None).outcome == "errored"


def test_fields_without_any_weight_are_errored():
    assert accuracy(INVOICE, {"path": "id", "weight": 0}).outcome == "errored"
