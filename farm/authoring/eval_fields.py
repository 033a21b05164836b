"""The keys that eval files know, as models; apart from farm.authoring.fields, as many a file needs none."""

from typing import Annotated, Any, TypeAlias

from pydantic import WithJsonSchema

from farm.authoring.fields import CaseEntry, CaseSettings, RawEvaluators
from farm.model.base import JsonValue, Model, NonEmptyText

RawInput: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Input"})]
RawMessages: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Messages"})]
RawExpectedOutput: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "ExpectedOutput"})]
RawCases: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Cases"})]
RawRubrics: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Rubrics"})]


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
