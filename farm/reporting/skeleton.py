"""Turn a session into a test file to begin with: each different tool call of it as an assertion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from farm.model.messages import ToolCall
from farm.model.tool_names import nearly_known_parameter, nearly_known_tool
from farm.model.transcript import Transcript

_MAX_VALUE = 120
# What an agent words anew each time.
_WORDED_ANEW = frozenset({"description", "prompt", "content", "old_string", "new_string"})
_GLOB_SIGNS = "*?["
_PATTERN_SIGNS = frozenset("|*()")


def skeleton_of(
    prompt: str,
    agent: str,
    transcript: Transcript,
    workspace: Path | None,
    more: Mapping[str, str | None] = MappingProxyType({}),
) -> str:
    """Write an assertion test that the session passes; the author takes away what does not matter.

    `workspace` is where the session worked; `more` is what else was said of it, by the keys of a test file.
    """
    assertions: list[dict[str, Any]] = []
    for call in transcript.tool_calls():
        if (assertion := _assertion(call, workspace)) not in assertions:
            assertions.append(assertion)
    said = transcript.final_text.strip().partition("\n")[0][:_MAX_VALUE]
    if said:
        assertions.append({"type": "contains", "value": _Quoted(said)})
    test = {
        "name": _Quoted(" ".join(prompt.split())[:60]),
        "prompt": _Quoted(prompt),
        "agent": _Quoted(agent),
        **{key: _Quoted(value) for key, value in more.items() if value is not None},
        "assertions": assertions,
    }
    text: str = yaml.dump(test, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6)
    return text


def _assertion(call: ToolCall, workspace: Path | None) -> dict[str, Any]:
    params = dict(_params(call, workspace))
    return {"tool": _Quoted(_tool_name(call.tool)), **({"params": params} if params else {})}


def _tool_name(name: str) -> str:
    """Write a tool's name so that it is taken for what it is, and not for a slip or a pattern."""
    is_taken = nearly_known_tool(name) is None and _PATTERN_SIGNS.isdisjoint(name)
    return name if is_taken else f"={name}"


def _params(call: ToolCall, workspace: Path | None) -> Iterator[tuple[str, Any]]:
    for name, value in call.input.items() if isinstance(call.input, dict) else ():
        if name in _WORDED_ANEW or not isinstance(value, str) or not value.isprintable():
            continue
        pattern = _pattern(value, workspace)
        if 0 < len(pattern) <= _MAX_VALUE and nearly_known_parameter(call.tool, name) is None:
            yield name, _Quoted(pattern)


def _pattern(value: str, workspace: Path | None) -> str:
    """Give a value as the pattern of it; the workspace's own path, another in every session, as `*`."""
    parts = value.split(str(workspace)) if workspace is not None else [value]
    if len(parts) == 1:
        return value
    first, *rest = parts
    return "*".join((_escape(first), *(_escape(part.removeprefix("/")) for part in rest)))


def _escape(text: str) -> str:
    return "".join(f"[{char}]" if char in _GLOB_SIGNS else char for char in text)


class _Quoted(str):
    """A text that is written in quotes: what it says may look like a number, or anything else."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    pass


def _represent(dumper: yaml.SafeDumper, text: _Quoted) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=None if text.isalpha() else '"')


_Dumper.add_representer(_Quoted, _represent)
