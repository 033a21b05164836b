"""Say in words what a JSON Schema accepts, and what a field is if nobody sets it."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

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


def type_in_words(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Say in words what a JSON Schema accepts."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _ENTRIES.get(name) or type_in_words(definitions[name], definitions)
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if choices:
        told = [type_in_words(choice, definitions) for choice in choices if choice != {"type": "null"}]
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
        return f"list of {len(schema['prefixItems'])}: {type_in_words(schema['prefixItems'][0], definitions)}"
    inner = type_in_words(schema.get("items") or {}, definitions)
    return f"list of {inner}s" if inner in ("text", "mapping") else f"list of {inner}"


def _mapping(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    inner = schema.get("additionalProperties")
    told = type_in_words(inner, definitions) if isinstance(inner, dict) and "not" not in inner else "anything"
    return "mapping" if "properties" in schema or told in ("anything", "mapping") else f"mapping to {told}"


def _number(schema: dict[str, Any]) -> str:
    told = "whole number" if schema["type"] == "integer" else "number"
    if "exclusiveMinimum" in schema:
        told += f" above {schema['exclusiveMinimum']:g}"
    elif "minimum" in schema:
        told += f" from {schema['minimum']:g}"
    return told + (f" to {schema['maximum']:g}" if "maximum" in schema else "")


def default_in_words(field: FieldInfo) -> str:
    """Say what a field is if nobody sets it."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ({}, (), []) or isinstance(value, BaseModel):
        return ""
    text = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
    return f"`{text if not isinstance(value, str) else value}`"
