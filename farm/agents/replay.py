"""The `replay` agent: a recorded session in place of a new one. No agent runs."""

from __future__ import annotations

from farm.agents.base import Availability, Session
from farm.agents.session_files import read_session
from farm.errors import FarmError, SessionError
from farm.model.transcript import Transcript


class ReplayAgent:
    """Reads the session that the case's `replay` names."""

    acts = False

    def availability(self) -> Availability:
        """Say that it can run anywhere."""
        return Availability(usable=True)

    def run(self, session: Session) -> Transcript:
        """Read the recording; whatever is wrong with it, another attempt would find the same."""
        recording = session.case.replay
        if recording is None:
            raise SessionError(
                "no_replay", f"{session.case.id}: the replay agent needs `replay: FILE`", retryable=False
            )
        try:
            transcript = read_session(session.files / recording, case_id=session.case.id, file=recording)
        except SessionError as error:
            raise SessionError(error.kind, f"{recording}: {error}", retryable=False) from error
        except FarmError as error:
            raise SessionError("bad_replay", str(error), retryable=False) from error
        for call in transcript.tool_calls():
            session.on_tool_call(call)
        return transcript
