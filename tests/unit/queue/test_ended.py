"""What is said of a trial's end: names, kinds and numbers, and never what an agent or a test says."""

from __future__ import annotations

from typing import get_args

import pytest

from farm.model.agent import ScriptedSpec
from farm.model.job import CasePlan
from farm.model.report import TrialError
from farm.queue.ended import Ended, one_line, refused, stopped, written
from farm.queue.records import Refusal, Refused
from tests.unit.builders import case, trial, verdict


def test_every_refusal_is_told() -> None:
    told = {reason: refused(Refused(reason, 1500)).how for reason in get_args(Refusal)}
    assert told == {
        "closed": "cancelled",
        "done": "not_ours",
        "leased": "not_ours",
        "early": "waits",
        "limited": "waits",
        "over_budget": "cancelled",
    }
    assert refused(Refused("limited", 1500)).delay_seconds == 1.5


def test_a_session_that_had_to_end_is_told_by_what_ended_it() -> None:
    assert [stopped(reason).how for reason in ("lost", "closed", "draining")] == [
        "not_ours",
        "cancelled",
        "handed_on",
    ]


PLAN = CasePlan(
    case=case(
        evaluators=(
            {"type": "contains", "name": "greets", "value": "hello"},
            {"type": "contains", "value": "what is looked for"},
        )
    ),
    agent="scripted",
    spec=ScriptedSpec(),
    timeout_seconds=1,
)
NAMED = {"name": "greets", "type": "contains", "reasoning": "what the agent said"}
UNNAMED = {"name": 'contains "what is looked for"', "type": "contains", "misses": ("what the agent said",)}


@pytest.mark.parametrize(
    ("report", "ended"),
    [
        (trial("passed", score=1.0), Ended("passed", "score 1")),
        (trial("passed", score=2 / 3), Ended("passed", "score 0.667")),
        (trial("skipped"), Ended("skipped")),
        (trial("cancelled"), Ended("cancelled", "stored")),
        (
            trial(
                "failed",
                verdicts=(verdict("failed", **NAMED), verdict("failed", **UNNAMED), verdict("passed")),
            ),
            Ended("failed", "2 of 3 evaluators failed: greets, contains"),
        ),
        (
            trial("failed", verdicts=(verdict("failed", required=False), verdict("failed", **NAMED))),
            Ended("failed", "1 of 1 evaluators failed: greets"),
        ),
        (
            trial("errored", verdicts=(verdict("errored", **UNNAMED), verdict("passed"))),
            Ended("errored", "1 of 2 evaluators errored: contains"),
        ),
        (
            trial("errored", attempt=3, error=TrialError(kind="crashed", message="what the agent said")),
            Ended("errored", "crashed, attempt 3"),
        ),
    ],
)
def test_a_result_is_told_by_names_kinds_and_numbers(report, ended) -> None:
    assert written("stored", PLAN, report) == ended
    assert written("last", PLAN, report).how == ended.how


def test_a_result_that_was_not_taken_is_not_told_as_one() -> None:
    assert written("duplicate", PLAN, trial("passed")).how == "not_ours"
    assert written("closed", PLAN, trial("passed")).how == "cancelled"


def test_a_name_is_one_short_line() -> None:
    assert one_line("tests/ä::one 1") == "tests/ä::one 1"
    assert one_line("a\x1b[31m\nb\u202e") == "a?[31m?b?"
    assert len(one_line("x" * 10_000)) == 200
