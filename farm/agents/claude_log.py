"""Turn a Claude Code session log, with the logs of its subagents beside it, into a Transcript.

A log has no result line, so how the session ended can't be told: it is graded as it is. But not one that
ends with an error of the API, which is none of the agent's doing; nor one that breaks off in a line, since
the call that is lost may be the forbidden one; nor one in which the agent never said or did anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from farm.agents.api_errors import api_error
from farm.agents.claude_messages import Conversation
from farm.agents.records import Record, read_records
from farm.agents.timestamps import milliseconds_between, parse_timestamp
from farm.agents.wire import WireError, usage_of
from farm.errors import SessionError
from farm.model.transcript import Transcript, Usage

BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


def is_log(records: Iterable[Record]) -> bool:
    """Say whether these are lines of a session log."""
    return any("sessionId" in record.data and "type" in record.data for record in records)


def read_subagent_records(log: Path) -> tuple[Record, ...]:
    """Read the logs of a session's subagents."""
    return tuple(record for path in subagent_logs(log) for record in read_records(path).items)


def subagent_logs(log: Path) -> list[Path]:
    """Find them: `<session id>/subagents/agent-*.jsonl` beside the session's own."""
    return sorted((log.parent / log.stem / "subagents").glob("agent-*.jsonl"))


def transcript_of_log(
    records: Sequence[Record], subagents: Sequence[Record] = (), *, cut_off: bool = False
) -> Transcript:
    """Turn a log's lines into the session's transcript, those of subagents in their place by time."""
    if cut_off:
        raise SessionError(
            "no_result", "the session was killed: its log breaks off in a line", retryable=True
        )
    lines = _once_each(records)
    if subagents:
        lines = _by_time(lines, _once_each(subagents))
    parents = _Parents(lines)
    conversation = Conversation()
    for record in lines:
        if record.data.get("isSidechain") is True:
            conversation.add(record, by_subagent=True, parent_id=parents.parent_of(record))
        else:
            conversation.add(record)
    _check_end(lines)
    messages = conversation.messages()
    return Transcript(
        agent="claude",
        agent_version=_first_text(record.data.get("version") for record in lines),
        model=_first_text(_message(record).get("model") for record in lines if not _is_error(record)),
        output_messages=messages,
        final_text=conversation.final_text(),
        usage=_usage(lines),
        duration_ms=_duration_ms(lines),
    )


class _Parents:
    """Which call started the subagent that wrote a line."""

    def __init__(self, lines: Sequence[Record]) -> None:
        self._lines = {record.data["uuid"]: record for record in lines if _has_text(record, "uuid")}
        self._by_agent: dict[str, str] = {}
        self._by_prompt: dict[str, str] = {}
        for record in lines:
            self._learn(record)

    def parent_of(self, record: Record) -> str | None:
        """Tell the call from the subagent's id, else (old or cut-off logs) from the prompt it was given."""
        agent = record.data.get("agentId")
        if isinstance(agent, str) and agent in self._by_agent:
            return self._by_agent[agent]
        return self._by_prompt.get(_prompt(self._first_of_chain(record)))

    def _learn(self, record: Record) -> None:
        outcome = record.data.get("toolUseResult")
        for block in _content_blocks(record):
            if block.get("type") == "tool_result" and isinstance(outcome, Mapping):
                agent, call = outcome.get("agentId"), block.get("tool_use_id")
                if isinstance(agent, str) and isinstance(call, str):
                    self._by_agent.setdefault(agent, call)
            elif block.get("type") == "tool_use" and isinstance(block.get("input"), Mapping):
                prompt, call = block["input"].get("prompt"), block.get("id")
                if isinstance(prompt, str) and isinstance(call, str):
                    self._by_prompt.setdefault(prompt, call)

    def _first_of_chain(self, record: Record) -> Record:
        passed: set[str] = set()
        while _has_text(record, "parentUuid") and (above := record.data["parentUuid"]) not in passed:
            if above not in self._lines:
                break
            passed.add(above)
            record = self._lines[above]
        return record


def _once_each(records: Sequence[Record]) -> list[Record]:
    """Leave out lines that were written before: a resumed session's log may repeat them."""
    lines: dict[object, Record] = {}
    for index, record in enumerate(records):
        lines.setdefault(record.data["uuid"] if _has_text(record, "uuid") else index, record)
    return list(lines.values())


def _by_time(lines: list[Record], others: list[Record]) -> list[Record]:
    """Merge logs by time; a line without a time stamp stays behind the one before it."""
    timed: list[tuple[datetime, Record]] = []
    for log in (lines, others):
        moment = BEFORE_ALL
        for record in log:
            moment = parse_timestamp(record.data.get("timestamp")) or moment
            timed.append((moment, record))
    return [record for _, record in sorted(timed, key=lambda item: item[0])]


def _check_end(lines: Sequence[Record]) -> None:
    said = [line for line in lines if line.data.get("type") == "assistant"]
    if not said:
        raise SessionError("no_result", "the log has no line of the agent", retryable=True)
    # Its subagents may go on after that.
    last = next((line for line in reversed(said) if line.data.get("isSidechain") is not True), None)
    if last is not None and _is_error(last):
        texts = [block["text"] for block in _content_blocks(last) if isinstance(block.get("text"), str)]
        raise api_error(last.data.get("apiErrorStatus"), "\n".join(texts) or "the API failed")


def _is_error(record: Record) -> bool:
    return record.data.get("isApiErrorMessage") is True


def _usage(lines: Iterable[Record]) -> Usage | None:
    """Sum the tokens of all messages; each of a message's lines has the same figures."""
    by_message: dict[str, Usage] = {}
    for record in lines:
        message = _message(record)
        message_id = message.get("id")
        if record.data.get("type") == "assistant" and isinstance(message_id, str) and not _is_error(record):
            try:
                usage = usage_of(message.get("usage"), "usage")
            except WireError as error:
                raise record.problem(str(error)) from None
            if usage is not None:
                by_message[message_id] = usage
    total: Usage | None = None
    for usage in by_message.values():
        total = usage if total is None else total + usage
    return total


def _duration_ms(lines: Iterable[Record]) -> float | None:
    stamps = [
        record.data["timestamp"]
        for record in lines
        if parse_timestamp(record.data.get("timestamp")) is not None
    ]
    return milliseconds_between(stamps[0], stamps[-1]) if stamps else None


def _message(record: Record) -> Mapping[str, Any]:
    message = record.data.get("message")
    return message if isinstance(message, Mapping) else {}


def _content_blocks(record: Record) -> list[Mapping[str, Any]]:
    content = _message(record).get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _prompt(record: Record) -> str:
    content = _message(record).get("content")
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in _content_blocks(record) if isinstance(block.get("text"), str))


def _has_text(record: Record, name: str) -> bool:
    return isinstance(record.data.get(name), str)


def _first_text(values: Iterable[Any]) -> str | None:
    return next((value for value in values if isinstance(value, str)), None)
