"""Turn an eval file (a suite of eval cases, in it or beside it) or a single eval case into Cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from farm.authoring.cases import CaseParts, CaseReader
from farm.authoring.eval_fields import EvalCase, EvalFile, EvalSettings
from farm.authoring.evaluator_entries import EvaluatorEntries
from farm.authoring.fields import CASE_LISTS
from farm.authoring.message_entries import MessageEntries
from farm.authoring.references import BrokenReferenceError
from farm.authoring.sources import Source
from farm.documents.checking import check
from farm.documents.json_lines import Line, parse_json_lines
from farm.documents.yaml import Document, KeyPath, parse_yaml
from farm.errors import InputError, Problem
from farm.model.messages import Message

_EVALUATORS = ("evaluators", "assertions")
_OUTCOMES = ("expected_outcome", "outcome", "criteria")


class EvalFileReader:
    """Reads one eval file; its cases, or what is wrong with them, go to the source."""

    def __init__(self, source: Source, document: Document, stem: str) -> None:
        self._source = source
        self._document = document
        self._stem = stem
        self._suite = EvalFile()
        self._suite_input: tuple[Message, ...] = ()
        self._suite_evaluators: tuple[Any, ...] = ()
        self._suite_is_judged = False  # whether it asks for evaluators, be they right or wrong

    def read_suite(self) -> None:
        """Read the document as a suite: its defaults, then its cases, wherever they are."""
        self.read_defaults()
        key = self._only_one(self._document.data, CASE_LISTS, self._document, ())
        if key is not None:
            self._read_cases(self._document.data[key], (key,))

    def read_defaults(self) -> None:
        """Read what the document says for all its cases."""
        document, source = self._document, self._source
        data = document.data
        suite = check(EvalFile, data, document, (), source.problems, "an eval file")
        self._suite_input = MessageEntries(document, source.references, source.problems).read_input(data, ())
        self._suite_evaluators = self._evaluators(data, document, (), source)
        self._suite_is_judged = self._has_evaluators(data)
        if suite is None:
            return
        agent = self._agent(suite, document, ())
        if agent is not None and source.settings.agent_spec(agent) is None:
            source.problems.add(document, suite.agent_key(), source.settings.explain_agent(agent))
            agent = None
        self._suite = suite.model_copy(update={"agent": agent, "workspace": self._workspace(suite)})
        source.title = suite.name or suite.dataset or source.title

    def _workspace(self, suite: EvalFile) -> str | None:
        """Resolve the suite's workspace here: a case in another file would look for it beside itself."""
        if suite.workspace is None:
            return None
        try:
            return str(self._source.root / self._source.references.workspace(suite.workspace))
        except BrokenReferenceError as error:
            self._source.problems.add(self._document, ("workspace",), str(error))
            return None

    def read_single(self) -> None:
        """Read the document as one case, with an id of its own or its file's."""
        self._read_case(self._document.data, self._document, (), alone=True)

    def read_lines(self, lines: Iterable[Line], source: Source | None = None) -> None:
        """Read each line of a JSONL file as a case; the defaults may stand in another file."""
        for line in lines:
            self._read_case(line.data, line, (), source)

    def read_list(self) -> None:
        """Read the document as a bare list of cases."""
        self._read_cases(self._document.data, ())

    def _read_cases(self, raw: Any, path: KeyPath) -> None:
        entries = raw if isinstance(raw, list) else [raw]
        if not isinstance(raw, list | str) or not entries:
            self._source.problems.add(
                self._document,
                path,
                f'"{path[-1] if path else "cases"}" must be a list of cases, a path or a glob',
            )
            return
        for at, entry in enumerate(entries):
            entry_path = (*path, at) if isinstance(raw, list) else path
            if isinstance(entry, str):
                self._read_case_files(entry, entry_path)
            else:
                self._read_case(entry, self._document, entry_path)

    def _read_case_files(self, pattern: str, path: KeyPath) -> None:
        try:
            files = self._source.references.case_files(pattern)
        except BrokenReferenceError as error:
            self._source.problems.add(self._document, path, str(error))
            return
        for file in files:
            self._source.consumed.append(file)
            try:
                self._read_case_file(file)
            except InputError as error:
                self._source.problems.extend(error.problems)

    def _read_case_file(self, path: Path) -> None:
        # Its cases are this suite's, but its paths are relative to itself.
        source = replace(self._source, path=path)
        text = source.read_text()
        if path.suffix == ".jsonl":
            lines = parse_json_lines(text, source.shown)
            if not lines:
                raise InputError([Problem(source.shown, 1, 1, "the file is empty")])
            self.read_lines(lines, source)
            return
        documents = parse_yaml(text, source.shown)
        if not documents:
            raise InputError([Problem(source.shown, 1, 1, "the file is empty")])
        for document in documents:
            entries = document.data if isinstance(document.data, list) else [document.data]
            if not entries:
                source.problems.add(document, (), "the list of cases is empty")
            for at, entry in enumerate(entries):
                self._read_case(entry, document, (at,) if isinstance(document.data, list) else (), source)

    def _read_case(
        self,
        raw: Any,
        document: Document,
        path: KeyPath,
        source: Source | None = None,
        *,
        alone: bool = False,
    ) -> None:
        source = source or self._source
        if not isinstance(raw, dict):
            source.problems.add(document, path, "a case must be a mapping")
            return
        entry = check(EvalCase, raw, document, path, source.problems, "an eval case")
        messages = MessageEntries(document, source.references, source.problems)
        own_input = messages.read_input(raw, path)
        expected = messages.read_expected(raw, path)
        evaluators = self._evaluators(raw, document, path, source)
        if entry is None:
            return
        if entry.id is None and not alone:
            source.problems.add(document, path, 'the key "id" is missing')
        if not self._suite_input and raw.get("input") is None and raw.get("input_messages") is None:
            source.problems.add(document, path, 'the key "input" is missing')
        if not self._suite_is_judged and not self._has_evaluators(raw):
            source.problems.add(
                document, path, "a case needs at least one evaluator: nothing would be checked"
            )
        outcome = self._only_one(raw, _OUTCOMES, document, path)
        source.cases.append(
            CaseReader(source, document, self._suite).build(
                entry,
                path,
                CaseParts(
                    id=self._stem if entry.id is None else f"{self._stem}::{entry.id}",
                    name=entry.name or entry.id or self._stem,
                    agent=self._agent(entry, document, path),
                    input_messages=(*self._suite_input, *own_input),
                    expected_messages=expected,
                    expected_outcome=raw[outcome] if outcome else None,
                    evaluators=(*evaluators, *self._suite_evaluators),
                    conversation_id=entry.conversation_id,
                    metadata=entry.metadata,
                ),
            )
        )

    def _evaluators(
        self, raw: dict[str, Any], document: Document, path: KeyPath, source: Source
    ) -> tuple[Any, ...]:
        entries = EvaluatorEntries(document, source)
        execution = raw.get("execution")
        nested = execution.get("evaluators") if isinstance(execution, dict) else None
        key = self._only_one(raw, _EVALUATORS, document, path)
        if nested is not None and key is not None:
            self._source.problems.add(
                document, (*path, "execution", "evaluators"), f'says the same as "{key}": use one of the two'
            )
        specs = entries.read(raw.get(key) if key else None, (*path, key or "evaluators"))
        specs += entries.read(nested, (*path, "execution", "evaluators"))
        return specs + entries.read_rubrics(raw.get("rubrics"), (*path, "rubrics"))

    def _has_evaluators(self, raw: dict[str, Any]) -> bool:
        """Say whether evaluators are asked for, be they right or wrong."""
        execution = raw.get("execution")
        return any(raw.get(key) is not None for key in (*_EVALUATORS, "rubrics")) or (
            isinstance(execution, dict) and execution.get("evaluators") is not None
        )

    def _agent(self, entry: EvalSettings, document: Document, path: KeyPath) -> str | None:
        named = {
            "agent": entry.agent,
            "target": entry.target,
            "execution.target": entry.execution.target if entry.execution else None,
        }
        given = {key: value for key, value in named.items() if value is not None}
        if len(set(given.values())) > 1:
            first, second, *_ = given
            self._source.problems.add(
                document, path, f'"{first}" and "{second}" name different agents; use one of the two'
            )
        return next(iter(given.values()), None)

    def _only_one(
        self, raw: dict[str, Any], keys: tuple[str, ...], document: Document, path: KeyPath
    ) -> str | None:
        """Name which of several spellings of the same thing is used; two at once are a problem."""
        given = [key for key in keys if raw.get(key) is not None]
        if len(given) > 1:
            message = f'"{given[1]}" says the same as "{given[0]}": use one of the two'
            self._source.problems.add(document, (*path, given[1]), message, of_key=True)
        return given[0] if given else None
