"""Decide what files and settings leave open: how sessions are kept apart, who judges, what is scripted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from farm.agents.scripted_api import choose_scenario, read_scenarios, scenario_file
from farm.errors import InputError, Problem, UsageError
from farm.judging import questions_of
from farm.model.agent import SCRIPTED_API, AgentBase, Isolation
from farm.model.job import JudgePlan
from farm.model.suite import Case, Suite
from farm.settings import DEFAULT_JUDGE_TIMEOUT_SECONDS, Settings

if TYPE_CHECKING:
    from farm.testing import Scenario

# Who judges the cases of agents that ask no model, where nobody is named.
_DEFAULT_JUDGE = "anthropic"


def resolve_isolation(case: Case | None, spec: AgentBase, settings: Settings) -> tuple[Isolation, bool]:
    """Say what keeps sessions apart, and whether they have a network: case, agent, farm.yaml.

    Without a case it is a judge's session that is meant.
    """
    networks = (case.network if case else None, spec.network, settings.network)
    network = next(network for network in networks if network is not None)
    said = (case and case.isolation) or spec.isolation or settings.isolation
    # To have no network takes a sandbox, whether or not the agent would have had one.
    return said or (spec.default_isolation if network else "auto"), network


def resolve_judges(
    case: Case, agent: str, spec: AgentBase, model: str | None, settings: Settings
) -> dict[str, JudgePlan]:
    """Say whom LLM evaluators ask: whom they name, else farm.yaml's judge, else the case's own agent."""
    judges = {}
    for named in sorted({question.agent or "" for question in questions_of(case.evaluators)}):
        chosen = named or settings.judge.agent
        name = chosen or (agent if spec.asks_model else _DEFAULT_JUDGE)
        judge_spec = spec if name == agent else settings.agent_spec(name)
        if judge_spec is None:
            raise UsageError(settings.explain_agent(name))
        if chosen is None:
            judge_spec = judge_spec.as_judge()
        own_model = judge_spec.model or (model if name == agent else None) or settings.model
        isolation, network = resolve_isolation(None, judge_spec, settings)
        judges[named] = JudgePlan(
            agent=name,
            spec=judge_spec,
            model=own_model if named else settings.judge.model or own_model,
            timeout_seconds=settings.judge.timeout_seconds
            or judge_spec.timeout_seconds
            or DEFAULT_JUDGE_TIMEOUT_SECONDS,
            isolation=isolation,
            network=network,
        )
    return judges


class ScriptedApis:
    """The scenarios that scripted APIs play to the sessions of one suite; each file is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[Path, dict[str, Scenario]] = {}

    def files_of(self, case: Case, sessions: Iterable[tuple[AgentBase, bool]]) -> Iterator[str]:
        """Name the files that are played to a case's sessions, once it is sure that they can.

        Of each session is given who holds it, and whether it has a network.
        """
        for spec, network in sessions:
            if (name := scenario_file(spec)) is None:
                continue
            if spec.kind == "claude" and not network:
                told = f"`network: false` cuts a session off from `api: {SCRIPTED_API}{name}`, too"
                raise InputError([Problem(case.file, case.line, 1, told)])
            path = self._root / name
            if path not in self._read:
                self._read[path] = read_scenarios(path)
            choose_scenario(self._read[path], case.id, os.path.relpath(path))
            yield name


def check_scripted_apis(suite: Suite, settings: Settings) -> None:
    """Raise InputError with every problem of what scripted APIs are to play to a suite's sessions."""
    apis = ScriptedApis(Path(suite.root))
    problems: list[Problem] = []
    for case in suite.cases:
        spec = settings.agent_spec(case.agent)
        if case.skip is not None or spec is None:
            continue
        judges = resolve_judges(case, case.agent, spec, None, settings)
        _, network = resolve_isolation(case, spec, settings)
        sessions = [(spec, network), *((judge.spec, judge.network) for judge in judges.values())]
        try:
            list(apis.files_of(case, sessions))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
