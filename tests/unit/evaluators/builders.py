"""Small builders for the sessions that evaluators are tried on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from farm.evaluators.base import EvaluationContext
from farm.evaluators.registry import judge
from farm.model.evaluator import EvaluatorSpec
from farm.model.messages import Message, ToolCall
from farm.model.suite import Case
from farm.model.transcript import Transcript
from farm.model.verdict import Verdict

_SPEC: TypeAdapter[EvaluatorSpec] = TypeAdapter(EvaluatorSpec)


def spec(**fields: Any) -> EvaluatorSpec:
    """Give the spec that a loader would make of these fields."""
    return _SPEC.validate_python(fields)


def call(tool: str, /, **params: Any) -> ToolCall:
    """Give a call of a tool with this input."""
    return ToolCall(tool=tool, input=params)


def session(
    *calls: ToolCall | str,
    text: str = "",
    workspace: Path | None = None,
    files: Path = Path("/nonexistent"),
    case: Case | None = None,
    **fields: Any,
) -> EvaluationContext:
    """Give a session that made these calls (a bare name is a call without input), one a message."""
    made = [call(one) if isinstance(one, str) else one for one in calls]
    messages = tuple(Message(role="assistant", tool_calls=(one,)) for one in made)
    fields.setdefault("output_messages", messages)
    transcript = Transcript(agent="scripted", final_text=text, **fields)
    return EvaluationContext(case=case or a_case(), transcript=transcript, files=files, workspace=workspace)


def unrecorded(**fields: Any) -> EvaluationContext:
    """Give a session that left neither messages nor a trace."""
    return session(output_messages=None, **fields)


def a_case(expected: Any = None, **fields: Any) -> Case:
    """Give a case; `expected` is the content of its expected message."""
    messages: Sequence[Message] = () if expected is None else (Message(role="assistant", content=expected),)
    defaults: dict[str, Any] = {
        "id": "suite/case",
        "name": "case",
        "file": "suite/case.yaml",
        "input_messages": (Message(role="user", content="Do it."),),
        "expected_messages": tuple(messages),
        "evaluators": (),
    }
    return Case(**{**defaults, **fields})


def verdict(context: EvaluationContext, /, **fields: Any) -> Verdict:
    """Judge a session by the evaluator with these fields."""
    return judge(spec(**fields), context)


def tool_verdict(context: EvaluationContext, /, tool: str, **fields: Any) -> Verdict:
    """Judge a session by an assertion on a tool."""
    return verdict(context, type="tool_call", tool=tool, **fields)


def trajectory_verdict(context: EvaluationContext, /, mode: str, **fields: Any) -> Verdict:
    """Judge the way a session took."""
    return verdict(context, type="tool_trajectory", mode=mode, **fields)
