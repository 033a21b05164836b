"""What a trial reserves of a run's money, and what it is charged: agents and judges together."""

from __future__ import annotations

from typing import Any

import pytest

from farm.model.agent import CommandSpec, ScriptedSpec
from farm.model.job import CasePlan
from farm.queue.costs import attempt_cost_usd, reserve_usd
from tests.unit.builders import case as make_case
from tests.unit.builders import trial

JUDGES = (
    {"type": "stdout_review", "stdout": {"review": "r"}},
    {"type": "composite", "evaluators": ({"type": "llm_judge", "prompt": "p", "samples": 3},)},
)


def plan(*, free: bool = False, judged: bool = True, **case: Any) -> CasePlan:
    return CasePlan(
        case=make_case(evaluators=JUDGES if judged else ({"type": "contains", "value": "x"},), **case),
        agent="a",
        spec=ScriptedSpec() if free else CommandSpec(command="x"),
        timeout_seconds=1,
    )


@pytest.mark.parametrize(
    ("planned", "reserved"),
    [
        (plan(judged=False), 1.0),
        (plan(), 1.4),
        (plan(max_cost_usd=0.2), 0.6),
        (plan(free=True), 0.4),
        (plan(free=True, judged=False), 0.0),
    ],
)
def test_each_judgement_is_reserved_beside_the_agent(planned, reserved):
    assert reserve_usd(planned) == pytest.approx(reserved)


@pytest.mark.parametrize(
    ("planned", "figures", "charged"),
    [
        (plan(), {"cost_usd": 0.25, "judge_cost_usd": 0.05}, 0.3),
        (plan(free=True), {"judge_cost_usd": 0.05}, 0.05),
        (plan(free=True), {}, 0.0),  # the session failed, and nobody was asked
        # Unknown: as it was reserved, unless what is known is more already.
        (plan(), {"judge_cost_usd": 0.05}, None),
        (plan(), {"cost_usd": 0.25, "judge_unknown_costs": 1}, None),
        (plan(), {"cost_usd": 0.25, "cost_is_partial": True}, None),
        (plan(), {"cost_usd": 3.0, "cost_is_partial": True}, 3.0),
        (plan(free=True), {"judge_unknown_costs": 1}, None),
        (plan(), {"cost_usd": 3.0, "judge_cost_usd": 0.05, "judge_unknown_costs": 1}, 3.05),
    ],
)
def test_what_is_charged_includes_the_judges(planned, figures, charged):
    found = attempt_cost_usd(planned, trial("passed", **figures))
    assert found == (None if charged is None else pytest.approx(charged))
