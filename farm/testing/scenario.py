"""Turn YAML files into scenarios: what a scripted Messages API answers, turn by turn.

Knows nothing of HTTP.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from farm.documents.checking import Problems, check
from farm.documents.yaml import Document, decode_text, parse_yaml, read_bytes
from farm.errors import InputError, Problem
from farm.model.base import (
    Count,
    Flag,
    JsonValue,
    Model,
    NonEmptyText,
    NonNegativeNumber,
    PositiveCount,
    wrong,
)

# A name stands in a URL.
ScenarioName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")]
StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn"]


class ToolUse(Model):
    """A tool that the model asks for."""

    tool: NonEmptyText
    input: dict[str, JsonValue] = {}


class Fault(Model):
    """What goes wrong instead of an answer, or in the middle of it: exactly one of the first three."""

    status: Annotated[int, Field(strict=True, ge=400, le=599)] | None = None  # an error response
    drop_after_events: Count | None = None  # the connection breaks after so many events of the stream
    malformed: str | None = None  # a 200 whose body is this text
    count: PositiveCount | None = None  # so many times in a session, then it goes well; None: always
    message: str = "scripted error"
    type: NonEmptyText | None = None  # the API's name of the error; the usual one of the status if absent
    retry_after_seconds: NonNegativeNumber | None = None  # the header, for 429 and the like

    @model_validator(mode="after")
    def _is_one_fault(self) -> Self:
        kinds = (self.status, self.drop_after_events, self.malformed)
        if sum(kind is not None for kind in kinds) != 1:
            raise wrong('a fault has one of "status", "drop_after_events" and "malformed"')
        return self


class TurnUsage(Model):
    """The tokens that an answer says it took."""

    input_tokens: Count = 10
    output_tokens: Count = 5


class Turn(Model):
    """One answer of the model: what it says, then the tools that it asks for, all at once."""

    say: NonEmptyText | None = None
    tools: tuple[ToolUse, ...] = ()
    delay_seconds: NonNegativeNumber = 0.0  # before the first byte
    stop_reason: StopReason | None = None  # `tool_use` if it asks for tools, else `end_turn`
    usage: TurnUsage = TurnUsage.model_construct()
    fault: Fault | None = None

    @model_validator(mode="after")
    def _answers(self) -> Self:
        always_fails = self.fault is not None and self.fault.count is None
        if self.say is None and not self.tools and not always_fails:
            raise wrong('a turn must "say" something, use "tools", or have a "fault" without a "count"')
        return self


class Branch(Model):
    """Other turns for conversations that begin differently, as those of subagents do."""

    prompt_contains: NonEmptyText
    turns: Annotated[tuple[Turn, ...], Field(min_length=1)]


class Scenario(Model):
    """What the API answers, by the number of answers that the conversation has already."""

    name: ScenarioName | None = None  # the file's, without its ending, if absent
    description: str | None = None  # for readers
    turns: Annotated[tuple[Turn, ...], Field(min_length=1)]
    branches: tuple[Branch, ...] = ()
    repeat_last: Flag = False  # after the last turn the last again; else an error with status 400

    def turns_for(self, prompt: str) -> tuple[Turn, ...]:
        """Choose the turns for a conversation by how it begins."""
        return next(
            (branch.turns for branch in self.branches if branch.prompt_contains in prompt), self.turns
        )

    def turn(self, prompt: str, index: int) -> Turn | None:
        """Give the answer number `index`, from 0; None after the last."""
        turns = self.turns_for(prompt)
        if index < len(turns):
            return turns[index]
        return turns[-1] if self.repeat_last else None


def load_scenarios(*paths: Path) -> dict[str, Scenario]:
    """Read scenarios, one or more in a file, by name; raise InputError with every problem of every file."""
    problems = Problems()
    scenarios: dict[str, Scenario] = {}
    for path in paths:
        file = os.path.relpath(path)
        try:
            documents = parse_yaml(decode_text(read_bytes(path, file), file), file)
        except InputError as error:
            problems.extend(error.problems)
            continue
        if not documents:
            problems.extend([Problem(file, 1, 1, "is empty; a scenario has turns")])
        _add(scenarios, documents, path.stem, problems)
    problems.raise_if_any()
    return scenarios


def _add(
    scenarios: dict[str, Scenario], documents: Sequence[Document], stem: str, problems: Problems
) -> None:
    for document in documents:
        if not isinstance(document.data, dict):
            problems.add(document, (), 'must be a mapping with "turns"')
            continue
        scenario = check(Scenario, document.data, document, (), problems, "a scenario")
        if scenario is None:
            continue
        name = scenario.name or stem
        if name in scenarios:
            problems.add(
                document, ("name",) if scenario.name else (), f'there is a scenario "{name}" already'
            )
        scenarios[name] = scenario
