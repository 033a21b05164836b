"""Turn the models, the parsers and the variables of the code into the pages of docs/reference.

What a page says of a key is the comment beside its field, and of a variable the comment beside its name:
one place for both readers. `python -m docs.generate` (or `make docs`) writes the pages.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

REPOSITORY = Path(__file__).parents[1]
REFERENCE = REPOSITORY / "docs" / "reference"
WIDTH = 120

_GENERATED = "<!-- Made by `make docs` from the code. Change the code, not this page. -->"
_VARIABLE = re.compile(r"FARM_[A-Z_]+")
# Written in each spec, and told in its heading.
_TAGS = ("kind", "type")

# What a value that has shorthands may be, by its name in the JSON Schema of test files.
_ENTRIES = {
    "Evaluators": "list of [evaluators](#evaluators)",
    "Script": "list of [steps](#steps-of-a-script)",
    "Input": "text, [message](#messages), or list of these",
    "Messages": "list of [messages](#messages)",
    "ExpectedOutput": "text, data, [message](#messages), or list of these",
    "Cases": "list of cases, or paths and globs",
    "Rubrics": "list of texts and [rubrics](#rubrics)",
}


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
        _table(AssertionTest, leave_out=case_keys),
        "And what any [case](#cases) may have.",
        "## Eval files",
        _table(EvalFile, leave_out=common),
        "And what a suite has in common [with its cases](#suites-and-cases).",
        "## Cases",
        "Of an eval file:",
        _table(EvalCase, leave_out={*common, *CaseEntry.model_fields}),
        "Of both kinds of test file:",
        _table(CaseEntry, leave_out=common, written_in=EvalCase),
        "## Suites and cases",
        "On an eval file or one of its cases:",
        _table(EvalSettings, leave_out=CaseSettings.model_fields, written_in=EvalCase),
        "`execution` has:",
        _table(Execution),
        "On an assertion test, an eval file or a case, which wins:",
        _table(CaseSettings, written_in=EvalCase),
        "`trials` is a count, or has:",
        _table(Trials),
        "A policy that is no word has:",
        _table(Rate),
        "## Messages",
        _table(MessageEntry),
        "A tool call in one:",
        _table(ToolCallEntry),
        "## Steps of a script",
        *(f"{_sentence(step)}\n\n{_table(step)}" for step in (CallTool, Say, Sleep, Crash)),
        "## Evaluators",
        "An entry with `tool` is a `tool_call`, one with `stdout` a `stdout_review`, and a bare text an "
        "`llm_judge`; all others name their `type`. Every evaluator may have:",
        _table(EvaluatorBase),
        *(_evaluator(spec, TYPE_ALIASES) for spec in SPECS),
        "### Parts of evaluators",
        "`stdout` has:",
        _table(StdoutReview),
        "A field of `field_accuracy`:",
        _table(AccurateField),
        "A step of `tool_trajectory`:",
        _table(ExpectedToolCall),
        "Aggregators of a `composite` are `code_judge`, `llm_judge`, `weighted_average` and `threshold`, of "
        "which the last two have:",
        _table(WeightedAverage),
        _table(Threshold),
        "### Rubrics",
        _table(Rubric),
        "A range of scores:",
        _table(ScoreRange),
    ]
    return _page(parts)


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
        _table(FarmFile),
        "### judge",
        _table(JudgeEntry),
        "### limits",
        "By the name of an agent, a kind or a model; see [limits](../running-a-fleet.md#limits).",
        _table(LimitSpec),
        "### prices",
        "By model: " + _uncapitalized(_sentence(Price)),
        _table(Price),
        "### agents",
        "By name. Every kind takes these; see [agents](../writing-tests.md#agents).",
        _table(AgentBase, show_tags=True),
        *(
            part
            for kind, spec in AGENT_SPECS.items()
            for part in (
                f"#### {kind}" + (f" = {aliases[kind]}" if kind in aliases else ""),
                _sentence(spec),
                _table(spec, leave_out=AgentBase.model_fields),
            )
        ),
        "### schedules",
        "By name; see [nightly runs](../nightly.md).",
        _table(ScheduleSpec),
        "An entry of `notify` has `webhook` or `command`:",
        _table(NotifySpec),
        "## Environment variables",
        "[Running a fleet](../running-a-fleet.md#the-environment) says who needs which.",
        _rows(("variable", "meaning"), ((f"`{name}`", _marked(what)) for name, what in variables().items())),
        "Of others, these are heard:",
        _rows(("variable", "meaning"), ((f"`{name}`", what) for name, what in OTHER_VARIABLES.items())),
    ]
    return _page(parts)


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
        _rows(
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
        parts.append(re.sub(r"^#.*$", r"`\g<0>`", _marked(parser.description or ""), flags=re.MULTILINE))
        if arguments := [action for action in _actions(parser) if not action.option_strings]:
            parts.append(_rows(("argument", "meaning"), map(_argument_row, arguments)))
        if options := [action for action in _actions(parser) if action.option_strings]:
            parts.append(_rows(("option", "meaning"), map(_option_row, options)))
    return _page(parts)


def variables() -> dict[str, str]:
    """Find every variable of ours that the code knows, with what is said beside its name."""
    found: dict[str, str] = {}
    for path in sorted((*(REPOSITORY / "farm").rglob("*.py"), *(REPOSITORY / "workers").rglob("*.py"))):
        text = path.read_text(encoding="utf-8")
        if "FARM_" not in text:
            continue
        comments = _comments(text)
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and _VARIABLE.fullmatch(node.value)
            ):
                found[node.value] = found.get(node.value) or comments.get(node.lineno, "")
    return dict(sorted(found.items()))


def undescribed() -> list[str]:
    """Name every row that says nothing: a field or a variable without a comment, an option without a help."""
    return [
        f"{name}: {line}"
        for name, text in pages().items()
        for line in text.splitlines()
        if line.endswith("|  |")
    ]


def _table(
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
            default, meaning = _default(field), _comment(model, name)
        else:  # another spelling of a key
            default, meaning = (
                "",
                f"the same as {next(one for one in fields if schema['properties'][one] == value)}",
            )
        rows.append((f"`{key}`", _type(value, schema["$defs"]), default, _marked(meaning)))
    return _rows(("key", "value", "default", "meaning"), rows)


def _evaluator(spec: Any, aliases: Mapping[str, str]) -> str:
    from farm.model.evaluator import EvaluatorBase

    types = spec.model_fields["type"].annotation.__args__
    told = ", ".join(types)
    if names := [alias for alias, meant in aliases.items() if meant in types]:
        told += " = " + " = ".join(names)
    passes = "" if spec.passing_score == 1.0 else f" It passes at {spec.passing_score:g}."
    return f"### {told}\n\n{_sentence(spec)}{passes}\n\n{_table(spec, leave_out=EvaluatorBase.model_fields)}"


def _sentence(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def _uncapitalized(text: str) -> str:
    return text[0].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


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


def _type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Say in words what a JSON Schema accepts."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _ENTRIES.get(name) or _type(definitions[name], definitions)
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if choices:
        told = [_type(choice, definitions) for choice in choices if choice != {"type": "null"}]
        return " or ".join(dict.fromkeys(told))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    match schema.get("type"):
        case "array":
            return _list(schema, definitions)
        case "object":
            return _mapping(schema, definitions)
        case "integer" | "number":
            return _number(schema)
        case kind:
            return {"string": "text", "boolean": "`true`, `false`"}.get(kind or "", "anything")


def _list(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"list of {len(schema['prefixItems'])}: {_type(schema['prefixItems'][0], definitions)}"
    inner = _type(schema.get("items") or {}, definitions)
    return f"list of {inner}s" if inner in ("text", "mapping") else f"list of {inner}"


def _mapping(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    inner = schema.get("additionalProperties")
    told = _type(inner, definitions) if isinstance(inner, dict) and "not" not in inner else "anything"
    return "mapping" if "properties" in schema or told in ("anything", "mapping") else f"mapping to {told}"


def _number(schema: dict[str, Any]) -> str:
    told = "whole number" if schema["type"] == "integer" else "number"
    if "exclusiveMinimum" in schema:
        told += f" above {schema['exclusiveMinimum']:g}"
    elif "minimum" in schema:
        told += f" from {schema['minimum']:g}"
    return told + (f" to {schema['maximum']:g}" if "maximum" in schema else "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ({}, (), []) or isinstance(value, BaseModel):
        return ""
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return f"`{text if not isinstance(value, str) else value}`"


def _comment(model: type[BaseModel], name: str) -> str:
    for owner in model.__mro__:
        if issubclass(owner, BaseModel) and name in inspect.get_annotations(owner):
            return _field_comments(owner).get(name, "")
    return ""


@cache
def _field_comments(model: type[BaseModel]) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(model))
    comments = _comments(source)
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            found[node.target.id] = next((comments[line] for line in lines if line in comments), "")
    return found


def _comments(source: str) -> dict[int, str]:
    """Give the comments by the line that they are about: their own, or the next if they stand alone."""
    found: dict[int, str] = {}
    above: list[str] = []
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("# ").strip()
            if token.line.lstrip().startswith("#"):
                above.append(text)
                found[token.start[0] + 1] = _uncapitalized(" ".join(above).removesuffix("."))
            else:
                found[token.start[0]] = text
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            above = []
    return {line: text for line, text in found.items() if text}


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (action for action in parser._actions if action.dest != "help")


def _argument_row(action: argparse.Action) -> tuple[str, str]:
    name = f"[{_named(action)}]" if action.nargs in ("?", "*") else _named(action)
    return f"`{name}`", _marked(_help(action))


def _option_row(action: argparse.Action) -> tuple[str, str]:
    value = f" {_named(action)}" if action.nargs != 0 else ""
    return ", ".join(f"`{option}{value}`" for option in action.option_strings), _marked(_help(action))


def _named(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None and action.metavar is None:
        name = "|".join(map(str, action.choices))
    return f"{name}…" if action.nargs in ("+", "*") else name


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": "farm"}


def _rows(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join((f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines)) if lines else ""


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


def _marked(text: str) -> str:
    """Mark names as code, and keep what is no markup from being taken for it."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _plain(part) for part in parts)


def _plain(text: str) -> str:
    marked = re.sub(r"(?<![\w-])(?:\w+_\w+|--[a-z][a-z-]*\w)", r"`\g<0>`", text)
    return re.sub(r"[*<>]", r"\\\g<0>", marked)


def _page(parts: Iterable[str]) -> str:
    text = "\n\n".join(part for part in parts if part)
    return "\n".join(_wrapped(text.splitlines())) + "\n"


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith(("|", "#", "<")) or len(line) <= WIDTH:
            yield line
        else:
            yield from textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    main()
