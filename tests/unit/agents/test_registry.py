import subprocess
import sys
from typing import get_args

from farm.agents.registry import AGENTS
from farm.model.agent import AGENT_SPECS, AgentSpec


def test_the_registry_covers_every_kind_of_agent():
    union = {spec.model_fields["kind"].default for spec in get_args(get_args(AgentSpec)[0])}

    assert AGENTS.keys() == AGENT_SPECS.keys() == union


def test_what_is_written_down_asks_no_model():
    asking = {kind for kind, spec in AGENT_SPECS.items() if spec.asks_model}
    assert asking == AGENT_SPECS.keys() - {"command", "replay", "scripted"}
    assert {kind for kind, spec in AGENT_SPECS.items() if spec.is_written_down} == {"replay", "scripted"}


def test_every_agent_says_whether_it_can_run(monkeypatch):
    for kind in ("claude", "codex", "gemini", "opencode"):
        monkeypatch.setenv(f"FARM_{kind.upper()}_PATH", f"/nonexistent/{kind}")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    usable = {kind for kind, agent in AGENTS.items() if agent.availability().usable}

    assert usable == {"command", "replay", "scripted"}
    assert all(agent.availability().reason for kind, agent in AGENTS.items() if kind not in usable)


def test_the_registry_imports_nothing_heavy():
    heavy = "{'anthropic', 'celery', 're2', 'rich', 'asyncio'}"
    check = f"import sys, farm.agents.registry; print(sorted({heavy} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"
