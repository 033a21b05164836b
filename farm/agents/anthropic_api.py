"""The `anthropic` agent: our own loop on the Messages API, its tools carried out in the workspace."""

from __future__ import annotations

import os

from farm.agents.base import Availability, Session
from farm.agents.scripted_api import with_scripted_api
from farm.errors import SessionError
from farm.model.transcript import Transcript

API_KEY, AUTH_TOKEN = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"

_NO_SDK = "the package `anthropic` is not installed: `pip install anthropic`"


class AnthropicAgent:
    """Runs a model behind the Messages API as an agent."""

    acts = True

    def availability(self) -> Availability:
        """Say whether the SDK is here, and a key: a worker without one would only turn cases away."""
        version = sdk_version()
        if version is None:
            return Availability(usable=False, reason=_NO_SDK)
        if not any(os.environ.get(name) for name in (API_KEY, AUTH_TOKEN)):
            return Availability(usable=False, version=version, reason=f"{API_KEY} is not set")
        return Availability(usable=True, version=f"SDK {version}")

    def run(self, session: Session) -> Transcript:
        """Let the model answer and use tools in turns until it is done."""
        if sdk_version() is None:
            raise SessionError("agent_unavailable", _NO_SDK, retryable=False)
        # Not at the top, but before the session's time begins: it takes more than a second.
        import anthropic  # noqa: F401

        from farm.agents.anthropic_loop import Loop

        with with_scripted_api(session) as connected:
            return Loop(connected).run()


def sdk_version() -> str | None:
    """Give the version of the SDK; None if there is none."""
    from importlib import metadata  # not at the top: it takes its time

    try:
        return metadata.version("anthropic")
    except metadata.PackageNotFoundError:
        return None
