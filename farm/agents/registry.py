"""Every kind of agent. A new kind: one spec in farm.model.agent, one file here, one line below."""

from __future__ import annotations

from farm.agents import codex, gemini, opencode
from farm.agents.anthropic_api import AnthropicAgent
from farm.agents.base import Agent
from farm.agents.claude_code import ClaudeAgent
from farm.agents.command import CommandAgent
from farm.agents.replay import ReplayAgent
from farm.agents.scripted import ScriptedAgent

AGENTS: dict[str, Agent] = {
    "claude": ClaudeAgent(),
    "anthropic": AnthropicAgent(),
    "command": CommandAgent(),
    "codex": codex.AGENT,
    "gemini": gemini.AGENT,
    "opencode": opencode.AGENT,
    "replay": ReplayAgent(),
    "scripted": ScriptedAgent(),
}
