"""Turn a case's `script` into the steps of the scripted agent."""

from __future__ import annotations

from typing import Any

from farm.documents.checking import Problems, check, did_you_mean
from farm.documents.yaml import Document, KeyPath
from farm.model.agent import WORKSPACE_TOOLS, CallTool, Crash, Say, ScriptStep, Sleep
from farm.model.tool_names import canonical_tool_name, nearly_known_tool

_STEPS: dict[str, type[CallTool | Say | Sleep | Crash]] = {
    "tool": CallTool,
    "say": Say,
    "sleep": Sleep,
    "crash": Crash,
}


def read_script(
    raw: Any, document: Document, path: KeyPath, problems: Problems
) -> tuple[ScriptStep, ...] | None:
    """Read the steps of a script; None if there is no script."""
    if raw is None:
        return None
    if not isinstance(raw, list):
        problems.add(document, path, '"script" must be a list of steps')
        return None
    steps = (_read_step(item, document, (*path, at), problems) for at, item in enumerate(raw))
    return tuple(step for step in steps if step is not None)


def _read_step(raw: Any, document: Document, path: KeyPath, problems: Problems) -> ScriptStep | None:
    known = [key for key in _STEPS if isinstance(raw, dict) and key in raw]
    if len(known) != 1:
        slips = [did_you_mean(key, _STEPS) for key in raw] if isinstance(raw, dict) and not known else []
        meant = next((f"; {slip}" for slip in slips if slip), "")
        problems.add(document, path, f"a step has exactly one of {', '.join(_STEPS)}{meant}")
        return None
    step = check(_STEPS[known[0]], raw, document, path, problems, "a step")
    if isinstance(step, CallTool):
        if near := nearly_known_tool(step.tool):
            problems.add(document, (*path, "tool"), f'unknown tool "{step.tool}"; did you mean "{near}"?')
        elif step.output is not None and canonical_tool_name(step.tool) in WORKSPACE_TOOLS:
            message = f"{step.tool} is carried out for real and has an output of its own; remove this one"
            problems.add(document, (*path, "output"), message)
    return step
