"""What of a worker's environment a run may have."""

from __future__ import annotations

import pytest

from farm.errors import SessionError, UsageError
from farm.model.agent import ClaudeSpec, ScriptedSpec
from farm.queue.secret_names import check_secrets, parse_secret_names


def refusal(*names: str) -> SessionError:
    with pytest.raises(SessionError) as raised:
        check_secrets([ScriptedSpec(), ClaudeSpec(secrets=names)], "worker-1")
    return raised.value


@pytest.fixture(autouse=True)
def nothing_more_is_allowed(monkeypatch):
    monkeypatch.delenv("FARM_ALLOWED_SECRETS", raising=False)


def test_what_a_kind_of_agent_needs_is_always_allowed():
    check_secrets([ScriptedSpec(), ClaudeSpec()], "worker-1")
    check_secrets([ClaudeSpec(secrets=("ANTHROPIC_API_KEY",))], "worker-1")


def test_any_other_name_is_refused_with_what_to_do():
    error = refusal("ANTHROPIC_API_KEY", "GATEWAY_TOKEN", "AWS_SECRET_ACCESS_KEY")
    assert (error.kind, error.retryable) == ("secret_refused", True)
    assert str(error) == (
        "worker worker-1 does not pass on AWS_SECRET_ACCESS_KEY, GATEWAY_TOKEN; its owner allows it with "
        "`farm worker --secrets AWS_SECRET_ACCESS_KEY,GATEWAY_TOKEN`"
    )


def test_a_workers_owner_allows_more(monkeypatch):
    monkeypatch.setenv("FARM_ALLOWED_SECRETS", "GATEWAY_TOKEN, OTHER")
    check_secrets([ClaudeSpec(secrets=("ANTHROPIC_API_KEY", "GATEWAY_TOKEN"))], "worker-1")
    assert "AWS_SECRET_ACCESS_KEY" in str(refusal("GATEWAY_TOKEN", "AWS_SECRET_ACCESS_KEY"))


def test_names_are_checked_before_a_worker_starts():
    assert parse_secret_names("GATEWAY_TOKEN, OTHER,") == ("GATEWAY_TOKEN", "OTHER")
    with pytest.raises(UsageError, match=r'"A=B" is no name .*; "FARM_BROKER_URL" is the farm\'s own'):
        parse_secret_names("A=B,FARM_BROKER_URL")
