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

    agent: NonEmptyText | None = None  # an agent of farm.yaml, or a kind
    model: NonEmptyText | None = None  # which model the agent is to use
    workspace: NonEmptyText | None = None  # the directory that the working directory is filled from
    setup: OneOrMoreTexts | None = None  # shell commands that run in the workspace before the session
    timeout_seconds: PositiveNumber | None = None  # of the session, and of each setup command
    isolation: Isolation | None = None  # what keeps the session apart
    network: Flag | None = None  # whether the session has a network
    trials: TrialsEntry | None = None  # how often the case is carried out, and how many must pass
    tags: OneOrMoreTexts | None = None  # for --tag
    env: dict[str, str] | None = None  # environment variables of the session
    weight: NonNegativeNumber | None = None  # the case's share in the run's score; 1 if absent
    skip: NonEmptyText | None = None  # a reason not to run it
    max_cost_usd: PositiveNumber | None = None  # of the session, for agents that can keep it
    max_turns: PositiveCount | None = None  # of the session, for agents that can keep it

    def agent_key(self) -> tuple[str, ...]:
        """Say under which key the agent is named."""
        return ("agent",)


class CaseEntry(CaseSettings):
    """What a case of either dialect may have."""

    replay: NonEmptyText | None = None  # a recorded session to judge, in place of a new one
    script: RawScript = None  # the steps that the scripted agent carries out


class AssertionTest(CaseEntry):
    """A prompt, and what must (not) happen: one document of an assertion test file."""

    name: NonEmptyText  # what people read in reports
    prompt: NonEmptyText  # what the agent is asked
    assertions: RawEvaluators  # the evaluators that judge it


CASE_LISTS = ("evalcases", "tests", "cases")
MARKS = ("prompt", "assertions", *CASE_LISTS, "input", "input_messages")
