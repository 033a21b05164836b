"""The `claude` agent: the Claude Code CLI, headless, its stream of JSON lines the session's record."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from farm.agents.base import Availability, Session
from farm.agents.claude_command import ClaudeCommand, find_program, make_command, missing_program
from farm.agents.claude_stream import tool_calls_of_line, transcript_of_stream
from farm.agents.program_end import ended_badly, not_started, timed_out
from farm.agents.records import Record, Records, parse_records
from farm.agents.redaction import Redaction
from farm.errors import InputError, SessionError
from farm.model.agent import ClaudeSpec
from farm.model.transcript import Transcript
from farm.sessions.process import CommandNotStartedError, ProcessResult

MAX_STREAM_BYTES = 64 * 2**20
STREAM_FILE = "stream.jsonl"  # in the trial's config directory, for those who keep it

_VERSION_TIMEOUT_SECONDS = 30.0


class ClaudeAgent:
    """Runs the Claude Code CLI."""

    acts = True

    def availability(self) -> Availability:
        """Say whether the CLI is here and runs. What it is allowed to ask the API for is another matter."""
        program = find_program()
        if program is None:
            return Availability(usable=False, reason=missing_program())
        return _ask_version(program, program.stat().st_mtime_ns)

    def run(self, session: Session) -> Transcript:
        """Run the CLI in the workspace; its exit code and its last result say whether there is a record."""
        assert isinstance(session.spec, ClaudeSpec)
        command = make_command(session, session.spec)
        redaction = Redaction(command.secrets)
        stream = _LiveStream(session, redaction)
        # Opened before the agent can put a link to somewhere else in its place.
        with (session.workspace.config / STREAM_FILE).open("wb") as kept:
            result = _run_command(session, command, stream)
            said, content = redaction(result.stderr), redaction(result.stdout)
            kept.write(content)
        transcript = _read_transcript(session, result, content, said, stream.arrivals)
        return transcript.model_copy(
            update={
                "agent": session.agent,
                "model": transcript.model or session.model,
                "exit_code": result.exit_code,
            }
        )


class _LiveStream:
    """What a session prints, line by line: tells of tool calls as they are made, and notes when."""

    def __init__(self, session: Session, redaction: Redaction) -> None:
        self.arrivals: list[str] = []  # of the lines, in order
        self._session = session
        self._redaction = redaction
        self._told: set[str] = set()

    def take(self, line: bytes) -> None:
        """Take in one line; what is wrong with it is told at the end."""
        self.arrivals.append(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z")
        if b'tool_use"' not in line:
            return
        try:
            data = json.loads(self._redaction(line))
        except (ValueError, RecursionError):
            return
        for call in tool_calls_of_line(data):
            if call.id is not None and call.id not in self._told:
                self._told.add(call.id)
                self._session.on_tool_call(call)


def _run_command(session: Session, command: ClaudeCommand, stream: _LiveStream) -> ProcessResult:
    try:
        return session.run_command(
            command.argv,
            env=command.env,
            stdin=command.stdin,
            output_limit_bytes=MAX_STREAM_BYTES,
            # npm puts a link in PATH: where it leads is what the sandbox has to show.
            author=(str(command.program), str(command.program.resolve())),
            on_line=stream.take,
        )
    except CommandNotStartedError as error:
        raise not_started(error) from error


def _read_transcript(
    session: Session, result: ProcessResult, content: bytes, stderr: bytes, arrivals: list[str]
) -> Transcript:
    """Give the record of a session that succeeded: exit code 0, a result, and no error in it."""
    said = stderr.decode(errors="replace").strip()[-500:]
    because = f": {said}" if said else ""
    if result.timed_out:
        raise timed_out(session, because)
    if result.truncated and len(result.stdout) >= MAX_STREAM_BYTES:
        raise _bad_output(f"the stream is larger than {MAX_STREAM_BYTES:,} bytes", retryable=False)
    problem: InputError | None = None
    records = Records(())
    try:
        if content.strip():
            records = parse_records(content, "stream")
    except InputError as error:
        problem = error
    has_result = any(record.data.get("type") == "result" for record in records.items)
    # What was printed before it was killed may end in the middle of a line: how it ended says more.
    if result.exit_code != 0 and not has_result:
        raise ended_badly(session, result.exit_code, because)
    if problem is not None:
        raise _bad_output(str(problem), retryable=True) from problem
    if not has_result:
        message = f"the CLI ended with exit code 0 and without a result{because}"
        raise SessionError("no_result", message, retryable=True)
    try:
        transcript = transcript_of_stream(
            [_stamped(record, arrivals) for record in records.items], cut_off=records.cut_off_at is not None
        )
    except InputError as error:
        raise _bad_output(str(error), retryable=True) from error
    if result.exit_code != 0:
        raise ended_badly(session, result.exit_code, because)
    return transcript


def _stamped(record: Record, arrivals: list[str]) -> Record:
    """Say when a line came. Only some have the CLI's own time, and a duration needs two of the same clock."""
    if record.line > len(arrivals):
        return record
    return Record({**record.data, "timestamp": arrivals[record.line - 1]}, record.file, record.line)


def _bad_output(message: str, *, retryable: bool) -> SessionError:
    return SessionError("bad_output", message, retryable=retryable)


@lru_cache(maxsize=8)
def _ask_version(program: Path, _changed: int) -> Availability:
    """Really run it: what is installed may be for another machine."""
    try:
        done = subprocess.run(
            [program, "--version"],
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Availability(usable=False, reason=f"{program} can't be run: {error}")
    version = done.stdout.strip()
    if done.returncode != 0 or not version:
        said = done.stderr.strip()[-200:] or f"exit code {done.returncode}"
        return Availability(usable=False, reason=f"{program} --version: {said}")
    return Availability(usable=True, version=version)
