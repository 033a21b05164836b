"""What the real Codex, Gemini and OpenCode CLIs printed (in captures/), as transcripts and as errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.agents.codex_stream import CodexStream
from farm.agents.gemini_stream import GeminiStream
from farm.agents.opencode_stream import OpencodeStream
from farm.agents.records import Record
from farm.agents.session_files import read_session
from farm.agents.tool_dialect import OurName, our_tool
from farm.errors import InputError, SessionError
from farm.model.transcript import Transcript

CAPTURES = Path(__file__).parent / "captures"
FORMS: dict[str, Any] = {"codex": CodexStream(), "gemini": GeminiStream(), "opencode": OpencodeStream()}


def capture(name: str) -> Transcript:
    return read_session(CAPTURES / f"{name}.jsonl")


def calls_of(transcript: Transcript) -> list[tuple[str, Any, bool]]:
    return [(call.tool, call.input, call.is_error) for call in transcript.tool_calls()]


def records(*lines: dict[str, Any]) -> list[Record]:
    return [Record(line, "stream", number) for number, line in enumerate(lines, 1)]


def test_codex_commands_and_changed_files_are_calls_in_our_words():
    transcript = capture("codex/works")
    work = "/trial/work"
    assert calls_of(transcript) == [
        ("Bash", {"command": "wc -l README.md; exit 3"}, True),
        ("Bash", {"command": "cat README.md"}, False),
        ("Edit", {"file_path": f"{work}/AGENTS.md", "kind": "delete"}, False),
        ("Edit", {"file_path": f"{work}/README.md", "kind": "update"}, False),
        ("Write", {"file_path": f"{work}/SUMMARY.md", "kind": "add"}, False),
    ]
    assert [call.output for call in transcript.tool_calls()][:2] == ["3 README.md\n", "one\ntwo\nthree\n"]
    assert len({call.id for call in transcript.tool_calls()}) == 5
    assert transcript.output_messages is not None
    assert [message.content for message in transcript.output_messages] == ["Looking.", "All done."]
    names = (transcript.output_messages[0].metadata or {})["tool_names"]
    assert names == {
        "item_1": "command_execution",
        "item_2": "command_execution",
        "item_3": "file_change",
        "item_3.1": "file_change",
        "item_3.2": "file_change",
    }
    assert (transcript.agent, transcript.final_text, transcript.cost_usd) == ("codex", "All done.", None)
    assert transcript.usage is not None
    # Four answers of 100 tokens read, 40 of them cached, and 10 said.
    assert transcript.usage.model_dump(exclude_defaults=True) == {
        "input_tokens": 240,
        "cache_read_tokens": 160,
        "output_tokens": 40,
    }


def test_gemini_pieces_of_text_are_one_message_and_its_tools_have_our_names():
    transcript = capture("gemini/works")
    assert calls_of(transcript) == [
        ("Read", {"file_path": "README.md"}, False),
        ("Bash", {"command": "wc -l README.md; exit 3"}, False),
        ("Write", {"file_path": "SUMMARY.md", "content": "three lines\n"}, False),
        (
            "Edit",
            {"file_path": "README.md", "old_string": "one", "new_string": "uno", "instruction": "x"},
            False,
        ),
        ("Glob", {"pattern": "*.md"}, False),
        ("Grep", {"pattern": "two"}, False),
        ("LS", {"path": "."}, False),
        ("Read", {"file_path": "nope.md"}, True),
    ]
    *_, failed = transcript.tool_calls()
    assert failed.output == "File not found: /trial/work/nope.md"
    assert transcript.output_messages is not None
    assert [message.content for message in transcript.output_messages] == [
        "Looking around.",
        None,
        None,
        "All done.",
    ]
    assert (transcript.model, transcript.num_turns, transcript.final_text) == (
        "gemini-2.5-flash",
        4,
        "All done.",
    )
    assert (transcript.duration_ms, transcript.cost_usd) == (430, None)
    assert transcript.usage is not None
    # Four answers of 100 tokens read, 40 of them cached, 10 said and 3 thought.
    assert transcript.usage.model_dump(exclude_defaults=True) == {
        "input_tokens": 240,
        "cache_read_tokens": 160,
        "output_tokens": 52,
    }


def test_opencode_calls_are_in_the_order_in_which_the_model_asked():
    transcript = capture("opencode/works")
    made = [(call.tool, call.is_error) for call in transcript.tool_calls()]
    assert made == [
        ("Read", False),
        ("Bash", True),  # exit code 3
        ("Write", False),
        ("Edit", False),
        ("Glob", True),  # there was no ripgrep
        ("Grep", True),
        ("Read", True),
        ("invalid", True),  # a tool that does not exist
    ]
    read, bash, write, edit, *_ = transcript.tool_calls()
    assert read.input == {"file_path": "README.md"}
    assert bash.input == {"command": "wc -l README.md; exit 3", "description": "count"}
    assert write.input == {"file_path": "SUMMARY.md", "content": "three lines\n"}
    assert edit.input == {"file_path": "README.md", "old_string": "one", "new_string": "uno"}
    assert bash.duration_ms == 249
    assert (transcript.final_text, transcript.num_turns) == ("All done.", 4)
    assert transcript.cost_usd == pytest.approx(4 * 0.000105)
    assert transcript.duration_ms == pytest.approx(833)
    assert transcript.usage is not None
    assert transcript.usage.model_dump(exclude_defaults=True) == {"input_tokens": 40, "output_tokens": 20}


@pytest.mark.parametrize(
    ("name", "kind", "retryable"),
    [
        ("codex/status_400", "bad_request", False),
        ("codex/status_401", "authentication", False),
        ("codex/status_429", "rate_limited", True),
        ("codex/status_500", "api_overloaded", True),
        ("codex/connection_lost", "api_error", True),
        ("codex/quota", "authentication", False),
        ("codex/context", "model_context_window_exceeded", False),
        ("codex/rate_limit", "rate_limited", True),
        ("codex/no_key", "authentication", False),
        ("codex/killed", "no_result", True),
        ("gemini/status_400", "bad_request", False),
        ("gemini/status_401", "authentication", False),
        ("gemini/status_429", "rate_limited", True),
        ("gemini/status_500", "api_error", True),
        ("gemini/connection_lost", "api_error", True),
        ("gemini/max_turns", "max_turns", False),
        ("gemini/killed", "no_result", True),
        ("opencode/status_401", "authentication", False),
        ("opencode/no_key", "authentication", False),
        ("opencode/killed", "no_result", True),
    ],
)
def test_every_other_end_is_no_transcript(name, kind, retryable):
    with pytest.raises(SessionError) as error:
        capture(name)
    assert (error.value.kind, error.value.retryable) == (kind, retryable)
    assert str(error.value)


@pytest.mark.parametrize("kind", FORMS)
def test_a_stream_that_breaks_off_is_no_transcript(kind, tmp_path):
    content = (CAPTURES / kind / "works.jsonl").read_bytes().rstrip(b"\n")
    lines = content.split(b"\n")
    for cut in (content[:-10], b"\n".join(lines[:-1]) + b"\n"):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(cut)
        with pytest.raises(SessionError) as error:
            read_session(path)
        assert error.value.kind == "no_result"


@pytest.mark.parametrize("kind", FORMS)
def test_calls_are_told_of_as_they_come_and_as_they_are_in_the_end(kind):
    form, transcript = FORMS[kind], capture(f"{kind}/works")
    told: dict[str, tuple[str, Any]] = {}
    for line in (CAPTURES / kind / "works.jsonl").read_bytes().splitlines():
        if form.call_mark in line:
            for call in form.tool_calls_of_line(json.loads(line)):
                told.setdefault(call.id, (call.tool, call.input))
    assert told == {call.id: (call.tool, call.input) for call in transcript.tool_calls()}


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"type": 1}, {"type": "tool_use"}, {"type": "tool_use", "part": {"tool": 1, "callID": 2}}]
    + [{"item": item} for item in (None, {"id": 1, "type": 2}, {"id": "x", "type": "file_change"})],
)
def test_no_line_makes_the_live_view_fail(kind, data):
    list(FORMS[kind].tool_calls_of_line(data))


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("codex", {"type": "item.completed", "item": {"type": "command_execution"}}),
        ("codex", {"type": "item.completed"}),
        ("gemini", {"type": "tool_use", "tool_name": "glob"}),
        ("gemini", {"type": "tool_use", "tool_id": "x"}),
        ("gemini", {"type": "tool_result"}),
        ("opencode", {"type": "tool_use", "sessionID": "s"}),
        ("opencode", {"type": "tool_use", "sessionID": "s", "part": {"messageID": "m", "callID": "c"}}),
        ("opencode", {"type": "text", "sessionID": "s", "part": {"text": "x"}}),
    ],
)
def test_a_line_that_may_have_been_a_call_is_not_passed_over(kind, line):
    end = json.loads((CAPTURES / kind / "works.jsonl").read_bytes().splitlines()[-1])
    with pytest.raises(InputError):
        FORMS[kind].transcript(records(line, end))


def test_codex_warnings_and_reconnections_are_no_end():
    (_, *_, end) = (CAPTURES / "codex/works.jsonl").read_bytes().splitlines()
    warned = {"type": "item.completed", "item": {"id": "i0", "type": "error", "message": "not known"}}
    again = {"type": "error", "message": "Reconnecting... 1/5 (unexpected status 401 Unauthorized)"}
    said = {"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": "hello"}}
    transcript = CodexStream().transcript(records(warned, again, said, json.loads(end)))
    assert (transcript.final_text, list(transcript.tool_calls())) == ("hello", [])


def test_codex_items_that_we_do_not_know_are_calls():
    end = {"type": "turn.completed"}
    items: list[dict[str, Any]] = [
        {"id": "a", "type": "mcp_tool_call", "server": "demo", "tool": "greet", "arguments": {"who": "x"}},
        {"id": "b", "type": "web_search", "query": "farms"},
        {"id": "c", "type": "time_travel", "to": 1999, "status": "failed"},
    ]
    lines = [{"type": "item.completed", "item": item} for item in items]
    assert calls_of(CodexStream().transcript(records(*lines, end))) == [
        ("mcp__demo__greet", {"who": "x"}, False),
        ("WebSearch", {"query": "farms"}, False),
        ("time_travel", {"to": 1999}, True),
    ]


def test_an_answer_of_opencode_that_was_cut_off_is_not_judged():
    def ending(reason: str) -> list[Record]:
        part = {"type": "step-finish", "reason": reason}
        return records({"type": "step_finish", "sessionID": "s", "part": part})

    for reason, kind in (("length", "max_tokens"), ("content-filter", "refusal"), ("other", "no_result")):
        with pytest.raises(SessionError) as error:
            OpencodeStream().transcript(ending(reason))
        assert error.value.kind == kind
    assert not OpencodeStream().has_end(ending("tool-calls"))


def test_nothing_that_a_file_holds_is_more_than_an_error(tmp_path):
    end = {"type": "step_finish", "sessionID": "s", "timestamp": 10**400, "part": {"reason": "stop"}}
    transcript = OpencodeStream().transcript(records(end))
    assert (transcript.duration_ms, transcript.cost_usd) == (None, 0)
    without_part = records({"type": "step_finish", "sessionID": "s"})
    assert OpencodeStream().has_end(without_part)
    with pytest.raises(InputError):
        OpencodeStream().transcript(without_part)
    path = tmp_path / "hostile.jsonl"
    lines: tuple[dict[str, Any], ...] = ({"sessionID": "s", "type": []}, {"type": {}}, {"type": "init"})
    for line in lines:
        path.write_text(json.dumps(line))
        with pytest.raises(InputError):
            read_session(path)


def test_a_parameter_never_replaces_another():
    dialect = {"read": OurName("Read", {"filePath": "file_path"})}
    assert our_tool(dialect, "read", {"filePath": "a", "limit": 2}) == (
        "Read",
        {"file_path": "a", "limit": 2},
    )
    both = {"filePath": "a", "file_path": "b"}
    assert our_tool(dialect, "read", both) == ("Read", both)
    assert our_tool(dialect, "read", None) == ("Read", None)
    assert our_tool(dialect, "other", {"filePath": "a"}) == ("other", {"filePath": "a"})
