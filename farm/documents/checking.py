"""Turn a document's data into a model, or into problems that say where, what, and what was meant."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from farm.documents.yaml import Document, KeyPath
from farm.errors import InputError, Problem

M = TypeVar("M", bound=BaseModel)

# What pydantic's types are called in a YAML file.
_EXPECTED = {
    "bool_type": "true or false",
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "json_invalid": "plain data",
}


_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


class Problems:
    """Collects the problems of many files, so that all of them are told at once."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def add(self, document: Document, path: KeyPath, message: str, *, of_key: bool = False) -> None:
        """Note a problem of the value (or key) at a path."""
        self._found.append(document.problem(path, message, of_key=of_key))

    def extend(self, problems: Iterable[Problem]) -> None:
        """Note problems found elsewhere."""
        self._found.extend(problems)

    def raise_if_any(self) -> None:
        """Raise all problems as one InputError."""
        if self._found:
            raise InputError(self._found)


def check(
    model: type[M], data: Any, document: Document, path: KeyPath, problems: Problems, what: str = ""
) -> M | None:
    """Validate the data at a path as a model, with a problem for each slip.

    What can be made of the rest is given all the same, so that the reader finds the other problems too.
    """
    written, data = data, _without_empty((model,), data, document, path, problems)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)
    told: dict[tuple[tuple[str | int, ...], bool], list[str]] = {}
    for detail in details:
        if detail["type"] == "extra_forbidden":
            message = unknown_key(str(detail["loc"][-1]), _keys_at(model, detail["loc"][:-1]), what)
            problems.add(document, (*path, *detail["loc"]), message, of_key=True)
        elif not _follows_from_another(detail, details):
            at = _existing(data, detail["loc"])
            if detail["type"] == "missing" and detail["loc"][:-1] == at:
                # Keys that are missing side by side are no alternatives, as the members of a union are.
                if detail["loc"][-1] not in _value_at(written, at):  # else it is empty, and told so
                    problems.add(document, (*path, *at), _say(detail, data, at))
                continue
            told.setdefault((at, detail["loc"][-1:] == ("[key]",)), []).append(_say(detail, data, at))
    for (at, of_key), messages in told.items():
        problems.add(document, (*path, *at), _join(messages), of_key=of_key)
    return _salvage(model, data, {detail["loc"][0] for detail in details if detail["loc"]})


def _without_empty(
    models: tuple[type[BaseModel], ...], data: Any, document: Document, path: KeyPath, problems: Problems
) -> Any:
    """Tell of keys without a value, in inner models too: `called:` is a slip, not the default."""
    if isinstance(data, list):
        return [_without_empty(models, item, document, (*path, at), problems) for at, item in enumerate(data)]
    if not isinstance(data, dict):
        return data
    nullable, inner = _fields_of(models)
    if None not in data.values() and inner.keys().isdisjoint(data):
        return data
    kept = {}
    for key, value in data.items():
        if value is None and key not in nullable:
            problems.add(
                document, (*path, key), f'"{key}" is empty; give it a value or remove it', of_key=True
            )
        elif key in inner:
            kept[key] = _without_empty(inner[key], value, document, (*path, key), problems)
        else:
            kept[key] = value
    return kept


@cache
def _fields_of(
    models: tuple[type[BaseModel], ...],
) -> tuple[frozenset[str], dict[str, tuple[type[BaseModel], ...]]]:
    """Name the keys that may be null, and those that hold models, with these."""
    fields = [(field.alias or name, field) for model in models for name, field in model.model_fields.items()]
    # Plain Any is an author's own data, where null is a value like any other.
    nullable = frozenset(key for key, field in fields if field.annotation is Any and not field.metadata)
    inner = {key: tuple(_models_in(field.annotation)) for key, field in fields}
    return nullable, {key: found for key, found in inner.items() if found}


def _salvage(model: type[M], data: Any, wrong: set[int | str]) -> M | None:
    if not isinstance(data, dict) or not wrong:
        return None
    try:
        return model.model_validate({key: value for key, value in data.items() if key not in wrong})
    except ValidationError:
        return None


