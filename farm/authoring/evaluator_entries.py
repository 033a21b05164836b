"""Turn the entries under `assertions` or `evaluators` into evaluator specs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from farm.authoring.references import BrokenReferenceError, looks_like_a_path
from farm.authoring.sources import Source
from farm.documents.checking import check, did_you_mean
from farm.documents.yaml import Document, KeyPath
from farm.errors import InputError
from farm.model.evaluator import (
    SPEC_BY_TYPE,
    TYPE_ALIASES,
    CodeJudgeSpec,
    CompositeSpec,
    EvaluatorBase,
    LlmJudgeSpec,
    Params,
    StdoutReviewSpec,
    Threshold,
    ToolCallSpec,
    WeightedAverage,
)
from farm.model.evaluator.judges import (
    AGGREGATOR_VARIABLE,
    TEMPLATE_VARIABLES,
    VARIABLE_ALIASES,
    template_variables,
)
from farm.model.patterns import PatternError, compile_regex
from farm.model.tool_names import canonical_tool_name, nearly_known_parameter

_AGGREGATORS: dict[str, type[Any]] = {"weighted_average": WeightedAverage, "threshold": Threshold}


class EvaluatorEntries:
    """Reads the evaluators of one document."""

    def __init__(self, document: Document, source: Source) -> None:
        self._document = document
        self._references = source.references
        self._problems = source.problems
        self._settings = source.settings

    def read(self, raw: Any, path: KeyPath) -> tuple[EvaluatorBase, ...]:
        """Read a list of entries; what is wrong with them goes to the problems."""
        if raw is None:
            return ()
        if not isinstance(raw, list) or not raw:
            self._problem(path, f'"{path[-1]}" must be a list of evaluators, with at least one')
            return ()
        specs = (self._read_entry(entry, (*path, at)) for at, entry in enumerate(raw))
        return tuple(spec for spec in specs if spec is not None)

    def read_rubrics(self, raw: Any, path: KeyPath) -> tuple[EvaluatorBase, ...]:
        """Read a case's `rubrics`: they make one LLM judge."""
        if raw is None:
            return ()
        spec = self._check("llm_judge", {"type": "llm_judge", "rubrics": raw}, path[:-1])
        return () if spec is None else (spec,)

    def _read_entry(self, entry: Any, path: KeyPath) -> EvaluatorBase | None:
        if isinstance(entry, str):
            return self._check("llm_judge", {"type": "llm_judge", "prompt": entry}, path)
        if not isinstance(entry, dict):
            self._problem(path, "an evaluator must be a mapping, or a text that an LLM judges by")
            return None
        kind = self._kind(entry, path)
        if kind is None:
            return None
        data = {**entry, "type": kind}
        if kind == "composite":
            return self._composite(data, path)
        if kind == "code_judge":
            return self._code_judge(data, path)
        if kind == "llm_judge":
            return self._llm_judge(data, path)
        if kind == "is_json":
            return self._is_json(data, path)
        return self._check(kind, data, path)

    def _kind(self, entry: dict[str, Any], path: KeyPath) -> str | None:
        if "type" not in entry:
            kinds = [
                kind for key, kind in (("tool", "tool_call"), ("stdout", "stdout_review")) if key in entry
            ]
            if len(kinds) == 1:
                return kinds[0]
            if kinds:
                self._problem(path, 'an assertion is on a "tool" or on "stdout", not both: write two')
            else:
                self._problem(path, f'an evaluator needs "tool", "stdout" or "type"{_slip(entry)}')
            return None
        written = entry["type"]
        if not isinstance(written, str):
            self._problem((*path, "type"), '"type" must be text')
            return None
        kind = written.replace("-", "_")
        kind = TYPE_ALIASES.get(kind, kind)
        if kind not in SPEC_BY_TYPE:
            known = [*SPEC_BY_TYPE, *TYPE_ALIASES]
            meant = did_you_mean(kind, known) or f"known are {', '.join(known)}"
            self._problem((*path, "type"), f'unknown evaluator type "{written}"; {meant}')
            return None
        return kind

    def _check(self, kind: str, data: dict[str, Any], path: KeyPath) -> EvaluatorBase | None:
        what = f"{'an' if kind[0] in 'aei' else 'a'} {kind} evaluator"
        spec = check(SPEC_BY_TYPE[kind], data, self._document, path, self._problems, what)
        if isinstance(spec, ToolCallSpec):
            self._check_expected_calls(spec, path)
        elif isinstance(spec, LlmJudgeSpec):
            self._check_agent(spec.agent, (*path, "agent"))
            self._check_template(spec, path)
        elif isinstance(spec, StdoutReviewSpec):
            self._check_agent(spec.stdout.agent, (*path, "stdout", "agent"))
        return spec

    def _check_expected_calls(self, spec: ToolCallSpec, path: KeyPath) -> None:
        self._check_params(spec.tool, spec.params, (*path, "params"))
        self._check_params(spec.tool, spec.first_call_params or {}, (*path, "first_call_params"))
        self._check_params(spec.tool, spec.last_call_params or {}, (*path, "last_call_params"))
        for number, params in spec.nth_call_params.items():
            self._check_params(spec.tool, params, (*path, "nth_call_params", str(number)))

    def _check_params(self, tool: str, params: Params, path: KeyPath) -> None:
        """Look for what would never match: with `called: false`, such a test could not fail."""
        for name, pattern in params.items():
            if meant := nearly_known_parameter(tool, name):
                message = (
                    f'unknown parameter "{name}" of {canonical_tool_name(tool)}; did you mean "{meant}"?'
                )
                self._problems.add(self._document, (*path, name), message, of_key=True)
            if isinstance(pattern, str) and "(?" in pattern and (wrong := _regex_problem(pattern)):
                self._problem((*path, name), wrong)

    def _check_agent(self, judge: str | None, path: KeyPath) -> None:
        if judge is not None and (wrong := self._settings.explain_judge(judge)):
            self._problem(path, wrong)

    def _check_template(self, spec: LlmJudgeSpec, path: KeyPath) -> None:
        for name in sorted(template_variables(spec.prompt or "")):
            shown = f'"{{{{{name}}}}}"'
            if name not in TEMPLATE_VARIABLES:
                known = (*TEMPLATE_VARIABLES, *VARIABLE_ALIASES)
                meant = did_you_mean(name, known) or f"known are {', '.join(known)}"
                self._problem((*path, "prompt"), f"the prompt uses an unknown variable {shown}; {meant}")
            elif name == AGGREGATOR_VARIABLE and path[-1:] != ("aggregator",):
                message = f"only a composite's aggregator has {shown}: the members' verdicts"
                self._problem((*path, "prompt"), message)

    def _composite(self, data: dict[str, Any], path: KeyPath) -> EvaluatorBase | None:
        found = len(self._problems)
        if "evaluators" in data and "assertions" in data:
            self._problem((*path, "assertions"), '"assertions" says the same as "evaluators": use one')
            return None
        key = "assertions" if "assertions" in data else "evaluators"
        members = self.read(data.pop(key, None), (*path, key))
        if "aggregator" in data:
            data["aggregator"] = self._aggregator(data["aggregator"], (*path, "aggregator"))
        if len(self._problems) > found:
            return None  # told already; checking half a composite would only repeat it
        return self._check("composite", {**data, "evaluators": members}, path)

    def _aggregator(self, raw: Any, path: KeyPath) -> Any:
        data = {"type": raw} if isinstance(raw, str) else raw
        if not isinstance(data, dict) or not isinstance(data.get("type"), str):
            self._problem(path, 'an aggregator must be a mapping with a "type"')
            return None
        kind = data["type"].replace("-", "_")
        kind = TYPE_ALIASES.get(kind, kind)
        data = {**data, "type": kind}
        if kind in ("code_judge", "llm_judge"):
            return self._judge_as_aggregator(data, path)
        if kind not in _AGGREGATORS:
            known = [*_AGGREGATORS, "code_judge", "llm_judge"]
            meant = did_you_mean(kind, known) or f"known are {', '.join(known)}"
            self._problem((*path, "type"), f'unknown aggregator "{data["type"]}"; {meant}')
            return None
        return check(_AGGREGATORS[kind], data, self._document, path, self._problems, f"a {kind} aggregator")

    def _judge_as_aggregator(self, data: dict[str, Any], path: KeyPath) -> EvaluatorBase | None:
        for key in ("name", "weight", "required", "negate"):
            if key in data:
                message = f'"{key}" belongs on the composite, not on its aggregator'
                self._problems.add(self._document, (*path, key), message, of_key=True)
        if data["type"] == "llm_judge":
            return self._llm_judge(data, path)
        if "path" in data:
            data["command"] = [data.pop("path")]
        return self._code_judge(data, path)

    def _code_judge(self, data: dict[str, Any], path: KeyPath) -> EvaluatorBase | None:
        if "script" in data and "command" in data:
            self._problem((*path, "script"), '"script" says the same as "command": use one')
            return None
        if "script" in data:
            data["command"] = data.pop("script")
        config = data.pop("config", {})
        if not isinstance(config, dict):
            self._problem((*path, "config"), '"config" must be a mapping')
            return None
        # Keys that are not ours are the judge's own, unless they are a slip of one of ours.
        own = {key: value for key, value in data.items() if key not in CodeJudgeSpec.model_fields}
        known = {key: value for key, value in data.items() if key in CodeJudgeSpec.model_fields}
        for key in own:
            if meant := did_you_mean(key, CodeJudgeSpec.model_fields, nearness=0.85):
                self._problems.add(self._document, (*path, key), f'unknown key "{key}"; {meant}', of_key=True)
        spec = self._check("code_judge", {**known, "config": {**own, **config}}, path)
        if not isinstance(spec, CodeJudgeSpec):
            return None
        try:
            cwd = self._references.directory(spec.cwd)
            files = self._references.judge_files(spec.command, cwd, spec.files)
        except BrokenReferenceError as error:
            self._problem(path, str(error))
            return None
        return spec.model_copy(update={"cwd": cwd, "files": tuple(files)})

    def _llm_judge(self, data: dict[str, Any], path: KeyPath) -> EvaluatorBase | None:
        prompt = data.get("prompt")
        if isinstance(prompt, str) and looks_like_a_path(prompt):
            try:
                data["prompt"] = self._references.read_text(prompt.removeprefix("file://"))
            except BrokenReferenceError as error:
                self._problem((*path, "prompt"), str(error))
                return None
            except InputError as error:
                self._problems.extend(error.problems)
                return None
        return self._check("llm_judge", data, path)

    def _is_json(self, data: dict[str, Any], path: KeyPath) -> EvaluatorBase | None:
        if isinstance(data.get("schema"), str):
            from farm.documents.json_lines import parse_json  # not at the top: few files need it

            try:
                name = self._references.find(data["schema"])
                data["schema"] = parse_json(self._references.read_text(name), name)
            except BrokenReferenceError as error:
                self._problem((*path, "schema"), str(error))
                return None
            except InputError as error:
                self._problems.extend(error.problems)
                return None
        if data.get("schema") is not None and (wrong := _schema_problem(data["schema"])):
            self._problem((*path, "schema"), wrong)
            return None
        return self._check("is_json", data, path)

    def _problem(self, path: KeyPath, message: str) -> None:
        self._problems.add(self._document, path, message)


def evaluator_files(specs: Iterable[Any]) -> set[str]:
    """Name the files that evaluators need when they run, members and aggregators included."""
    files: set[str] = set()
    for spec in specs:
        if isinstance(spec, CodeJudgeSpec):
            files.update(spec.files)
        elif isinstance(spec, CompositeSpec):
            files |= evaluator_files((*spec.evaluators, spec.aggregator))
    return files


def _regex_problem(pattern: str) -> str | None:
    """Say why a pattern that can only be meant as a regular expression is none."""
    try:
        compile_regex(pattern)
    except PatternError as error:
        return f"{error}; look-around is not part of it"
    return None


def _schema_problem(schema: Any) -> str | None:
    """Say what is wrong with an author's JSON Schema."""
    import jsonschema_rs  # not at the top: few files have a schema to check

    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        return f"not a JSON Schema: {error.message}"
    except ValueError as error:
        return f"not a JSON Schema: {error}"
    return None


def _slip(entry: dict[str, Any]) -> str:
    for key in entry:
        if meant := did_you_mean(key, ("tool", "stdout", "type")):
            return f'; "{key}": {meant}'
    return ""
