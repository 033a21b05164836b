"""Turn a transcript into lines for people: each tool call with its input and output, then the answer.

All of it came from an agent, so none of it reaches the terminal as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from farm.model.messages import ToolCall
from farm.model.patterns import text_of
from farm.model.transcript import Transcript, WorkspaceChanges
from farm.reporting.terminal import Paint, plain, safe, safe_line

_MAX_LINES = 10


def session_lines(transcript: Transcript, paint: Paint = plain) -> Iterator[str]:
    """Show a session: its tool calls, final text, changed files, and figures."""
    calls = list(transcript.tool_calls())
    yield f"Tool calls: {len(calls)}"
    for number, call in enumerate(calls, 1):
        yield from _call_lines(number, call, paint)
    yield "Final text:" + ("" if transcript.final_text else " none")
    if transcript.final_text:
        yield indent(safe(transcript.final_text.rstrip("\n")), "  ", lambda _line: True)
    if transcript.workspace_changes is not None:
        yield from _change_lines(transcript.workspace_changes)
    for denial in transcript.permission_denials:
        yield paint(f"Denied: {safe_line(denial.tool)}({safe_line(text_of(denial.input))})", "yellow")
    yield ", ".join(_figures(transcript))


def _call_lines(number: int, call: ToolCall, paint: Paint) -> Iterator[str]:
    by = " (subagent)" if call.parent_id is not None else ""
    took = "" if call.duration_ms is None else f"  {call.duration_ms / 1000:.2f} s"
    yield f"  {number}. {paint(safe_line(call.tool), 'cyan')}{by}{took}"
    if isinstance(call.input, dict):
        for name, value in call.input.items():
            yield from _value_lines(f"{safe_line(name)}: ", text_of(value))
    elif call.input is not None:
        yield from _value_lines("", text_of(call.input))
    if call.output is not None:
        arrow = paint("✗ ", "red") if call.is_error else "→ "
        yield from _value_lines(arrow, text_of(call.output))


def _value_lines(head: str, text: str) -> Iterator[str]:
    """Show a value under its call; one of many lines below its head, and not all of them."""
    first, *rest = safe(text.rstrip("\n")).split("\n")
    yield f"       {head}{first}"
    shown = rest[: _MAX_LINES - 1]
    for line in shown:
        yield f"         {line}"
    if len(rest) > len(shown):
        yield f"         … {len(rest) - len(shown)} more lines"


def _change_lines(changes: WorkspaceChanges) -> Iterator[str]:
    if not changes.paths:
        yield "Changed files: none"
        return
    yield "Changed files:"
    for mark, paths in (("+", changes.added), ("~", changes.modified), ("-", changes.deleted)):
        for path in paths:
            yield f"  {mark} {safe_line(path)}"


def _figures(transcript: Transcript) -> Iterator[str]:
    yield safe_line(" ".join(filter(None, (transcript.agent, transcript.agent_version))))
    if transcript.model:
        yield safe_line(transcript.model)
    if transcript.num_turns is not None:
        yield f"{transcript.num_turns} turn{'s' * (transcript.num_turns != 1)}"
    if transcript.usage is not None:
        yield f"{transcript.usage.total_input_tokens} tokens in, {transcript.usage.output_tokens} out"
    if transcript.cost_usd is not None:
        yield f"${transcript.cost_usd:.4f}"
    if transcript.duration_ms is not None:
        yield f"{transcript.duration_ms / 1000:.1f} s"
