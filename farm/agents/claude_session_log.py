"""Find the log that Claude Code kept of a session, with its subagents' in it as one, line for line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from farm.agents.claude_log import BEFORE_ALL, subagent_logs
from farm.agents.headless import MAX_STREAM_BYTES
from farm.agents.timestamps import parse_timestamp
from farm.sessions.workspace_diff import read_plain_file


def read_session_log(config: Path, session_id: str, *, within: Path) -> bytes | None:
    """Give a session's log; None if there is none, or not a plain one. No link below `within` is followed.

    Never fails: what an agent put in its place says nothing of the session. To be called when that is over:
    nobody may be left to put a link in a file's place.
    """
    try:
        # By its id, not by the directory: its name is made of the workspace's, in a way of the CLI's own.
        log = next((config / "projects").glob(f"*/{session_id}.jsonl"), None)
        parts = list(_read([log, *subagent_logs(log)], within)) if log is not None else []
    except (OSError, RuntimeError):  # of links that lead nowhere, in some versions of pathlib
        return None
    if len(parts) < 2:
        return parts[0] if parts else None
    lines = [line for part in parts for line in _timed(part)]
    # As old versions wrote it: a subagent's lines are marked, and stand where they came.
    return b"".join(line for _, line in sorted(lines, key=lambda line: line[0]))


def _read(paths: Sequence[Path], within: Path) -> Iterator[bytes]:
    """Give the contents of files, as long as there is room; nothing if the first is not to be had."""
    room = MAX_STREAM_BYTES
    for number, path in enumerate(paths):
        is_plain = path.resolve() == within.resolve() / path.relative_to(within)
        content = read_plain_file(path, room) if is_plain else None
        if content is not None:
            room -= len(content)
            yield content
        elif not number:
            return


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
