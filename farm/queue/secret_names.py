"""Say which secrets of a worker's environment a run may ask for.

On a fleet those who submit are not those who own the workers. What the kinds of agents need by themselves is
always allowed; any other name only if the worker's owner allows it. On one machine, both are the same person.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from farm.errors import SessionError, UsageError
from farm.model.agent import AGENT_SPECS, AgentBase, secret_problem
from farm.queue.names import SECRETS_VARIABLE

_OF_KINDS = frozenset(
    name
    for spec in AGENT_SPECS.values()
    if "secrets" in spec.model_fields
    for name in spec.model_fields["secrets"].default
)


def parse_secret_names(text: str) -> tuple[str, ...]:
    """Read a list such as `GATEWAY_TOKEN,PROXY_KEY`; raise UsageError for what can be no secret."""
    names = _split(text)
    if problems := [problem for name in names if (problem := secret_problem(name))]:
        raise UsageError("; ".join(problems))
    return names


def check_secrets(specs: Iterable[AgentBase], worker: str) -> None:
    """Raise SessionError if an agent asks for what this worker's owner does not allow."""
    allowed = {*_OF_KINDS, *_split(os.environ.get(SECRETS_VARIABLE, ""))}
    asked = {name for spec in specs for name in getattr(spec, "secrets", ())}
    if refused := sorted(asked - allowed):
        names = ", ".join(refused)
        allow = f"`farm worker --secrets {','.join(refused)}`"
        message = f"worker {worker} does not pass on {names}; its owner allows it with {allow}"
        raise SessionError("secret_refused", message, retryable=True)  # another worker may


def _split(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
