"""Every kind of agent. A new kind: one spec in farm.model.agent, one file here, one line below."""

from __future__ import annotations

from farm.agents.base import Agent
from farm.agents.claude_code import ClaudeAgent
from farm.agents.command import CommandAgent
from farm.agents.replay import ReplayAgent
from farm.agents.scripted import ScriptedAgent
from farm.agents.unavailable import UnavailableAgent

AGENTS: dict[str, Agent] = {
    "claude": ClaudeAgent(),
    "anthropic": UnavailableAgent("anthropic"),
    "command": CommandAgent(),
    "codex": UnavailableAgent("codex"),
    "gemini": UnavailableAgent("gemini"),
    "opencode": UnavailableAgent("opencode"),
    "replay": ReplayAgent(),
    "scripted": ScriptedAgent(),
}
