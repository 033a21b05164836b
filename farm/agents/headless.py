"""Run an agent's CLI without a terminal: read its JSON lines as they come, and say what its end means.

Knows no CLI's lines; a `StreamFormat` does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from farm.agents.base import Availability, Session
from farm.agents.cli_program import CliProgram, ask_version
from farm.agents.prices import own_cost_usd
from farm.agents.program_end import ended_badly, not_started, timed_out
from farm.agents.records import Record, Records, parse_records
from farm.agents.redaction import Redaction, redaction_of
from farm.agents.timestamps import timestamp_now
from farm.errors import InputError, SessionError
from farm.model.messages import ToolCall
from farm.model.transcript import Transcript
from farm.sessions.process import CommandNotStartedError, ProcessResult

MAX_STREAM_BYTES = 64 * 2**20
STREAM_FILE = "stream.jsonl"  # in the trial's config directory, for those who keep it


@dataclass(frozen=True)
class HeadlessCommand:
    """All that starts one session."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    program: Path
    needed: tuple[Path, ...] = ()  # what the sandbox has to show beside the program


class StreamFormat(Protocol):
    """How one CLI writes down a session."""

    @property
    def call_mark(self) -> bytes:
        """What every line that tells of a tool call has in it: the others are not parsed as they come."""
        ...

    def has_end(self, records: Sequence[Record]) -> bool:
        """Say whether the lines tell how the session ended."""
        ...

    def text_in_pieces(self, content: bytes) -> str:
        """Put together what it tells in pieces, a line each: a secret may lie across them."""
        ...

    def transcript(self, records: Sequence[Record], *, cut_off: bool = False) -> Transcript:
        """Turn the lines into a transcript; raise SessionError if the session did not end with success."""
        ...

    def tool_calls_of_line(self, data: Any) -> Iterator[ToolCall]:
        """Give the calls that a line tells of, while the session goes on. No line makes it fail."""
        ...


@dataclass(frozen=True)
class HeadlessAgent:
    """A kind of agent that is a CLI, and nothing more."""

    program: CliProgram
    make_command: Callable[[Session, Any], HeadlessCommand]  # Any: each takes its own spec
    form: Callable[[], StreamFormat]
    acts = True

    def availability(self) -> Availability:
        """Say whether the CLI is here and runs."""
        return self.program.availability()

    def run(self, session: Session) -> Transcript:
        """Run the CLI in the workspace; its exit code and its stream say whether there is a record."""
        command = self.make_command(session, session.spec)
        transcript = run_headless(session, command, self.form())
        version = ask_version(command.program).version
        return _priced(transcript, session).model_copy(update={"agent_version": version})


def run_headless(session: Session, command: HeadlessCommand, form: StreamFormat) -> Transcript:
    """Run a CLI in the workspace; its exit code and its lines say whether there is a record."""
    redaction = redaction_of(session.spec, session.case)
    stream = _LiveStream(session, redaction, form)
    # Opened before the agent can put a link to somewhere else in its place.
    with (session.workspace.config / STREAM_FILE).open("wb") as kept:
        result = _run_command(session, command, stream)
        said, content = redaction(result.stderr), redaction(result.stdout)
        in_pieces = form.text_in_pieces(content).encode(errors="replace")
        if redaction(in_pieces) == in_pieces:
            kept.write(content)
            session.keep_log("stream.jsonl", content)
    transcript = _read_transcript(session, result, form, content, said, stream.arrivals)
    # Once more: what came in pieces, in several lines, is whole only now.
    return redaction.of_model(transcript).model_copy(
        update={
            "agent": session.agent,
            "model": transcript.model or session.model,
            "exit_code": result.exit_code,
        }
    )


def secrets_from_environment(names: Sequence[str]) -> dict[str, str]:
    """Give what of the worker's environment a session may have, by name."""
    return {name: os.environ[name] for name in names if name in os.environ}


class _LiveStream:
    """What a session prints, line by line: tells of tool calls as they are made, and notes when."""

    def __init__(self, session: Session, redaction: Redaction, form: StreamFormat) -> None:
        self.arrivals: list[str] = []  # of the lines, in order
        self._session = session
        self._redaction = redaction
        self._form = form
        self._told: set[str] = set()

    def take(self, line: bytes) -> None:
        """Take in one line; what is wrong with it is told at the end."""
        self.arrivals.append(timestamp_now())
        if self._form.call_mark not in line:
            return
        try:
            data = json.loads(self._redaction(line))
        except (ValueError, RecursionError):
            return
        for call in self._form.tool_calls_of_line(data):
            if call.id is not None and call.id not in self._told:
                self._told.add(call.id)
                self._session.on_tool_call(call)


def _run_command(session: Session, command: HeadlessCommand, stream: _LiveStream) -> ProcessResult:
    try:
        return session.run_command(
            command.argv,
            env=command.env,
            stdin=command.stdin,
            output_limit_bytes=MAX_STREAM_BYTES,
            # npm puts a link in PATH: where it leads is what the sandbox has to show.
            author=[str(path) for path in (command.program, command.program.resolve(), *command.needed)],
            on_line=stream.take,
            sealed=True,
        )
    except CommandNotStartedError as error:
        raise not_started(error) from error


def _read_transcript(
    session: Session,
    result: ProcessResult,
    form: StreamFormat,
    content: bytes,
    stderr: bytes,
    arrivals: list[str],
) -> Transcript:
    """Give the record of a session that succeeded: exit code 0, an end, and no error in it."""
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
    has_end = form.has_end(records.items)
    # What was printed before it was killed may end in the middle of a line: how it ended says more.
    if result.exit_code != 0 and not has_end:
        raise ended_badly(session, result.exit_code, because)
    if problem is not None:
        raise _bad_output(str(problem), retryable=True) from problem
    if not has_end:
        message = f"the CLI ended with exit code 0 and without a result{because}"
        raise SessionError("no_result", message, retryable=True)
    try:
        transcript = form.transcript(
            [_stamped(record, arrivals) for record in records.items], cut_off=records.cut_off_at is not None
        )
    except InputError as error:
        raise _bad_output(str(error), retryable=True) from error
    if result.exit_code != 0:
        failure = ended_badly(session, result.exit_code, because)
        failure.cost_usd = transcript.cost_usd
        raise failure
    return transcript


def _priced(transcript: Transcript, session: Session) -> Transcript:
    """Say what a session cost whose CLI does not, by the author's prices: we know those of others only."""
    if transcript.cost_usd is not None or transcript.usage is None or transcript.model is None:
        return transcript
    cost_usd = own_cost_usd(transcript.usage, transcript.model, session.prices)
    return transcript.model_copy(update={"cost_usd": cost_usd})


def _stamped(record: Record, arrivals: list[str]) -> Record:
    """Say when a line came. Only some have the CLI's own time, and a duration needs two of the same clock."""
    if record.line > len(arrivals):
        return record
    return Record({**record.data, "timestamp": arrivals[record.line - 1]}, record.file, record.line)


def _bad_output(message: str, *, retryable: bool) -> SessionError:
    return SessionError("bad_output", message, retryable=retryable)
