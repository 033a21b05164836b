"""Say what an attempt at a trial reserves of a run's money, and what it is charged: agents and judges."""

from __future__ import annotations

from farm.judging import questions_of
from farm.model.job import CasePlan
from farm.model.report import TrialReport

DEFAULT_RESERVE_USD = 1.0  # for an agent whose case names no limit
JUDGE_RESERVE_USD = 0.1  # for one judgement of an LLM


def reserve_usd(plan: CasePlan) -> float:
    """Say what a start may cost at most, as far as anybody knows: only runs with --max-cost ask."""
    judgements = sum(question.samples for question in questions_of(plan.case.evaluators))
    judges = judgements * JUDGE_RESERVE_USD
    if plan.spec.is_written_down:
        return judges
    return (plan.case.max_cost_usd or DEFAULT_RESERVE_USD) + judges


def attempt_cost_usd(plan: CasePlan, report: TrialReport) -> float | None:
    """Give what an attempt cost, judges included; None if nobody knows: it is charged as it was reserved."""
    agent = 0.0 if plan.spec.is_written_down else report.cost_usd
    known = (agent or 0.0) + (report.judge_cost_usd or 0.0)
    is_known = agent is not None and not report.cost_is_partial and not report.judge_unknown_costs
    return known if is_known or known > reserve_usd(plan) else None
