"""Turn farm.yaml into one frozen Settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from farm.documents.checking import Problems, check, did_you_mean
from farm.documents.yaml import Document, decode_text, parse_yaml, read_bytes
from farm.errors import InputError, Problem, UsageError
from farm.model.agent import AGENT_ALIASES, AGENT_SPECS, AgentBase, Isolation
from farm.model.base import Count, Flag, Model, NonEmptyText, PositiveNumber
from farm.model.limits import LimitSpec

FARM_FILE = "farm.yaml"
DEFAULT_TIMEOUT_SECONDS = 600.0
DEFAULT_RETRIES = 2


class FarmFile(Model):
    """The keys of farm.yaml."""

    name: NonEmptyText | None = None  # of the suite, in reports
    agent: NonEmptyText | None = None  # for cases that name none
    model: NonEmptyText | None = None
    workspace: NonEmptyText | None = None  # a directory, relative to farm.yaml
    timeout_seconds: PositiveNumber = DEFAULT_TIMEOUT_SECONDS
    isolation: Isolation | None = None  # where neither case nor agent says anything else
    network: Flag = True
    retries: Annotated[Count, Field(le=20)] = DEFAULT_RETRIES  # of a trial that errored
    limits: dict[NonEmptyText, LimitSpec] = {}  # by the name of an agent or model, for all workers together
    agents: Any = None  # read one by one, each by its kind


@dataclass(frozen=True)
class Settings:
    """What a project sets once for all its suites."""

    name: str | None = None
    agent: str | None = None
    model: str | None = None
    workspace: str | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    isolation: Isolation | None = None
    network: bool = True
    retries: int = DEFAULT_RETRIES
    limits: Mapping[str, LimitSpec] = field(default_factory=dict)
    agents: Mapping[str, AgentBase] = field(default_factory=dict)

    def agent_spec(self, name: str) -> AgentBase | None:
        """Give the agent that a case means by a name: one of farm.yaml's, else a kind."""
        if name in self.agents:
            return self.agents[name]
        return _kind_without_options(AGENT_ALIASES.get(name, name))

    def explain_agent(self, name: str) -> str:
        """Say why a name is no agent, and what to do."""
        if name in AGENT_SPECS:
            return f'agent "{name}" needs options: name it under "agents" in {FARM_FILE}'
        known = [*self.agents, *AGENT_SPECS, *AGENT_ALIASES]
        return f'unknown agent "{name}"; ' + (did_you_mean(name, known) or f"known are {', '.join(known)}")


@cache
def _kind_without_options(kind: str) -> AgentBase | None:
    spec = AGENT_SPECS.get(kind)
    # A kind that can't do without options (a command without a command) must be named in farm.yaml.
    if spec is None or any(field.is_required() for field in spec.model_fields.values()):
        return None
    return spec.model_construct(kind=kind)


def find_root(paths: Sequence[Path], cwd: Path | None = None) -> Path:
    """Find the suite root: the nearest directory above all paths with a farm.yaml, else with a .git.

    Without either it is the current directory, or what the paths have in common if they lie elsewhere.
    Case ids are relative to it: they stay the same whichever part of a suite is submitted.
    """
    here = (cwd or Path.cwd()).resolve()
    starts = [_directory_of(here / path) for path in paths] or [here]
    common = Path(os.path.commonpath(starts))
    for mark in (FARM_FILE, ".git"):
        for directory in (common, *common.parents):
            if (directory / mark).exists():
                return directory
    return here if common.is_relative_to(here) else common


def _directory_of(path: Path) -> Path:
    try:
        resolved = path.resolve()
        return resolved if resolved.is_dir() else resolved.parent
    except (OSError, RuntimeError) as error:  # a name too long, links that lead in a circle
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: can't be read: {reason}") from None


def load_settings(root: Path) -> Settings:
    """Read the settings that hold for a suite root."""
    path = root / FARM_FILE
    return _read_farm_file(path) if path.exists() else Settings()


def _read_farm_file(path: Path) -> Settings:
    file = os.path.relpath(path)
    documents = parse_yaml(decode_text(read_bytes(path, file), file), file)
    if not documents or documents[0].data is None:
        return Settings()
    if len(documents) > 1:
        raise InputError([Problem(file, *documents[1].position(()), "holds more than one document")])
    document, problems = documents[0], Problems()
    if not isinstance(document.data, dict):
        raise InputError([document.problem((), "must be a mapping, such as `agent: claude`")])
    agents = _read_agents(document, problems)
    read = check(FarmFile, document.data, document, (), problems, FARM_FILE) or FarmFile()
    settings = Settings(**{**dict(read), "agents": agents})
    if settings.workspace and not (path.parent / settings.workspace).is_dir():
        problems.add(document, ("workspace",), f'workspace "{settings.workspace}" is not a directory')
    if settings.agent and settings.agent_spec(settings.agent) is None:
        problems.add(document, ("agent",), settings.explain_agent(settings.agent))
    problems.raise_if_any()
    return settings


def _read_agents(document: Document, problems: Problems) -> dict[str, AgentBase]:
    raw = document.data.get("agents", {})
    if not isinstance(raw, dict):
        problems.add(document, ("agents",), '"agents" must be a mapping of names to agents')
        return {}
    agents = {}
    for name, entry in raw.items():
        path = ("agents", name)
        kind = entry.get("kind") if isinstance(entry, dict) else None
        kind = AGENT_ALIASES.get(kind, kind) if isinstance(kind, str) else None
        if kind is None:
            problems.add(document, path, f'agent "{name}" must be a mapping with a "kind"')
        elif kind not in AGENT_SPECS:
            meant = did_you_mean(kind, AGENT_SPECS) or f"known are {', '.join(AGENT_SPECS)}"
            problems.add(document, (*path, "kind"), f'unknown kind of agent "{kind}"; {meant}')
        elif spec := check(AGENT_SPECS[kind], {**entry, "kind": kind}, document, path, problems):
            agents[name] = spec
    return agents
