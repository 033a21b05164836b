"""What is marked in the history of a case."""

from __future__ import annotations

import pytest

from farm.cli.history import _flips
from farm.queue.history import PastCase
from tests.unit.builders import suite_report
from tests.unit.reporting.test_compare import report


@pytest.mark.parametrize(
    ("oldest_first", "flips"),
    [
        (["passed", "passed"], [None, None]),
        (["passed", "failed"], [None, "passed"]),
        (["passed", "errored", "failed"], [None, None, "passed"]),  # what was not judged says nothing
        (["errored", "failed", "passed", "passed"], [None, None, "failed", None]),
        (["skipped"], [None]),
    ],
)
def test_a_case_is_marked_when_it_is_judged_otherwise_than_the_last_time(oldest_first, flips):
    cases = [PastCase(suite_report(), report("a", outcome)) for outcome in reversed(oldest_first)]
    assert _flips(cases) == flips[::-1]
