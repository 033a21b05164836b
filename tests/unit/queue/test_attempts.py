"""What one attempt at a trial tells the next."""

from __future__ import annotations

import json
from typing import Any

from farm.model.job import CaseJob
from farm.model.report import TrialReport
from farm.queue.attempts import dump_errors, earlier_errors
from farm.queue.records import Claim
from farm.queue.signing import Signer
from tests.unit.builders import trial

JOB = CaseJob(run_id="run", case_id="case")
OURS, NONE = Signer(b"0123456789abcdef" * 2), Signer()


def claim(attempt: int, errors: bytes = b"") -> Claim:
    return Claim(JOB, "token", attempt, earlier_errors=errors)


def crashed(message: str = "why") -> TrialReport:
    spent: dict[str, Any] = {"cost_usd": 3.0, "output_tokens": 7, "judge_cost_usd": 0.5}
    return trial(
        "errored", error={"kind": "crashed", "message": message}, worker="w", duration_ms=5.0, **spent
    )


def test_an_attempt_knows_why_each_before_it_ended_also_of_those_whose_worker_was_lost():
    for signer in (OURS, NONE):
        first = dump_errors(claim(1), crashed("first"), signer)
        third = dump_errors(claim(3, first), crashed("third"), signer)
        found = earlier_errors(claim(4, third), signer)
        assert [(error.attempt, error.kind, error.message) for error in found] == [
            (1, "crashed", "first"),
            (2, "worker_lost", "its worker was lost"),
            (3, "crashed", "third"),
        ]
        assert (found[0].worker, found[0].duration_ms) == ("w", 5.0)
        assert (found[0].cost_usd, found[0].output_tokens, found[0].judge_cost_usd) == (3.0, 7, 0.5)
    assert earlier_errors(claim(1), OURS) == ()


def test_what_others_wrote_is_not_believed_and_stops_nobody():
    errors = [{"attempt": 1, "kind": "forged", "message": "forged"}]
    other_case = CaseJob(run_id="run", case_id="other")
    for row, signer in (
        (json.dumps(errors).encode(), OURS),
        (dump_errors(Claim(other_case, "token", 1), crashed(), OURS), OURS),
        (b"{", NONE),
        (b"\xff", NONE),
    ):
        assert [error.kind for error in earlier_errors(claim(2, row), signer)] == ["worker_lost"]


def test_a_long_message_and_half_a_character_are_kept_as_far_as_they_can_be():
    row = dump_errors(claim(1), crashed("\ud800" + "x" * 10**6), NONE)
    (error,) = earlier_errors(claim(2, row), NONE)
    assert error.message.startswith("?xxx")
    assert len(row) < 3000