def _follows_from_another(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Say whether a list is only too short because its items are wrong, which is told already."""
    depth = len(detail["loc"])
    return detail["type"] == "too_short" and any(
        len(other["loc"]) > depth and other["loc"][:depth] == detail["loc"] for other in details
    )


def unknown_key(key: str, known: Iterable[str], what: str = "") -> str:
    """Say that a key is unknown, what it may be a slip of, or else what is known."""
    words = sorted(known)
    where = f" in {what}" if what else ""
    if meant := did_you_mean(key, words):
        return f'unknown key "{key}"{where}; {meant}'
    return f'unknown key "{key}"{where}; known are {", ".join(words)}'


def did_you_mean(word: str, known: Iterable[str], nearness: float = 0.6) -> str:
    """Suggest the known word that is nearest; empty if none is near."""
    from difflib import get_close_matches  # not at the top: only mistakes need it

    close = get_close_matches(word[:80].casefold(), list(known), n=1, cutoff=nearness)
    return f'did you mean "{close[0]}"?' if close else ""


def _say(detail: ErrorDetails, data: Any, at: tuple[str | int, ...]) -> str:
    kind, key = detail["type"], next((step for step in reversed(at) if isinstance(step, str)), "")
    subject = f'"{key}" ' if key else ""
    if kind == "wrong":
        return detail["msg"]
    if kind == "missing":
        return f'the key "{detail["loc"][-1]}" is missing'
    if kind in _EXPECTED:
        return f"{subject}must be {_EXPECTED[kind]}, not {_describe(_value_at(data, at))}"
    if kind == "literal_error":
        value = _value_at(data, at)
        expected = detail.get("ctx", {}).get("expected", "")
        words = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
        meant = did_you_mean(value, words) if isinstance(value, str) else ""
        return f"{subject}must be {expected}, not {_describe(value)}" + (f"; {meant}" if meant else "")
    context = detail.get("ctx", {})
    for limit, comparison in _LIMITS.items():
        if limit in context:
            return f"{subject}must be {comparison} {context[limit]:g}"
    if kind in ("too_short", "string_too_short"):
        return f"{subject}must not be empty"
    return f"{subject}is wrong: {detail['msg']}"


def _join(messages: list[str]) -> str:
    """Make one sentence of what the members of a union each complain of."""
    first = messages[0]
    if len(messages) == 1:
        return first
    alternatives = list(dict.fromkeys(messages))
    heads = {message.split(" must be ")[0] for message in alternatives}
    if len(heads) == 1 and all(" must be " in message for message in alternatives):
        head = heads.pop()
        kinds = [message.split(" must be ", 1)[1].split(", not ")[0] for message in alternatives]
        tail = first.rpartition(", not ")[2] if ", not " in first else ""
        return f"{head} must be {' or '.join(dict.fromkeys(kinds))}" + (f", not {tail}" if tail else "")
    return "; or ".join(alternatives)


def _existing(data: Any, loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Keep the steps of an error's location that lead through the data; union tags do not."""
    at: list[int | str] = []
    for step in loc:
        in_list = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if in_list or (isinstance(data, dict) and step in data):
            data = data[step]
            at.append(step)
    return tuple(at)


def _value_at(data: Any, at: tuple[int | str, ...]) -> Any:
    for step in at:
        data = data[step]
    return data


def _describe(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        shown = value if len(value) <= 40 else value[:40] + "…"
        return f'"{shown}"' if shown.isprintable() else repr(shown)
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping"


def _keys_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> set[str]:
    """Collect the keys known at a location: those of every model that its annotations allow there."""
    models = {model}
    for step in loc:
        if isinstance(step, str):
            inner = {
                found
                for candidate in models
                for name, field in candidate.model_fields.items()
                if step in (name, field.alias)
                for found in _models_in(field.annotation)
            }
            models = inner or models  # a union's tag is no field
    return {
        field.alias or name
        for candidate in models
        for name, field in candidate.model_fields.items()
        if not field.exclude
    }


def _models_in(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
