"""Stand in for a kind of agent that this version of the farm can't run."""

from __future__ import annotations

from dataclasses import dataclass

from farm.agents.base import Availability, Session
from farm.errors import SessionError
from farm.model.transcript import Transcript


@dataclass(frozen=True)
class UnavailableAgent:
    """A kind that is known, so that test files may name it, and can't run yet."""

    kind: str
    acts = True

    @property
    def reason(self) -> str:
        """What to tell the user."""
        return f'this version of the farm can\'t run the agent "{self.kind}" yet'

    def availability(self) -> Availability:
        """Say that it can't run here."""
        return Availability(usable=False, reason=self.reason)

    def run(self, session: Session) -> Transcript:
        """Refuse, without a verdict on the agent."""
        raise SessionError("agent_unavailable", f"{session.case.id}: {self.reason}", retryable=False)
