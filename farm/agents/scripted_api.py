"""Play the Messages API to one session, by a scenario that farm.yaml names: `api: scripted:FILE`.

The session is the real one in all else. It is given a key that is none, and no real one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from farm.agents.base import Session
from farm.errors import InputError, Problem, SessionError
from farm.model.agent import SCRIPTED_API, AgentBase, AnthropicSpec, scripted_api

if TYPE_CHECKING:
    from farm.testing import Scenario

# Too short for Redaction to look for it.
_KEY = "no-key"
_CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")


def scenario_file(spec: AgentBase) -> str | None:
    """Name the file of an agent's scenarios, relative to farm.yaml; None if it asks a real API."""
    api = scripted_api(spec)
    return None if api is None else api.removeprefix(SCRIPTED_API)


def read_scenarios(path: Path) -> dict[str, Scenario]:
    """Read a file's scenarios by name; raise InputError with every problem of it."""
    from farm.testing import load_scenarios  # not at the top: it brings a server that few sessions need

    return load_scenarios(path)


def choose_scenario(scenarios: Mapping[str, Scenario], case_id: str, file: str) -> Scenario:
    """Choose the scenario for a case: the only one of the file, else the one that bears the case's name.

    That is what follows `::` in the case's id, or the name of its file without the ending.
    """
    if len(scenarios) == 1:
        return next(iter(scenarios.values()))
    name = case_id.rpartition("::")[2].rpartition("/")[2]
    if name not in scenarios:
        told = f'has {len(scenarios)} scenarios, but none named "{name}", for the case {case_id}'
        raise InputError([Problem(file, 1, 1, told)])
    return scenarios[name]


@contextmanager
def with_scripted_api(session: Session) -> Iterator[Session]:
    """Give the session as it is; or, if its agent asks a scripted API, one that is led to it."""
    file = scenario_file(session.spec)
    if file is None:
        yield session
        return
    try:
        scenario = choose_scenario(read_scenarios(session.files / file), session.case.id, file)
    except InputError as error:
        raise SessionError("missing_file", str(error), retryable=False) from None
    from farm.testing import ScriptedApi

    name = scenario.name or re.sub(r"[^A-Za-z0-9._-]", "-", Path(file).stem)
    with ScriptedApi({name: scenario}) as api:
        env = {**_without_credentials(session.spec.env), "ANTHROPIC_API_KEY": _KEY}
        changed = {
            "base_url": api.base_url(name),
            "api": None,
            "env": env,
            "secrets": _secrets(session),
        }
        case = session.case.model_copy(update={"env": _without_credentials(session.case.env)})
        yield replace(session, spec=session.spec.model_copy(update=changed), case=case)


def _secrets(session: Session) -> tuple[str, ...]:
    # The API client looks its key up by name; the CLI needs none but that in its environment.
    return ("ANTHROPIC_API_KEY",) if isinstance(session.spec, AnthropicSpec) else ()


def _without_credentials(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in _CREDENTIALS}
