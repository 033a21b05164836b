"""Make the JSON Schema of test files, for editors, from the models that check them.

An editor's check is the first of two: `farm check` also sees what no schema can say (missing files,
duplicate ids, bounds that contradict each other).
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from farm.authoring.eval_fields import EvalCase, EvalFile
from farm.authoring.fields import AssertionTest
from farm.authoring.message_entries import MessageEntry, ToolCallEntry
from farm.model.agent import CallTool, Crash, Say, Sleep
from farm.model.evaluator import SPECS, TYPE_ALIASES, Rubric
from farm.model.messages import ROLES

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

_STEPS = (CallTool, Say, Sleep, Crash)
# The one key that an assertion may have in place of a type.
_TYPELESS = {"ToolCallSpec": "tool", "StdoutReviewSpec": "stdout"}


def test_file_schema() -> dict[str, Any]:
    """Give the JSON Schema of a test file in either dialect."""
    models: tuple[type[BaseModel], ...] = (
        AssertionTest,
        EvalFile,
        EvalCase,
        MessageEntry,
        ToolCallEntry,
        Rubric,
        *_STEPS,
        *SPECS,
    )
    _, schema = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/$defs/{model}"
    )
    definitions: dict[str, Any] = _as_authors_write(schema["$defs"])
    for spec in SPECS:
        _open_type(spec.__name__, definitions[spec.__name__])
    _open_shorthands(definitions)
    _require_one_of(definitions["EvalCase"], ("input", "input_messages"))
    listed = {**definitions["EvalCase"], "required": ["id"]}
    listed.pop("anyOf")  # a suite's input may be all that there is
    return {
        "$schema": SCHEMA_ID,
        "title": "A test file of the farm",
        "anyOf": [_ref("AssertionTest"), _ref("EvalFile"), _ref("EvalCase"), _array(_ref("ListedCase"))],
        "$defs": {**definitions, "ListedCase": listed, **_entries()},
    }


def _entries() -> dict[str, Any]:
    """Define the entries that have shorthands, under the names that the models' fields refer to."""
    text = {"type": "string", "minLength": 1}
    anything: dict[str, Any] = {}
    return {
        "Evaluators": _array({"anyOf": [text, *(_ref(spec.__name__) for spec in SPECS)]}),
        "Messages": _array(_ref("MessageEntry")),
        "Input": {"anyOf": [text, _ref("MessageEntry"), _ref("Messages")]},
        "ExpectedOutput": anything,
        "Cases": {"anyOf": [text, _array({"anyOf": [text, _ref("ListedCase")]})]},
        "Rubrics": _array({"anyOf": [text, _ref("Rubric")]}),
        "Script": {"type": "array", "items": {"anyOf": [_ref(step.__name__) for step in _STEPS]}},
    }


def _as_authors_write(schema: Any) -> Any:
    """Rewrite what pydantic makes of our models where authors write something else.

    Entries with shorthands are only named by the models: pydantic refuses references to definitions that
    are not its own. And a key without a value is a problem to the loader, not a null.
    """
    if isinstance(schema, list):
        return [_as_authors_write(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(entry := schema.get("entry"), str):
        return _ref(entry)
    rewritten = {key: _as_authors_write(value) for key, value in schema.items()}
    choices = [choice for choice in rewritten.pop("anyOf", ()) if choice != {"type": "null"}]
    if rewritten.get("default", ...) is None:
        del rewritten["default"]
    if len(choices) == 1:
        return {**rewritten, **choices[0]}
    return {**rewritten, "anyOf": choices} if choices else rewritten


def _open_type(name: str, definition: dict[str, Any]) -> None:
    """Let a spec be named by every spelling that the loader reads."""
    kind = definition["properties"]["type"]
    names = kind.pop("enum", None) or [kind.pop("const")]
    names += [alias for alias, meant in TYPE_ALIASES.items() if meant in names]
    names += [spelling.replace("_", "-") for spelling in names if "_" in spelling]
    kind.pop("default", None)
    kind["enum"] = names
    # Without a type only the assertions' own keys tell what is meant.
    if name not in _TYPELESS:
        definition["required"] = sorted({*definition.get("required", ()), "type"})


def _open_shorthands(definitions: dict[str, Any]) -> None:
    judge = definitions["CodeJudgeSpec"]
    judge["properties"]["script"] = judge["properties"]["command"]
    judge["required"] = ["type"]
    judge["additionalProperties"] = True  # the judge's own configuration
    _require_one_of(judge, ("command", "script"))
    composite = definitions["CompositeSpec"]
    members = composite["properties"]["evaluators"] = _ref("Evaluators")
    composite["properties"]["assertions"] = members
    composite["required"] = ["type"]
    _require_one_of(composite, ("evaluators", "assertions"))
    aggregators = composite["properties"]["aggregator"]["oneOf"]
    composite["properties"]["aggregator"] = {
        "anyOf": [{"type": "string"}, *aggregators, {"type": "object", "required": ["type", "path"]}]
    }
    schema = definitions["IsJsonSpec"]["properties"]["schema"]
    schema["anyOf"] = [{"type": "string"}, *schema["anyOf"]]
    definitions["MessageEntry"]["properties"]["role"] = {"enum": list(ROLES)}
    definitions["MessageEntry"]["properties"]["tool_calls"] = {
        "type": "array",
        "items": _ref("ToolCallEntry"),
    }


def _require_one_of(definition: dict[str, Any], keys: tuple[str, ...]) -> None:
    definition["anyOf"] = [{"required": [key]} for key in keys]


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": items}
