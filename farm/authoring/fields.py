"""The keys that test files know, as models: what is checked, and what `farm schema` is made of.

Entries with shorthands (messages, evaluators, cases, scripts) are kept raw here and read by the modules
named after them; their JSON Schema lies in farm.authoring.schema under the same names.
"""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from farm.model.base import JsonValue, Model, NonEmptyText, NonNegativeNumber, PositiveCount, PositiveNumber
from farm.model.evaluator import OneOrMoreTexts
from farm.model.suite import Trials


def _trials_shorthand(value: Any) -> Any:
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


RawEvaluators: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Evaluators"})]
RawInput: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Input"})]
RawMessages: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Messages"})]
RawExpectedOutput: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "ExpectedOutput"})]
RawCases: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Cases"})]
RawRubrics: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Rubrics"})]
RawScript: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Script"})]
TrialsEntry = Annotated[
    Trials, BeforeValidator(_trials_shorthand, json_schema_input_type=PositiveCount | Trials)
]


class CaseSettings(Model):
    """What may stand on a suite or on a case; the case wins."""

    agent: NonEmptyText | None = None
    model: NonEmptyText | None = None
    workspace: NonEmptyText | None = None
    setup: OneOrMoreTexts | None = None
    timeout_seconds: PositiveNumber | None = None
    trials: TrialsEntry | None = None
    tags: OneOrMoreTexts | None = None
    env: dict[str, str] | None = None
    weight: NonNegativeNumber | None = None
    skip: NonEmptyText | None = None
    max_cost_usd: PositiveNumber | None = None
    max_turns: PositiveCount | None = None

    def agent_key(self) -> tuple[str, ...]:
        """Say under which key the agent is named."""
        return ("agent",)


class CaseEntry(CaseSettings):
    """What a case of either dialect may have."""

    replay: NonEmptyText | None = None
    script: RawScript = None


class AssertionTest(CaseEntry):
    """A prompt, and what must (not) happen: one document of an assertion test file."""

    name: NonEmptyText
    prompt: NonEmptyText
    assertions: RawEvaluators


class Execution(Model):
    """Where the origin keeps an eval file's agent and evaluators."""

    target: NonEmptyText | None = None
    evaluators: RawEvaluators = None


class EvalSettings(CaseSettings):
    """What an eval file's suite and its cases have in common."""

    target: NonEmptyText | None = None
    execution: Execution | None = None
    evaluators: RawEvaluators = None
    assertions: RawEvaluators = None
    input: RawInput = None
    input_messages: RawMessages = None

    def agent_key(self) -> tuple[str, ...]:
        if self.agent is None and self.target is not None:
            return ("target",)
        nested = self.agent is None and self.execution is not None and self.execution.target is not None
        return ("execution", "target") if nested else ("agent",)


class EvalFile(EvalSettings):
    """A suite of eval cases."""

    name: NonEmptyText | None = None
    dataset: NonEmptyText | None = None
    description: str | None = None
    metadata: dict[str, JsonValue] | None = None
    evalcases: RawCases = None
    tests: RawCases = None
    cases: RawCases = None


class EvalCase(EvalSettings, CaseEntry):
    """One eval case: in an eval file's list, in a case file, or a file of its own."""

    id: NonEmptyText | None = None
    name: NonEmptyText | None = None
    description: str | None = None
    expected_output: RawExpectedOutput = None
    expected_messages: RawMessages = None
    expected_outcome: NonEmptyText | None = None
    outcome: NonEmptyText | None = None
    criteria: NonEmptyText | None = None
    rubrics: RawRubrics = None
    conversation_id: NonEmptyText | None = None
    metadata: dict[str, JsonValue] | None = None


CASE_LISTS = ("evalcases", "tests", "cases")
MARKS = ("prompt", "assertions", *CASE_LISTS, "input", "input_messages")
