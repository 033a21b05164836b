"""The `claude` agent: the Claude Code CLI, headless, its stream of JSON lines the session's record."""

from __future__ import annotations

import uuid

from farm.agents.base import Availability, Session
from farm.agents.claude_command import PROGRAM, config_directory, make_command
from farm.agents.claude_session_log import read_session_log
from farm.agents.claude_stream import ClaudeStream
from farm.agents.headless import run_headless
from farm.agents.redaction import redaction_of, secrets_of
from farm.agents.scripted_api import with_scripted_api
from farm.errors import SessionError
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
            session_id = str(uuid.uuid4())
            command = make_command(connected, connected.spec, session_id)
            try:
                return run_headless(connected, command, ClaudeStream(connected.prices))
            except SessionError as error:
                if error.kind != "authentication" or secrets_of(connected.spec, connected.case):
                    raise
                # It says "run /login", which nobody can in a session that knows nothing of the user.
                names = " or ".join(connected.spec.secrets)
                told = f"{error}: {names} is not set in the environment of the farm, or of its worker"
                raise SessionError(error.kind, told, retryable=False) from None
            finally:
                _keep_log(connected, session_id)


def _keep_log(session: Session, session_id: str) -> None:
    """Keep the CLI's own log: it has times and tokens that the stream has not."""
    # Where the agent put a link, there is no log: what it leads to is not the session's to show.
    log = read_session_log(config_directory(session), session_id, within=session.workspace.root)
    if log is not None:
        session.keep_log("session.jsonl", redaction_of(session.spec, session.case)(log))
