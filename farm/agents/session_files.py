"""Turn a recorded session in a file, whatever wrote it, into a Transcript; and write one.

Told apart by their content: our own transcript, a Claude Code session log, what the CLIs of Claude Code,
Codex, Gemini and OpenCode print as a stream of JSON lines, and the output of a `command` agent.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from farm.agents.claude_log import is_log, read_subagent_records, transcript_of_log
from farm.agents.claude_stream import is_stream, transcript_of_stream
from farm.agents.codex_stream import CodexStream
from farm.agents.gemini_stream import GeminiStream
from farm.agents.opencode_stream import OpencodeStream
from farm.agents.records import Record, Records, read_records
from farm.agents.wire import WireError, has_output, transcript_of_output
from farm.errors import InputError, Problem
from farm.model.transcript import Transcript

TRANSCRIPT_SCHEMA = "farm.transcript/1"


def read_session(path: Path, *, case_id: str | None = None, file: str | None = None) -> Transcript:
    """Read a recorded session.

    `case_id` chooses among several records of one file; `file` is the name to report. Raises InputError if
    the file is not a recording, and SessionError if it records a session that did not end properly.
    """
    file = str(path) if file is None else file
    records = read_records(path, file)
    first = records.items[0].data if records.items else {}
    cut_off = records.cut_off_at is not None
    if first.get("schema") == TRANSCRIPT_SCHEMA:
        return _read_transcript(records, file)
    if is_log(records.items):
        return transcript_of_log(records.items, read_subagent_records(path), cut_off=cut_off)
    if is_stream(records.items):
        return transcript_of_stream(records.items, cut_off=cut_off)
    for form in (CodexStream(), GeminiStream(), OpencodeStream()):
        if form.is_stream(records.items):
            return form.transcript(records.items, cut_off=cut_off)
    return read_output(records, file, case_id)


def read_output(records: Records, file: str, case_id: str | None) -> Transcript:
    """Read what a program wrote about its session; of several records, the case's."""
    if records.cut_off_at is not None:
        raise InputError([Problem(file, records.cut_off_at, 1, "not valid JSON: the line is cut off")])
    record = _choose(records.items, file, case_id)
    if not has_output(record.data):
        raise record.problem(
            "not a recorded session: neither a Claude session log, a CLI's stream of JSON, a transcript, "
            "nor an object with text, output_messages or trace"
        )
    try:
        return transcript_of_output(record.data, agent="command")
    except WireError as error:
        raise record.problem(str(error)) from None


def dump_transcript(transcript: Transcript) -> bytes:
    """Write a transcript so that `read_session` gives back the same; equal ones give equal bytes."""
    fields = transcript.model_dump(mode="json", exclude_none=True)
    return (
        json.dumps({"schema": TRANSCRIPT_SCHEMA, **fields}, ensure_ascii=False).encode(errors="replace")
        + b"\n"
    )


def _read_transcript(records: Records, file: str) -> Transcript:
    record, *others = records.items
    if others or records.cut_off_at is not None:
        line = others[0].line if others else records.cut_off_at or 1
        raise InputError([Problem(file, line, 1, "a transcript stands alone in its file")])
    fields = {name: value for name, value in record.data.items() if name != "schema"}
    try:
        return Transcript.model_validate(fields)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
        where = ".".join(map(str, details[0]["loc"]))
        raise record.problem(f"not a transcript: {where}: {details[0]['msg']}") from None


def _choose(records: tuple[Record, ...], file: str, case_id: str | None) -> Record:
    """Choose the case's record: the only one, or the one that bears its id."""
    if len(records) == 1:
        return records[0]
    if case_id is None:
        raise InputError([Problem(file, 1, 1, f"has {len(records)} records, and no case to choose one by")])
    wanted = (case_id, case_id.rpartition("::")[2])
    found = [record for record in records if _id_of(record) in wanted]
    if len(found) == 1:
        return found[0]
    how_many = "none" if not found else f"{len(found)} (lines {', '.join(str(r.line) for r in found)})"
    message = f"has {len(records)} records, of which {how_many} has the id {json.dumps(wanted[1])}"
    raise InputError([Problem(file, 1, 1, message)])


def _id_of(record: Record) -> object:
    for name in ("id", "eval_id", "evalId"):
        if (value := record.data.get(name)) is not None:
            return value
    return None
