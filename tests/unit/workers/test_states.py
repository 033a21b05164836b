"""What became of a trial, and the state of its task that people see."""

from __future__ import annotations

import pickle
from typing import get_args

import pytest
from celery.exceptions import Retry

from farm.queue.ended import Ended, How
from workers.states import EXPECTED, CaseErrored, CaseFailed, Dropped, Postponed, show

RAISES = {
    "failed": CaseFailed,
    "errored": CaseErrored,
    "again": Retry,
    "waits": Retry,
    "handed_on": Retry,
    "cancelled": Dropped,
    "not_ours": Dropped,
}


@pytest.mark.parametrize("how", get_args(How))
def test_every_end_has_a_state_of_its_own(how: How) -> None:
    ended = Ended(how, "why", delay_seconds=1.25)
    if how not in RAISES:
        assert show(ended) == f"{how}, why"
        return
    with pytest.raises(RAISES[how]) as raised:
        show(ended)
    # A pool's process sends it to its worker.
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is RAISES[how]
    assert str(again) == str(raised.value)
    assert "why" in str(again)


def test_a_success_without_a_score_is_one_word() -> None:
    assert show(Ended("skipped")) == "skipped"


def test_an_attempt_that_is_made_again_says_when_and_by_what_kind_of_error() -> None:
    with pytest.raises(Retry) as raised:
        show(Ended("again", "crashed", delay_seconds=1.26))
    assert isinstance(raised.value.exc, CaseErrored)
    assert str(raised.value) == "Retry in 1.3s: CaseErrored('crashed')"
    with pytest.raises(Retry) as raised:
        show(Ended("waits", "limited", delay_seconds=2))
    assert isinstance(raised.value.exc, Postponed)


def test_what_a_case_may_end_in_is_no_bug_and_logged_without_a_traceback() -> None:
    assert (CaseFailed, CaseErrored) == EXPECTED
