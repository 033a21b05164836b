"""The `command` agent: any program, started by a template, its output the session's record."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from farm.agents.attachments import copy_attachments
from farm.agents.base import Availability, Session
from farm.agents.headless import secrets_from_environment
from farm.agents.program_end import ended_badly, not_started, start_errno, timed_out
from farm.agents.prompt import prompt_text
from farm.agents.records import Records, parse_records
from farm.agents.redaction import redaction_of
from farm.agents.session_files import read_output
from farm.agents.wire import has_answer
from farm.errors import InputError, SessionError
from farm.model.agent import CommandSpec
from farm.model.command_template import fill_template
from farm.model.transcript import Transcript
from farm.sessions.process import CommandNotStartedError, ProcessResult

MAX_OUTPUT_BYTES = 10 * 2**20  # of stdout and of the output file
MODEL_VARIABLE = "FARM_MODEL"  # set for `command` agents: the model that they are to use

_SHELL = "/bin/sh"


class CommandAgent:
    """Runs the command that farm.yaml gives this agent."""

    acts = True

    def availability(self) -> Availability:
        """Say whether there is a shell; the program itself may come with a workspace."""
        if os.access(_SHELL, os.X_OK):
            return Availability(usable=True)
        return Availability(usable=False, reason=f"there is no {_SHELL}")

    def run(self, session: Session) -> Transcript:
        """Run the command in the workspace; its end decides whether there is anything to read."""
        exchange = _open_exchange(session)
        result = _run_command(session, exchange)
        _check_end(result, session)
        read = _read_transcript(session, exchange, result)
        transcript = (
            redaction_of(session.spec, session.case)
            .of_model(read)
            .model_copy(
                update={
                    "agent": session.agent,
                    "model": session.model,
                    "exit_code": result.exit_code,
                    "duration_ms": result.duration_ms if read.duration_ms is None else read.duration_ms,
                }
            )
        )
        for call in transcript.tool_calls():
            session.on_tool_call(call)
        return transcript


@dataclass(frozen=True)
class _Exchange:
    """What passes between the farm and the program, beside the workspace: nothing of it is a change."""

    prompt: str
    prompt_file: Path
    output_file: Path
    files: Mapping[str, Path]  # the case's names to where the program can read them


def _open_exchange(session: Session) -> _Exchange:
    assert isinstance(session.spec, CommandSpec)
    place = session.workspace.config
    files = copy_attachments(session, place / "files")
    prompt = prompt_text(session.case.input_messages, files)
    exchange = _Exchange(prompt, place / "prompt.txt", place / "output", files)
    exchange.output_file.unlink(missing_ok=True)
    if "{PROMPT_FILE}" in session.spec.command:
        exchange.prompt_file.write_bytes(prompt.encode(errors="replace"))
    return exchange


def _run_command(session: Session, exchange: _Exchange) -> ProcessResult:
    assert isinstance(session.spec, CommandSpec)
    template = session.spec.command
    command = fill_template(
        template,
        {
            "PROMPT": exchange.prompt,
            "PROMPT_FILE": str(exchange.prompt_file),
            "OUTPUT_FILE": str(exchange.output_file),
            "EVAL_ID": session.case.id,
            "ATTEMPT": str(session.attempt),
            "FILES": [str(path) for path in exchange.files.values()],
        },
    )
    env = secrets_from_environment(session.spec.secrets)
    if session.model:
        env[MODEL_VARIABLE] = session.model
    try:
        return session.run_command(command, env=env, output_limit_bytes=MAX_OUTPUT_BYTES, author=template)
    except CommandNotStartedError as error:
        raise _why_not_started(error, template, command) from error


def _why_not_started(error: CommandNotStartedError, template: str, command: str) -> SessionError:
    advice = "use {PROMPT_FILE} in place of {PROMPT}"
    if start_errno(error) == errno.E2BIG and "{PROMPT}" in template:
        size = f"{len(command.encode(errors='replace')):,} bytes"
        return SessionError(
            "bad_prompt",
            f"with the prompt in it, the command is too long ({size}); {advice}",
            retryable=False,
        )
    if "\0" in command:
        return SessionError("bad_prompt", f"no command can hold a NUL character; {advice}", retryable=False)
    return not_started(error)


def _check_end(result: ProcessResult, session: Session) -> None:
    said = (result.stderr or result.stdout).decode(errors="replace").strip()[-500:]
    because = f": {said}" if said else ""
    if result.timed_out:
        raise timed_out(session, because)
    if result.exit_code != 0:
        raise ended_badly(session, result.exit_code, because)


def _read_transcript(session: Session, exchange: _Exchange, result: ProcessResult) -> Transcript:
    source, content = "output file", _read_output_file(exchange.output_file)
    if not content:
        source, content = "stdout", result.stdout
        if result.truncated and len(content) >= MAX_OUTPUT_BYTES:
            raise _bad_output("stdout: is larger than can be read")
    text = content.decode("utf-8-sig", errors="replace")
    records = _find_records(text, source)
    if records is None:
        return Transcript(agent=session.agent, final_text=text.rstrip("\r\n"))
    try:
        return read_output(records, source, session.case.id)
    except InputError as error:
        raise _bad_output(str(error)) from error


def _read_output_file(path: Path) -> bytes:
    """Read the file that the program may have written; it may also have put anything else in its place."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _bad_output(f"output file: can't be read: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _bad_output("output file: is not a file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_OUTPUT_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_OUTPUT_BYTES:
        raise _bad_output(f"output file: is larger than {MAX_OUTPUT_BYTES} bytes")
    return content


def _find_records(text: str, source: str) -> Records | None:
    """Take an object, or an object a line, for a record if one says what a session did or said.

    Anything else is the answer itself, also JSON of another shape.
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        records = parse_records(text.encode(), source)
    except InputError:
        return None
    return records if any(has_answer(record.data) for record in records.items) else None


def _bad_output(message: str) -> SessionError:
    return SessionError("bad_output", message, retryable=False)
