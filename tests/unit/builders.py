"""Small real models for tests; each test names only what it is about."""

from __future__ import annotations

from typing import Any

from farm.model.messages import Message
from farm.model.report import CaseReport, Engine, SuiteReport, TrialReport
from farm.model.suite import Case
from farm.model.verdict import Verdict
from farm.reporting.summarize import total


def case(**fields: Any) -> Case:
    """A case that says hello."""
    return Case.model_validate(
        {
            "id": "greeting",
            "name": "Greeting",
            "file": "greeting.yaml",
            "input_messages": (Message(role="user", content="Say hello"),),
            "evaluators": ({"type": "contains", "value": "hello"},),
            **fields,
        }
    )


def trial(outcome: str, number: int = 1, **fields: Any) -> TrialReport:
    """A trial with an outcome."""
    return TrialReport.model_validate({"trial": number, "outcome": outcome, **fields})


def verdict(outcome: str, **fields: Any) -> Verdict:
    """A verdict with an outcome."""
    return Verdict.model_validate({"name": "contains", "type": "contains", "outcome": outcome, **fields})


def suite_report(*cases: CaseReport, **fields: Any) -> SuiteReport:
    """A finished run of some cases."""
    return SuiteReport.model_validate(
        {
            "run_id": "20260101-000000-abcdef",
            "suite": "demo",
            "state": "complete",
            "started_at": "2026-01-01T00:00:00.000Z",
            "totals": total(cases),
            "engine": Engine(),
            "cases": cases,
            **fields,
        }
    )
