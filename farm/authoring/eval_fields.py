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

    target: NonEmptyText | None = None  # the same as agent
    evaluators: RawEvaluators = None  # the same as evaluators


class EvalSettings(CaseSettings):
    """What an eval file's suite and its cases have in common."""

    target: NonEmptyText | None = None  # the same as agent
    execution: Execution | None = None  # another place for target and evaluators
    evaluators: RawEvaluators = None  # what judges; a suite's judge every case, after its own
    assertions: RawEvaluators = None  # the same as evaluators
    input: RawInput = None  # what the agent is asked; a suite's comes before every case's own
    input_messages: RawMessages = None  # the same in full; wins over input

    def agent_key(self) -> tuple[str, ...]:
        if self.agent is None and self.target is not None:
            return ("target",)
        nested = self.agent is None and self.execution is not None and self.execution.target is not None
        return ("execution", "target") if nested else ("agent",)


class EvalFile(EvalSettings):
    """A suite of eval cases."""

    name: NonEmptyText | None = None  # the suite's name in reports
    dataset: NonEmptyText | None = None  # the same as name
    description: str | None = None  # for readers
    metadata: dict[str, JsonValue] | None = None  # for readers
    evalcases: RawCases = None  # the cases, or paths and globs of case files
    tests: RawCases = None  # the same as evalcases
    cases: RawCases = None  # the same as evalcases


class EvalCase(EvalSettings, CaseEntry):
    """One eval case: in an eval file's list, in a case file, or a file of its own."""

    id: NonEmptyText | None = None  # unique in its file; needed in a list
    name: NonEmptyText | None = None  # what people read in reports; the id if absent
    description: str | None = None  # for readers
    expected_output: RawExpectedOutput = None  # what a good answer looks like
    expected_messages: RawMessages = None  # the same in full; wins over expected_output
    expected_outcome: NonEmptyText | None = None  # what should come out, in words, for judges
    outcome: NonEmptyText | None = None  # the same as expected_outcome
    criteria: NonEmptyText | None = None  # the same as expected_outcome
    rubrics: RawRubrics = None  # criteria in words: one more llm_judge
    conversation_id: NonEmptyText | None = None  # for readers
    metadata: dict[str, JsonValue] | None = None  # for readers
