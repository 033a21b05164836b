from __future__ import annotations

import pytest

from farm.cli.status import _effort_lines
from farm.queue.ledger import RunStatus


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "executions: 9, 1 retry, 1 duplicate"), (2, "executions: 9, 2 retries, 2 duplicates")],
)
def test_one_retry_is_not_many(count, said):
    status = RunStatus(
        run_id="r", state="running", total=5, done=0, leased=0, executions=9, retries=count,
        duplicate_executions=count, spent_usd=0.0, reserved_usd=0.0, budget_usd=None, unknown_costs=0,
        stopped=None, trouble=None, cancelled=False, created_at_ms=0, closed_at_ms=None, finished_at_ms=None,
        fields={},
    )  # fmt: skip
    assert list(_effort_lines(status)) == [said]
