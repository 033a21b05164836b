"""Turn a suite and what the command line sets into case plans, and ship what they need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from farm.agents.registry import AGENTS
from farm.errors import InputError, Problem, UsageError
from farm.judging import questions_of
from farm.model.agent import AgentBase
from farm.model.job import CasePlan, JudgePlan, Keep, ShippedFile
from farm.model.suite import Case, Suite
from farm.queue.blobs import CHUNK_BYTES, put_bytes
from farm.queue.broker import Broker
from farm.resolving import ScriptedApis, resolve_isolation, resolve_judges
from farm.sessions.bundle import build_bundle
from farm.sessions.owned_directory import make_directory, remove_directory
from farm.settings import Settings


@dataclass(frozen=True)
class RunOptions:
    """What the command line sets for a whole run; it wins over every file."""

    agent: str | None = None
    model: str | None = None
    workspace: Path | None = None
    timeout_seconds: float | None = None
    retries: int | None = None
    max_cost_usd: float | None = None
    keep: Keep = "none"
    out: Path | None = None  # where the report will go: nothing for the agent to read
    hidden: tuple[Path, ...] = ()  # other reports, which are nothing for the agent either


class Planner:
    """Plans the cases of one suite; each workspace and file is shipped once, whoever uses it."""

    def __init__(self, suite: Suite, settings: Settings, options: RunOptions, broker: Broker) -> None:
        self._suite = suite
        self._settings = settings
        self._options = options
        self._blobs = broker.blobs
        self._store = broker.store_mark
        self._root = Path(suite.root)
        self._bundles: dict[Path, str] = {}
        self._files: dict[Path, ShippedFile] = {}
        self._scripted = ScriptedApis(self._root)

    def plan(self, case: Case) -> CasePlan:
        """Decide everything about a case."""
        options, settings = self._options, self._settings
        agent, spec = self._agent(case)
        model = options.model or case.model or spec.model or settings.model
        own_timeout = options.timeout_seconds or case.timeout_seconds or spec.timeout_seconds
        retries = settings.retries if options.retries is None else options.retries
        skipped = case.skip is not None
        isolation, network = resolve_isolation(case, spec, settings)
        judges = {} if skipped else resolve_judges(case, agent, spec, model, settings)
        sessions = [(spec, network), *((judge.spec, judge.network) for judge in judges.values())]
        scenarios = () if skipped else self._scripted.files_of(case, sessions)
        limited = {agent, spec.kind, model, *judge_names(case, judges)}
        return CasePlan(
            case=case,
            agent=agent,
            spec=spec,
            model=model,
            timeout_seconds=own_timeout or settings.timeout_seconds,
            bundle=self._bundle(case) if AGENTS[spec.kind].acts and not skipped else None,
            files={
                **({} if skipped else dict(self._ship_files(case))),
                **{name: self._ship(self._root / name) for name in scenarios},
            },
            isolation=isolation,
            network=network,
            judges=judges,
            limits={name: limit for name, limit in settings.limits.items() if name in limited},
            prices=dict(settings.prices),
            max_attempts=retries + 1,
            keep=options.keep,
            store=self._store,
        )

    def _agent(self, case: Case) -> tuple[str, AgentBase]:
        agent = self._options.agent or case.agent
        spec = self._settings.agent_spec(agent)
        if spec is None:
            raise UsageError(self._settings.explain_agent(agent))
        return agent, spec

    def _bundle(self, case: Case) -> str | None:
        source = self._workspace(case)
        if source not in self._bundles:
            exclude = {self._root / file for file in self._suite.test_files}
            if self._options.out is not None:
                exclude.add(self._options.out.resolve())
            exclude |= {path.resolve() for path in self._options.hidden}
            place = make_directory("bundle-")  # guarded: it may be large, and we may be killed
            try:
                bundle = build_bundle(source.resolve(), exclude=exclude, directory=place)
                if not self._blobs.has(bundle.id):
                    self._blobs.write(bundle.id, _chunks(bundle.path))
                self._bundles[source] = bundle.id
            finally:
                remove_directory(place)
        return self._bundles[source]

    def _workspace(self, case: Case) -> Path:
        if self._options.workspace is not None:
            return self._options.workspace
        for written in (case.workspace, self._settings.workspace):
            if written is not None:
                return self._root / written
        return Path.cwd()

    def _ship_files(self, case: Case) -> Iterator[tuple[str, ShippedFile]]:
        for name in case.files:
            for path in _files_in(self._root / name):
                try:
                    yield os.path.relpath(path, self._root), self._ship(path)
                except OSError as error:
                    problem = f'file "{name}" can\'t be read: {error.strerror}'
                    raise InputError([Problem(case.file, case.line, 1, problem)]) from None

    def _ship(self, path: Path) -> ShippedFile:
        if path not in self._files:
            blob = put_bytes(self._blobs, path.read_bytes())
            self._files[path] = ShippedFile(blob=blob, executable=os.access(path, os.X_OK))
        return self._files[path]


def judge_names(case: Case, judges: Mapping[str, JudgePlan]) -> Iterator[str | None]:
    """Name the judges' agents and models: a trial takes a place of theirs, too."""
    for judge in judges.values():
        yield from (judge.agent, judge.spec.kind, judge.model)
    yield from (question.model for question in questions_of(case.evaluators))


def _files_in(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (below for below in sorted(path.rglob("*")) if below.is_file())
    else:
        yield path


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
