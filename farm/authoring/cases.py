"""Turn the entry of a case, with the defaults of its suite, into a Case: the same for both dialects."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from farm.authoring.evaluator_entries import evaluator_files
from farm.authoring.fields import CaseEntry, CaseSettings
from farm.authoring.references import BrokenReferenceError
from farm.authoring.scripts import read_script
from farm.authoring.sources import Source
from farm.documents.yaml import Document, KeyPath
from farm.model.agent import DEFAULT_AGENT
from farm.model.evaluator import CompositeSpec, LlmJudgeSpec
from farm.model.messages import Message, referenced_files
from farm.model.suite import ONE_TRIAL, Case

T = TypeVar("T")

# What an agent needs on each of its cases.
_NEEDS = {"replay": "replay", "scripted": "script"}


_NO_SETTINGS = CaseSettings.model_construct()


class CaseParts(NamedTuple):
    """What the dialects write differently, once it is read."""

    id: str
    name: str
    agent: str | None
    input_messages: tuple[Message, ...]
    evaluators: tuple[Any, ...]
    expected_messages: tuple[Message, ...] = ()
    expected_outcome: str | None = None
    conversation_id: str | None = None
    metadata: dict[str, Any] | None = None

    def files(self) -> set[str]:
        """Name the files that these parts refer to."""
        messages = (*self.input_messages, *self.expected_messages)
        return {*referenced_files(messages), *evaluator_files(self.evaluators)}


class CaseReader:
    """Reads the cases of one document."""

    def __init__(self, source: Source, document: Document, suite: CaseSettings | None = None) -> None:
        self._source = source
        self._document = document
        self._suite = suite or _NO_SETTINGS

    def build(self, entry: CaseEntry, path: KeyPath, parts: CaseParts) -> Case:
        """Put a case together; its own settings win over the suite's."""
        suite = self._suite
        script = read_script(entry.script, self._document, (*path, "script"), self._source.problems)
        replay = self._replay(entry, path)
        if parts.expected_outcome is None and any(map(_judges_by_nothing, parts.evaluators)):
            message = 'an LLM judge needs a "prompt", "rubrics", or an "expected_outcome" on the case'
            self._problem(path, message)
        # Every part has been checked where it was read: checking the whole again would double the time
        # that ten thousand files take, and building the validator of a Case that of one.
        return Case.model_construct(
            id=parts.id,
            name=parts.name,
            file=self._source.name,
            line=self._document.position(path)[0],
            input_messages=parts.input_messages,
            expected_messages=parts.expected_messages,
            expected_outcome=parts.expected_outcome,
            evaluators=parts.evaluators,
            agent=self._agent(entry, path, parts.agent),
            model=_first(entry.model, suite.model),
            workspace=self._workspace(entry, path),
            setup=_first(entry.setup, suite.setup) or (),
            timeout_seconds=_first(entry.timeout_seconds, suite.timeout_seconds),
            isolation=_first(entry.isolation, suite.isolation),
            network=_first(entry.network, suite.network),
            trials=_first(entry.trials, suite.trials) or ONE_TRIAL,
            tags=tuple(dict.fromkeys((*(suite.tags or ()), *(entry.tags or ())))),
            env={**(suite.env or {}), **(entry.env or {})},
            weight=1.0 if (weight := _first(entry.weight, suite.weight)) is None else weight,
            skip=_first(entry.skip, suite.skip),
            max_cost_usd=_first(entry.max_cost_usd, suite.max_cost_usd),
            max_turns=_first(entry.max_turns, suite.max_turns),
            replay=replay,
            script=script,
            conversation_id=parts.conversation_id,
            metadata=parts.metadata or {},
            files=tuple(sorted(parts.files() | ({replay} if replay else set()))),
        )

    def _agent(self, entry: CaseEntry, path: KeyPath, own: str | None) -> str:
        """Name the case's agent: its own, else the one its recording or script is for, else the suite's."""
        implied = "replay" if entry.replay is not None else "scripted" if entry.script is not None else None
        settings = self._source.settings
        agent = own or implied or self._suite.agent or settings.agent or DEFAULT_AGENT
        spec = settings.agent_spec(agent)
        if spec is None:
            self._problem((*path, *entry.agent_key()), settings.explain_agent(agent))
            return agent
        needed = _NEEDS.get(spec.kind)
        for key in _NEEDS.values():
            given = getattr(entry, key) is not None
            if key == needed and not given:
                self._problem(path, f'agent "{agent}" needs "{key}" on the case')
            elif given and key != needed:
                self._problem(
                    (*path, key), f'"{key}" is for another agent than "{agent}"; remove one of the two'
                )
        return agent

    def _replay(self, entry: CaseEntry, path: KeyPath) -> str | None:
        if entry.replay is None:
            return None
        try:
            return self._source.references.find_for_judging(entry.replay)
        except BrokenReferenceError as error:
            self._problem((*path, "replay"), str(error))
            return None

    def _workspace(self, entry: CaseEntry, path: KeyPath) -> str | None:
        written = entry.workspace or self._suite.workspace
        if written is None:
            return None
        try:
            return self._source.references.workspace(written)
        except BrokenReferenceError as error:
            self._problem((*path, "workspace"), str(error))
            return None

    def _problem(self, path: KeyPath, message: str) -> None:
        self._source.problems.add(self._document, path, message)


def _judges_by_nothing(spec: Any) -> bool:
    if isinstance(spec, CompositeSpec):
        return any(map(_judges_by_nothing, spec.evaluators))
    return isinstance(spec, LlmJudgeSpec) and spec.prompt is None and not spec.rubrics


def _first(own: T | None, default: T | None) -> T | None:
    return default if own is None else own
