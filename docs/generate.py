"""Turn the models, the parsers and the variables of the code into the pages of docs/reference.

What a page says of a key is the comment beside its field, and of a variable the comment beside its name:
one place for both readers. `python -m docs.generate` (or `make docs`) writes the pages.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter

from docs.comments import REPOSITORY, comment_of, uncapitalized, variables
from docs.markdown import marked, page, table
from docs.words import default_in_words, type_in_words

REFERENCE = REPOSITORY / "docs" / "reference"

_GENERATED = "<!-- Made by `make docs` from the code. Change the code, not this page. -->"
# Written in each spec, and told in its heading.
_TAGS = ("kind", "type")


def pages() -> dict[str, str]:
    """Give every page by its name."""
    return {"yaml.md": yaml_page(), "cli.md": cli_page(), "settings.md": settings_page()}


def main() -> None:
    """Write the pages."""
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {os.path.relpath(REFERENCE / name)}\n")


def yaml_page() -> str:
    """Describe the keys of test files."""
    from farm.authoring.eval_fields import EvalCase, EvalFile, EvalSettings, Execution
    from farm.authoring.fields import AssertionTest, CaseEntry, CaseSettings
    from farm.authoring.message_entries import MessageEntry, ToolCallEntry
    from farm.model.agent import CallTool, Crash, Say, Sleep
    from farm.model.evaluator import (
        SPECS,
        TYPE_ALIASES,
        AccurateField,
        EvaluatorBase,
        ExpectedToolCall,
        Rubric,
        Threshold,
        WeightedAverage,
    )
    from farm.model.evaluator.judges import ScoreRange, StdoutReview
    from farm.model.suite import Rate, Trials

    case_keys = (*CaseSettings.model_fields, *CaseEntry.model_fields)
    common = {*CaseSettings.model_fields, *EvalSettings.model_fields}
    parts = [
        _GENERATED,
        "# Keys of test files",
        "Every key that a test file may have. [Writing tests](../writing-tests.md) says what they are for, "
        "and shows each at work; `farm schema` prints the same as a JSON Schema, for editors.",
        "## Assertion tests",
        _keys(AssertionTest, leave_out=case_keys),
        "And what any [case](#cases) may have.",
        "## Eval files",
        _keys(EvalFile, leave_out=common),
        "And what a suite has in common [with its cases](#suites-and-cases).",
        "## Cases",
        "Of an eval file:",
        _keys(EvalCase, leave_out={*common, *CaseEntry.model_fields}),
        "Of both kinds of test file:",
        _keys(CaseEntry, leave_out=common, written_in=EvalCase),
        "## Suites and cases",
        "On an eval file or one of its cases:",
        _keys(EvalSettings, leave_out=CaseSettings.model_fields, written_in=EvalCase),
        "`execution` has:",
        _keys(Execution),
        "On an assertion test, an eval file or a case, which wins:",
        _keys(CaseSettings, written_in=EvalCase),
        "`trials` is a count, or has:",
        _keys(Trials),
        "A policy that is no word has:",
        _keys(Rate),
        "## Messages",
        _keys(MessageEntry),
        "A tool call in one:",
        _keys(ToolCallEntry),
        "## Steps of a script",
        *(f"{_sentence(step)}\n\n{_keys(step)}" for step in (CallTool, Say, Sleep, Crash)),
        "## Evaluators",
        "An entry with `tool` is a `tool_call`, one with `stdout` a `stdout_review`, and a bare text an "
        "`llm_judge`; all others name their `type`. Every evaluator may have:",
        _keys(EvaluatorBase),
        *(_evaluator(spec, TYPE_ALIASES) for spec in SPECS),
        "### Parts of evaluators",
        "`stdout` has:",
        _keys(StdoutReview),
        "A field of `field_accuracy`:",
        _keys(AccurateField),
        "A step of `tool_trajectory`:",
        _keys(ExpectedToolCall),
        "Aggregators of a `composite` are `code_judge`, `llm_judge`, `weighted_average` and `threshold`, of "
        "which the last two have:",
        _keys(WeightedAverage),
        _keys(Threshold),
        "### Rubrics",
        _keys(Rubric),
        "A range of scores:",
        _keys(ScoreRange),
    ]
    return page(parts)


def settings_page() -> str:
    """Describe the keys of farm.yaml, and the environment."""
    from farm.model.agent import AGENT_ALIASES, AGENT_SPECS, AgentBase
    from farm.model.limits import LimitSpec
    from farm.model.prices import Price
    from farm.model.schedule import NotifySpec, ScheduleSpec
    from farm.settings import FarmFile, JudgeEntry

    aliases = {kind: alias for alias, kind in AGENT_ALIASES.items() if "-" in alias}
    parts = [
        _GENERATED,
        "# Settings",
        "What `farm.yaml` may say, and which variables of the environment are read.",
        "## farm.yaml",
        "In the suite root; see [writing tests](../writing-tests.md#farmyaml).",
        _keys(FarmFile),
        "### judge",
        _keys(JudgeEntry),
        "### limits",
        "By the name of an agent, a kind or a model; see [limits](../running-a-fleet.md#limits).",
        _keys(LimitSpec),
        "### prices",
        "By model: " + uncapitalized(_sentence(Price)),
        _keys(Price),
        "### agents",
        "By name. Every kind takes these; see [agents](../writing-tests.md#agents).",
        _keys(AgentBase, show_tags=True),
        *(
            part
            for kind, spec in AGENT_SPECS.items()
            for part in (
                f"#### {kind}" + (f" = {aliases[kind]}" if kind in aliases else ""),
                _sentence(spec),
                _keys(spec, leave_out=AgentBase.model_fields),
            )
        ),
        "### schedules",
        "By name; see [nightly runs](../nightly.md).",
        _keys(ScheduleSpec),
        "An entry of `notify` has `webhook` or `command`:",
        _keys(NotifySpec),
        "## Environment variables",
        "[Running a fleet](../running-a-fleet.md#the-environment) says who needs which.",
        table(("variable", "meaning"), ((f"`{name}`", marked(what)) for name, what in variables().items())),
        "Of others, these are heard:",
        table(("variable", "meaning"), ((f"`{name}`", what) for name, what in OTHER_VARIABLES.items())),
    ]
    return page(parts)


# Variables that are not ours alone.
OTHER_VARIABLES = {
    "ANTHROPIC_API_KEY": "the key of `claude` and `anthropic` agents; `secrets` names those of the others",
    "FORCE_COLOR": "colours, also where no terminal is",
    "NO_COLOR": "no colours",
    "PATH": "where agents' programs are looked for; part of every session's environment",
    "TMPDIR": "where sessions have their directories",
}


def cli_page() -> str:
    """Describe the commands."""
    from farm.cli.main import COMMANDS, load_command

    described: dict[Any, str] = {}
    parts = [
        _GENERATED,
        "# Commands",
        "`farm --help` lists them, `farm COMMAND --help` says the same as this page. "
        "[Exit codes](../../README.md#exit-codes) are those of all commands.",
        table(
            ("command", "what it does"),
            ((f"[`farm {name}`](#farm-{name})", what) for name, what in COMMANDS.items()),
        ),
    ]
    for name in COMMANDS:
        module, parser = load_command(name)
        parts.append(f"## farm {name}")
        other = described.setdefault(module, name)
        if other != name:
            parts.append(f"{COMMANDS[name].capitalize()}. Takes what [`farm {other}`](#farm-{other}) takes.")
            continue
        parts.append(re.sub(r"^#.*$", r"`\g<0>`", marked(parser.description or ""), flags=re.MULTILINE))
        if arguments := [action for action in _actions(parser) if not action.option_strings]:
            parts.append(table(("argument", "meaning"), map(_argument_row, arguments)))
        if options := [action for action in _actions(parser) if action.option_strings]:
            parts.append(table(("option", "meaning"), map(_option_row, options)))
    return page(parts)


def undescribed() -> list[str]:
    """Name every row that says nothing: a field or a variable without a comment, an option without a help."""
    return [
        f"{name}: {line}"
        for name, text in pages().items()
        for line in text.splitlines()
        if line.endswith("|  |")
    ]


def _keys(
    model: type[BaseModel],
    *,
    leave_out: Iterable[str] = (),
    show_tags: bool = False,
    written_in: type[BaseModel] | None = None,
) -> str:
    """Describe the keys of a model; `written_in` is the one that has them in the schema of test files."""
    schema = _schema_of(written_in or model)
    fields = {field.alias or name: (name, field) for name, field in model.model_fields.items()}
    out = {*leave_out, *(() if show_tags else _TAGS)}
    rows = []
    for key, value in schema["properties"].items():
        if key in out or (written_in and key not in fields):
            continue
        if key in fields:
            name, field = fields[key]
            default, meaning = default_in_words(field), comment_of(model, name)
        else:  # another spelling of a key
            same = next(one for one in fields if schema["properties"][one] == value)
            default, meaning = "", f"the same as {same}"
        rows.append((f"`{key}`", type_in_words(value, schema["$defs"]), default, marked(meaning)))
    return table(("key", "value", "default", "meaning"), rows)


def _evaluator(spec: Any, aliases: Mapping[str, str]) -> str:
    from farm.model.evaluator import EvaluatorBase

    types = spec.model_fields["type"].annotation.__args__
    told = ", ".join(types)
    if names := [alias for alias, meant in aliases.items() if meant in types]:
        told += " = " + " = ".join(names)
    passes = "" if spec.passing_score == 1.0 else f" It passes at {spec.passing_score:g}."
    return f"### {told}\n\n{_sentence(spec)}{passes}\n\n{_keys(spec, leave_out=EvaluatorBase.model_fields)}"


def _sentence(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


@cache
def _definitions() -> dict[str, Any]:
    from farm.authoring.schema import test_file_schema

    definitions: dict[str, Any] = test_file_schema()["$defs"]
    return definitions


@cache
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    definitions = _definitions()
    if model.__name__ in definitions:
        return {**definitions[model.__name__], "$defs": definitions}
    schema = TypeAdapter(model).json_schema(mode="validation", by_alias=True)
    return {"$defs": {}, **schema}


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (action for action in parser._actions if action.dest != "help")


def _argument_row(action: argparse.Action) -> tuple[str, str]:
    name = f"[{_named(action)}]" if action.nargs in ("?", "*") else _named(action)
    return f"`{name}`", marked(_help(action))


def _option_row(action: argparse.Action) -> tuple[str, str]:
    value = f" {_named(action)}" if action.nargs != 0 else ""
    return ", ".join(f"`{option}{value}`" for option in action.option_strings), marked(_help(action))


def _named(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None and action.metavar is None:
        name = "|".join(map(str, action.choices))
    return f"{name}…" if action.nargs in ("+", "*") else name


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": "farm"}


if __name__ == "__main__":
    main()
