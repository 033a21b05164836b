"""The keys that test files know, as models: what is checked, and what `farm schema` is made of.

Entries with shorthands (messages, evaluators, cases, scripts) are kept raw here and read by the modules
named after them; their JSON Schema lies in farm.authoring.schema under the same names.
"""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from farm.model.agent import Isolation
from farm.model.base import (
    Flag,
    Model,
    NonEmptyText,
    NonNegativeNumber,
    PositiveCount,
    PositiveNumber,
)
from farm.model.evaluator import OneOrMoreTexts
from farm.model.suite import Trials


def _trials_shorthand(value: Any) -> Any:
    return {"count": value} if isinstance(value, int) and not isinstance(value, bool) else value


RawEvaluators: TypeAlias = Annotated[Any, WithJsonSchema({"entry": "Evaluators"})]
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
    isolation: Isolation | None = None
    network: Flag | None = None
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


CASE_LISTS = ("evalcases", "tests", "cases")
MARKS = ("prompt", "assertions", *CASE_LISTS, "input", "input_messages")
