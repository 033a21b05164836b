"""The `claude` agent: the Claude Code CLI, headless, its stream of JSON lines the session's record."""

from __future__ import annotations

from farm.agents.base import Availability, Session
from farm.agents.claude_command import PROGRAM, make_command
from farm.agents.claude_stream import ClaudeStream
from farm.agents.headless import run_headless
from farm.agents.scripted_api import with_scripted_api
from farm.model.agent import ClaudeSpec
from farm.model.transcript import Transcript


class ClaudeAgent:
    """Runs the Claude Code CLI."""

    acts = True

    def availability(self) -> Availability:
        """Say whether the CLI is here and runs. What it is allowed to ask the API for is another matter."""
        return PROGRAM.availability()

    def run(self, session: Session) -> Transcript:
        """Run the CLI in the workspace; its exit code and its last result say whether there is a record."""
        with with_scripted_api(session) as connected:
            assert isinstance(connected.spec, ClaudeSpec)
            return run_headless(connected, make_command(connected, connected.spec), ClaudeStream())
