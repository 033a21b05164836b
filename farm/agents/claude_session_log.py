"""Find the log that Claude Code kept of a session, with its subagents' in it as one, line for line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from farm.agents.claude_log import BEFORE_ALL, subagent_logs
from farm.agents.headless import MAX_STREAM_BYTES
from farm.agents.timestamps import parse_timestamp
from farm.sessions.workspace_diff import read_plain_file


def read_session_log(config: Path, session_id: str, *, within: Path) -> bytes | None:
    """Give a session's log; None if there is none, or not a plain one. No link below `within` is followed.

    To be called when the session is over: nobody may be left to put a link in a file's place.
    """
    # By its id, not by the directory: its name is made of the workspace's, in a way of the CLI's own.
    log = next((config / "projects").glob(f"*/{session_id}.jsonl"), None)
    if log is None or (content := _read(log, within)) is None:
        return None
    others = [_read(path, within) for path in subagent_logs(log)]
    if not any(others):
        return content
    lines = [line for part in (content, *others) if part for line in _timed(part)]
    # As old versions wrote it: a subagent's lines are marked, and stand where they came.
    return b"".join(line for _, line in sorted(lines, key=lambda line: line[0]))


def _read(path: Path, within: Path) -> bytes | None:
    if path.resolve() != within.resolve() / path.relative_to(within):
        return None
    return read_plain_file(path, MAX_STREAM_BYTES)


def _timed(content: bytes) -> Iterator[tuple[datetime, bytes]]:
    """Give each line with its time; one without stays behind the one before it."""
    moment = BEFORE_ALL
    for line in content.splitlines(keepends=True):
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            data = None
        if isinstance(data, dict):
            moment = parse_timestamp(data.get("timestamp")) or moment
        yield moment, line if line.endswith(b"\n") else line + b"\n"
