"""Turn farm.yaml into one frozen Settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from farm.documents.checking import Problems, check, did_you_mean
from farm.documents.yaml import Document, decode_text, parse_yaml, read_bytes
from farm.errors import InputError, Problem, UsageError
from farm.model.agent import AGENT_ALIASES, AGENT_SPECS, SCRIPTED_API, AgentBase, Isolation
from farm.model.base import Count, Flag, Line, Model, NonEmptyText, PositiveNumber
from farm.model.limits import LimitSpec
from farm.model.prices import Price

if TYPE_CHECKING:
    from farm.model.schedule import ScheduleSpec

FARM_FILE = "farm.yaml"
DEFAULT_TIMEOUT_SECONDS = 600.0
DEFAULT_RETRIES = 2
DEFAULT_JUDGE_TIMEOUT_SECONDS = 180.0


class JudgeEntry(Model):
    """Who judges where an evaluator names nobody."""

    agent: NonEmptyText | None = None  # a name under agents, or a kind
    model: NonEmptyText | None = None  # which model it is to use
    timeout_seconds: PositiveNumber | None = None  # of one judgement


_NO_JUDGE_ENTRY = JudgeEntry.model_construct()


class FarmFile(Model):
    """The keys of farm.yaml."""

    name: NonEmptyText | None = None  # of the suite, in reports
    agent: NonEmptyText | None = None  # for cases that name none
    model: NonEmptyText | None = None  # for cases and agents that name none
    workspace: NonEmptyText | None = None  # a directory, relative to farm.yaml
    timeout_seconds: PositiveNumber = DEFAULT_TIMEOUT_SECONDS  # of a session
    isolation: Isolation | None = None  # where neither case nor agent says anything else
    network: Flag = True  # whether sessions have one, where neither case nor agent says anything else
    retries: Annotated[Count, Field(le=20)] = DEFAULT_RETRIES  # of a trial that errored
    judge: JudgeEntry = _NO_JUDGE_ENTRY  # who judges for LLM evaluators that name nobody
    limits: dict[Line, LimitSpec] = {}  # by the name of an agent or model, for all workers together
    prices: dict[NonEmptyText, Price] = {}  # by model, for those that the farm does not know or knows wrong
    agents: Any = None  # by name; read one by one, each by its kind
    schedules: Any = None  # by name; read one by one, by who has some


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
    judge: JudgeEntry = _NO_JUDGE_ENTRY
    limits: Mapping[str, LimitSpec] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    agents: Mapping[str, AgentBase] = field(default_factory=dict)
    schedules: Mapping[str, ScheduleSpec] = field(default_factory=dict)

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

    def explain_judge(self, name: str) -> str | None:
        """Say why an agent can't judge; None if it can."""
        spec = self.agent_spec(name)
        if spec is None:
            return self.explain_agent(name)
        return f'agent "{name}" can\'t judge: it answers no questions' if spec.is_written_down else None


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
    settings = Settings(**{**dict(read), "agents": agents, "schedules": {}})
    if settings.workspace and not (path.parent / settings.workspace).is_dir():
        problems.add(document, ("workspace",), f'workspace "{settings.workspace}" is not a directory')
    if settings.agent and settings.agent_spec(settings.agent) is None:
        problems.add(document, ("agent",), settings.explain_agent(settings.agent))
    if settings.judge.agent and (wrong := settings.explain_judge(settings.judge.agent)):
        problems.add(document, ("judge", "agent"), wrong)
    for name, agent in agents.items():
        api = getattr(agent, "api", None)
        if api is not None and not (path.parent / api.removeprefix(SCRIPTED_API)).is_file():
            told = f'there is no file "{api.removeprefix(SCRIPTED_API)}" beside {FARM_FILE}'
            problems.add(document, ("agents", name, "api"), told)
    if document.data.get("schedules") is not None:
        settings = replace(settings, schedules=_read_schedules(document, path.parent, settings, problems))
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


def _read_schedules(
    document: Document, root: Path, settings: Settings, problems: Problems
) -> dict[str, ScheduleSpec]:
    from farm.model.schedule import SCHEDULE_NAME, ScheduleSpec  # not at the top: few have any

    raw = document.data["schedules"]
    if not isinstance(raw, dict):
        problems.add(document, ("schedules",), '"schedules" must be a mapping of names to schedules')
        return {}
    if raw and settings.name is None and "name" not in document.data:
        # Else it would be a directory's name, and a run of two checkouts would be two runs.
        told = 'schedules need a suite with a name: give this file one, such as "name: my-project"'
        problems.add(document, ("schedules",), told, of_key=True)
    schedules = {}
    for name, entry in raw.items():
        path = ("schedules", name)
        if not SCHEDULE_NAME.fullmatch(str(name)):
            told = f'"{name}" is no name for a schedule: letters, digits, "-", "_" and "." only'
            problems.add(document, path, told, of_key=True)
        read = check(ScheduleSpec, entry, document, path, problems, "a schedule")
        if read is None:
            continue
        schedules[name] = read
        for at, written in enumerate(read.paths):
            if not os.path.exists(root / written):  # noqa: PTH110 — not exists(): it raises where we may not look
                told = f'there is no "{written}" beside {FARM_FILE}'
                problems.add(document, (*path, "paths", at), told)
        if read.agent and settings.agent_spec(read.agent) is None:
            problems.add(document, (*path, "agent"), settings.explain_agent(read.agent))
    return schedules
