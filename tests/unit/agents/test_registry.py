import subprocess
import sys
from typing import get_args

import pytest

from farm.agents.registry import AGENTS
from farm.errors import SessionError
from farm.model.agent import AGENT_SPECS, AgentSpec


def test_the_registry_covers_every_kind_of_agent():
    union = {spec.model_fields["kind"].default for spec in get_args(get_args(AgentSpec)[0])}

    assert AGENTS.keys() == AGENT_SPECS.keys() == union


def test_every_agent_says_whether_it_can_run(monkeypatch):
    monkeypatch.setenv("FARM_CLAUDE_PATH", "/nonexistent/claude")
    usable = {kind for kind, agent in AGENTS.items() if agent.availability().usable}

    assert usable == {"command", "replay", "scripted"}
    assert all(agent.availability().reason for kind, agent in AGENTS.items() if kind not in usable)


def test_an_agent_that_can_not_run_yet_says_so_and_is_not_tried_again(make_session):
    with pytest.raises(SessionError, match='can\'t run the agent "codex" yet') as error:
        AGENTS["codex"].run(make_session())
    assert (error.value.kind, error.value.retryable) == ("agent_unavailable", False)


def test_the_registry_imports_nothing_heavy():
    heavy = "{'anthropic', 'celery', 're2', 'rich', 'asyncio'}"
    check = f"import sys, farm.agents.registry; print(sorted({heavy} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"
