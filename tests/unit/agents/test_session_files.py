import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.agents.session_files import dump_transcript, read_session
from farm.errors import FarmError, InputError, SessionError
from farm.model.messages import Message, ToolCall
from farm.model.transcript import TraceEvent, Transcript, Usage, WorkspaceChanges

FIXTURES = Path(__file__).parent / "fixtures"


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / name).read_text().splitlines()]


@pytest.fixture
def recording(tmp_path):
    def write(*records, text: str | bytes | None = None, name: str = "session.jsonl") -> Path:
        path: Path = tmp_path / name
        if text is None:
            text = "".join(f"{json.dumps(record)}\n" for record in records)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def calls_of(transcript: Transcript) -> list[tuple[Any, ...]]:
    return [(call.tool, call.id, call.parent_id, call.is_error) for call in transcript.tool_calls()]


def messages_of(transcript: Transcript) -> tuple[Message, ...]:
    assert transcript.output_messages is not None
    return transcript.output_messages


class TestStream:
    def test_a_capture_becomes_messages_with_their_calls_and_results(self):
        transcript = read_session(FIXTURES / "stream.jsonl")

        assert calls_of(transcript) == [
            ("Read", "toolu_A1", None, False),
            ("Bash", "toolu_A2", None, True),
            ("Agent", "toolu_A3", None, False),
            ("Bash", "toolu_S1", "toolu_A3", False),
            ("Write", "toolu_A4", None, False),
        ]
        first = messages_of(transcript)[0]
        assert first.content == "Looking."
        assert [call.tool for call in first.tool_calls] == ["Read", "Bash"]
        assert first.tool_calls[0].output == "1\thello\n2\t"
        assert first.tool_calls[1].output == "Exit code 3\nREADME.md"

    def test_cost_tokens_and_versions_are_those_of_the_whole_session(self):
        transcript = read_session(FIXTURES / "stream.jsonl")

        assert transcript.usage == Usage(
            input_tokens=60, output_tokens=120, cache_read_tokens=30, cache_creation_tokens=12
        )
        assert transcript.cost_usd == pytest.approx(0.002034)
        assert transcript.duration_ms == 786
        assert transcript.num_turns == 5
        assert (transcript.agent, transcript.agent_version) == ("claude", "2.1.197")
        assert transcript.model == "claude-sonnet-4-5"
        assert transcript.final_text == "All done."

    def test_the_order_of_init_and_result_does_not_matter(self, recording):
        lines = lines_of("stream.jsonl")
        moved = recording(*lines[1:5], lines[0], *lines[5:-3], lines[-1], *lines[-3:-1])

        assert read_session(moved) == read_session(FIXTURES / "stream.jsonl")

    def test_results_are_paired_by_id_and_not_by_order(self, recording):
        lines = lines_of("stream.jsonl")
        lines[4], lines[5] = lines[5], lines[4]

        assert read_session(recording(*lines)) == read_session(FIXTURES / "stream.jsonl")

    def test_of_two_result_lines_the_last_counts_and_nothing_is_added_up(self, recording):
        lines = lines_of("stream.jsonl")
        early = {**lines[-1], "result": "early", "total_cost_usd": 0.001, "is_error": True}
        transcript = read_session(recording(*lines[:-1], early, lines[-1]))

        assert transcript.final_text == "All done."
        assert transcript.cost_usd == pytest.approx(0.002034)
        with pytest.raises(SessionError):
            read_session(recording(*lines, early))

    def test_permission_denials_are_recorded(self):
        (denial,) = read_session(FIXTURES / "stream_denied.jsonl").permission_denials

        assert (denial.tool, denial.id) == ("Bash", "toolu_A2")
        assert denial.input == {"command": "ls; exit 3", "description": "list"}

    def test_without_a_result_text_the_last_words_of_the_agent_itself_count(self, recording):
        lines = lines_of("stream.jsonl")
        del lines[-1]["result"]
        subagent = {**lines[-2], "parent_tool_use_id": "toolu_A3"}
        subagent["message"] = {**subagent["message"], "id": "msg_sub", "content": "from the subagent"}

        assert read_session(recording(*lines[:-1], subagent, lines[-1])).final_text == "All done."

    def test_a_result_alone_leaves_what_was_called_unknown(self, recording):
        transcript = read_session(recording(lines_of("stream.jsonl")[-1]))

        assert transcript.output_messages is None
        assert transcript.final_text == "All done."

    def test_a_json_list_of_lines_is_read_like_the_lines(self, recording):
        listed = recording(text=json.dumps(lines_of("stream.jsonl"), indent=1))

        assert read_session(listed) == read_session(FIXTURES / "stream.jsonl")

    @pytest.mark.parametrize(
        ("fixture", "kind", "retryable", "cost_usd"),
        [
            ("stream_max_turns", "max_turns", False, 0.000339),
            ("stream_overloaded", "api_overloaded", True, 0.0),
        ],
    )
    def test_captured_failures_are_not_graded_but_have_their_cost(self, fixture, kind, retryable, cost_usd):
        with pytest.raises(SessionError) as error:
            read_session(FIXTURES / f"{fixture}.jsonl")
        assert (error.value.kind, error.value.retryable) == (kind, retryable)
        assert error.value.cost_usd == pytest.approx(cost_usd)

    @pytest.mark.parametrize(
        ("end", "kind", "retryable"),
        [
            ({"is_error": True, "api_error_status": 529}, "api_overloaded", True),
            ({"is_error": True, "api_error_status": 429}, "rate_limited", True),
            ({"is_error": True, "api_error_status": 401}, "authentication", False),
            ({"is_error": True, "api_error_status": 403}, "authentication", False),
            ({"is_error": True, "api_error_status": 500}, "api_error", True),
            ({"is_error": True, "api_error_status": 400}, "bad_request", False),
            ({"is_error": True, "api_error_status": None}, "api_error", True),
            ({"subtype": "error_max_turns", "is_error": True}, "max_turns", False),
            ({"subtype": "error_max_budget_usd", "is_error": True}, "max_budget", False),
            ({"subtype": "error_during_execution", "is_error": True}, "crashed", True),
            ({"subtype": "error_of_tomorrow", "is_error": False}, "crashed", True),
            ({"is_error": None}, "api_error", True),
        ],
    )
    def test_each_way_to_fail_has_its_kind(self, recording, end, kind, retryable):
        lines = lines_of("stream.jsonl")
        lines[-1] = {**lines[-1], **end}
        with pytest.raises(SessionError) as error:
            read_session(recording(*lines))
        assert (error.value.kind, error.value.retryable) == (kind, retryable)

    def test_a_stream_without_a_result_is_a_killed_session(self, recording):
        with pytest.raises(SessionError) as error:
            read_session(recording(*lines_of("stream.jsonl")[:-1]))
        assert error.value.kind == "no_result"

    def test_a_stream_that_breaks_off_in_a_line_is_a_killed_session(self, recording):
        text = (FIXTURES / "stream.jsonl").read_text()
        with pytest.raises(SessionError) as error:
            read_session(recording(text=text[:-40]))
        assert error.value.kind == "no_result"


class TestLog:
    def test_a_log_has_the_calls_of_its_subagents_in_their_place(self):
        transcript = read_session(FIXTURES / "log.jsonl")

        assert calls_of(transcript) == calls_of(read_session(FIXTURES / "stream.jsonl"))
        assert transcript.final_text == "All done."
        assert [message.metadata for message in messages_of(transcript)[2:4]] == [
            {"parent_id": "toolu_A3"},
            {"parent_id": "toolu_A3"},
        ]

    def test_a_log_has_time_stamps_durations_and_tokens(self):
        transcript = read_session(FIXTURES / "log.jsonl")
        call = next(transcript.tool_calls())

        assert (call.timestamp, call.duration_ms) == ("2026-11-18T09:27:23.134Z", 51)
        assert transcript.usage == read_session(FIXTURES / "stream.jsonl").usage
        assert transcript.duration_ms == 795
        assert transcript.cost_usd is None
        assert (transcript.model, transcript.agent_version) == ("claude-sonnet-4-5", "2.1.197")

    def test_subagents_in_the_log_itself_are_known_by_their_prompt(self, recording):
        subagent = lines_of("log/subagents/agent-a11b5219b1887a0a5.jsonl")
        main = lines_of("log.jsonl")
        for line in subagent:
            del line["agentId"]
        transcript = read_session(recording(*main[:9], *subagent, *main[9:]))

        assert ("Bash", "toolu_S1", "toolu_A3", False) in calls_of(transcript)
        assert transcript.final_text == "All done."

    def test_a_subagent_of_unknown_origin_does_not_speak_for_the_agent(self, recording):
        subagent = lines_of("log/subagents/agent-a11b5219b1887a0a5.jsonl")
        transcript = read_session(recording(*subagent))

        assert calls_of(transcript) == [("Bash", "toolu_S1", None, False)]
        assert transcript.final_text == ""

    def test_a_log_that_breaks_off_in_a_line_is_a_killed_session(self, recording):
        whole = (FIXTURES / "log.jsonl").read_bytes()
        cut = recording(text=whole[: whole.index(b"toolu_A4")])

        with pytest.raises(SessionError) as error:
            read_session(cut)
        assert error.value.kind == "no_result"

    @pytest.mark.parametrize("kind", ["user", "summary"])
    def test_a_log_without_a_line_of_the_agent_is_not_graded(self, recording, kind):
        line = {"sessionId": "s", "type": kind, "message": {"role": "user", "content": "hi"}}

        with pytest.raises(SessionError) as error:
            read_session(recording(line))
        assert error.value.kind == "no_result"

    def test_a_broken_line_elsewhere_is_an_error_with_its_place(self, recording):
        lines = (FIXTURES / "log.jsonl").read_text().splitlines()
        lines[3] = lines[3][:50]
        path = recording(text="\n".join(lines) + "\n")

        with pytest.raises(InputError) as error:
            read_session(path)
        assert str(error.value).startswith(f"{path}:4:")

    def test_lines_that_a_resumed_log_repeats_count_once(self, recording):
        lines = lines_of("log.jsonl")

        assert len(list(read_session(recording(*lines, *lines)).tool_calls())) == 4

    def test_a_log_that_ends_with_an_error_of_the_api_is_not_graded(self):
        with pytest.raises(SessionError) as error:
            read_session(FIXTURES / "log_overloaded.jsonl")
        assert error.value.kind == "api_overloaded"

    def test_a_subagent_that_goes_on_does_not_hide_that_the_agent_ended_with_an_error(self, recording):
        subagent = lines_of("log/subagents/agent-a11b5219b1887a0a5.jsonl")
        with pytest.raises(SessionError) as error:
            read_session(recording(*lines_of("log_overloaded.jsonl"), *subagent))
        assert error.value.kind == "api_overloaded"

    def test_half_an_emoji_is_replaced_and_not_refused(self, recording):
        lines = (FIXTURES / "log.jsonl").read_text().replace("All done.", "All done \\ud83d")

        assert read_session(recording(text=lines)).final_text == "All done ?"

    def test_parents_that_go_in_circles_end(self, recording):
        def line(uuid: str, parent: str) -> dict[str, Any]:
            message = {"id": uuid, "content": "x"}
            fields = {"sessionId": "s", "type": "assistant", "isSidechain": True, "message": message}
            return {**fields, "uuid": uuid, "parentUuid": parent}

        assert read_session(recording(line("a", "b"), line("b", "a"))).final_text == ""


class TestCommandOutput:
    def test_messages_and_trace_are_read_as_in_the_seed(self, recording):
        call = {
            "tool": "searchDocs",
            "input": {"query": "test"},
            "output": {"results": []},
            "id": "call_123",
            "timestamp": "2025-01-01T00:00:00Z",
        }
        message = {
            "role": "assistant",
            "content": "response",
            "tool_calls": [call],
            "timestamp": "2025-01-01T00:00:00Z",
            "metadata": {"latency_ms": 150},
        }
        event = {"type": "tool_call", "name": "searchDocs", "input": {"a": 1}, "timestamp": "t", "id": "x"}
        transcript = read_session(recording({"output_messages": [message], "trace": [event]}))

        assert transcript.output_messages == (Message(**{**message, "tool_calls": (ToolCall(**call),)}),)
        assert transcript.events() == (TraceEvent(**event),)
        assert transcript.final_text == "response"

    def test_structural_keys_are_read_in_camel_case_and_user_data_is_untouched(self, recording):
        user_data = {"riskLevel": "High", "toolCalls": [{"isError": True}], "risk_level": {"durationMs": 1}}
        record = {
            "outputMessages": [
                {
                    "role": "assistant",
                    "content": user_data,
                    "metadata": user_data,
                    "toolCalls": [
                        {
                            "tool": "t",
                            "input": user_data,
                            "output": user_data,
                            "durationMs": 5,
                            "isError": True,
                        }
                    ],
                }
            ],
            "trace": [{"type": "tool_call", "input": user_data, "output": user_data, "metadata": user_data}],
            "tokenUsage": {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 3},
            "costUsd": 0.5,
            "durationMs": 7,
        }
        transcript = read_session(recording(record))

        (message,) = messages_of(transcript)
        (call,) = message.tool_calls
        (event,) = transcript.events() or ()
        for value in (message.content, message.metadata, call.input, call.output):
            assert value == user_data
        for value in (event.input, event.output, event.metadata):
            assert value == user_data
        assert (call.duration_ms, call.is_error) == (5, True)
        assert transcript.usage == Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3)
        assert (transcript.cost_usd, transcript.duration_ms) == (0.5, 7)

    @pytest.mark.parametrize(
        "tokens",
        [
            {"input": 10, "output": 20, "cached": 5},
            {"input_tokens": 10, "output_tokens": 20, "cache_read_tokens": 5},
            {"inputTokens": 10, "outputTokens": 20, "cacheReadTokens": 5},
        ],
    )
    def test_tokens_are_read_in_each_form(self, recording, tokens):
        usage = Usage(input_tokens=10, output_tokens=20, cache_read_tokens=5)

        assert read_session(recording({"text": "x", "token_usage": tokens})).usage == usage

    def test_a_trace_alone_leaves_the_messages_unset(self, recording):
        trace = [
            {"type": "tool_call", "name": "a"},
            {"type": "message", "text": "bye"},
            {"type": "tool_result"},
        ]
        transcript = read_session(recording({"trace": trace}))

        assert transcript.output_messages is None
        assert [call.tool for call in transcript.tool_calls()] == ["a"]
        assert transcript.final_text == "bye"

    def test_text_alone_leaves_messages_and_trace_unset(self, recording):
        transcript = read_session(recording({"text": "answer"}))

        assert transcript.output_messages is None
        assert transcript.events() is None
        assert transcript.summary() is None
        assert transcript.final_text == "answer"

    def test_an_empty_list_of_messages_says_that_there_were_none(self, recording):
        assert read_session(recording({"text": "answer", "output_messages": []})).output_messages == ()

    def test_calls_that_only_the_trace_has_are_not_lost(self, recording):
        trace = [{"type": "tool_call", "name": "Bash"}]

        (call,) = read_session(recording({"output_messages": [], "trace": trace})).tool_calls()
        assert call.tool == "Bash"
        messages = [{"role": "assistant", "content": "done"}]
        with pytest.raises(InputError, match="has no tool_calls, but the trace has"):
            read_session(recording({"output_messages": messages, "trace": trace}))

    def test_calls_in_the_form_of_another_api_are_not_lost(self, recording):
        content = [{"type": "tool_use", "id": "1", "name": "Bash", "input": {}}]

        with pytest.raises(InputError, match=r"output_messages\[0\].content: has a tool_use block"):
            read_session(recording({"output_messages": [{"role": "assistant", "content": content}]}))

    def test_a_record_over_many_lines_is_read(self, recording):
        path = recording(text=json.dumps({"text": "answer"}, indent=2))

        assert read_session(path).final_text == "answer"

    @pytest.mark.parametrize("case_id", ["suites/a::two", "two", "suites/a.b::x::two"])
    @pytest.mark.parametrize("key", ["id", "eval_id", "evalId"])
    def test_of_several_records_the_cases_own_is_chosen(self, recording, case_id, key):
        path = recording(*({key: name, "text": name.upper()} for name in ("one", "two", "three")))

        assert read_session(path, case_id=case_id).final_text == "TWO"

    def test_a_full_case_id_chooses_too(self, recording):
        path = recording({"id": "suites/a::x", "text": "right"}, {"id": "suites/b::x", "text": "wrong"})

        assert read_session(path, case_id="suites/a::x").final_text == "right"

    def test_a_single_record_needs_no_id(self, recording):
        assert read_session(recording({"text": "only"}), case_id="a::b").final_text == "only"

    @pytest.mark.parametrize(
        ("ids", "case_id", "message"),
        [
            (["one", "two"], "a::three", 'of which none has the id "three"'),
            (["one", "one"], "a::one", r"of which 2 \(lines 1, 2\) has the id"),
            (["one", "two"], None, "no case to choose one by"),
        ],
    )
    def test_records_that_do_not_settle_the_choice_are_an_error(self, recording, ids, case_id, message):
        path = recording(*({"id": name, "text": name} for name in ids))
        with pytest.raises(InputError, match=message):
            read_session(path, case_id=case_id)

    @pytest.mark.parametrize(
        ("record", "message"),
        [
            ({"output_messages": [{"content": "x"}]}, r"output_messages\[0\].role: Field required"),
            ({"output_messages": {"role": "x"}}, "output_messages: must be a list"),
            ({"output_messages": ["x"]}, r"output_messages\[0\]: must be an object"),
            (
                {"output_messages": [{"role": "x", "tool_calls": [{"tool": 5}]}]},
                r"output_messages\[0\].tool_calls\[0\].tool: ",
            ),
            (
                {"output_messages": [{"role": "assistant", "tool_cals": [{"tool": "Bash"}]}]},
                r'output_messages\[0\]: unknown key "tool_cals"; did you mean "tool_calls"\?',
            ),
            ({"trace": [{"type": "guess"}]}, r"trace\[0\].type: "),
            ({"text": 5}, "text: must be a string"),
            ({"text": "x", "cost_usd": -1}, "cost_usd: must be a number that is not negative"),
            ({"text": "x", "cost_usd": True}, "cost_usd: must be a number"),
            ({"text": "x", "token_usage": {"input": 1.5}}, "token_usage.input: must be a whole number"),
            ({"text": "x", "token_usage": 7}, "token_usage: must be an object"),
            ({"something": "else"}, "not a recorded session"),
        ],
    )
    def test_what_is_not_in_the_wire_format_is_an_error_that_says_where(self, recording, record, message):
        with pytest.raises(InputError, match=message):
            read_session(recording(record))


class TestTranscriptFile:
    def test_what_was_dumped_is_read_back(self, recording):
        transcript = Transcript(
            agent="mine",
            output_messages=(
                Message(role="assistant", content={"a": None}, tool_calls=(ToolCall(tool="T"),)),
            ),
            trace=(TraceEvent(type="error", text="ü\u2028"),),
            usage=Usage(input_tokens=1),
            workspace_changes=WorkspaceChanges(added=("a",)),
        )
        dumped = dump_transcript(transcript)

        assert json.loads(dumped)["schema"] == "farm.transcript/1"
        assert read_session(recording(text=dumped)) == transcript
        assert dump_transcript(read_session(recording(text=dumped))) == dumped

    @pytest.mark.parametrize("more", [b'{"schema": "farm.transcript/1", "agent": "x"}\n', b'{"schema": "fa'])
    def test_a_transcript_stands_alone_in_its_file(self, recording, more):
        with pytest.raises(InputError, match=":2:1: a transcript stands alone in its file"):
            read_session(recording(text=dump_transcript(Transcript(agent="x")) + more))

    def test_text_without_a_utf8_form_is_written_all_the_same(self):
        assert b'"half ?"' in dump_transcript(
            Transcript(agent="x", output_messages=(Message(role="assistant", content="half \ud83d"),))
        )

    @pytest.mark.parametrize("messages", [None, ()])
    def test_no_messages_and_unknown_messages_stay_different(self, recording, messages):
        dumped = dump_transcript(Transcript(agent="x", output_messages=messages))

        assert read_session(recording(text=dumped)).output_messages == messages

    def test_an_unknown_key_is_an_error(self, recording):
        with pytest.raises(InputError, match="not a transcript: surprise"):
            read_session(recording({"schema": "farm.transcript/1", "agent": "x", "surprise": 1}))


class TestHostileFiles:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\n\n",
            b"plain text",
            b"null",
            b"[1]",
            b"[]",
            b'"text"',
            b"\xff\xfe{",
            b'{"text": "\xff"}',
            b"\0\0\0",
            b'{"text": NaN}',
            b'{"text": "x", "cost_usd": 1e999}',
            b'{"text": "x", "cost_usd": ' + b"9" * 5000 + b"}",
            b'{"text": "x", "token_usage": {"input": ' + b"9" * 400 + b"}}",
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b'{"output_messages": [{"role": "a", "content": ' + b"[" * 400 + b"]" * 400 + b"}]}",
            b'{"schema": "farm.transcript/1"}',
            b'{"schema": "farm.transcript/1", "agent": [], "usage": 5}',
            b'{"type": ["result"], "session_id": 1}',
            b'{"type": "result", "subtype": ["x"]}',
            b'{"type": "assistant", "message": 1}\n{"type":"result","subtype":"success","is_error":false}',
            b'{"sessionId": 1, "type": "user", "message": {"content": [1]}}',
            b'{"sessionId": 1, "type": "assistant", "message": {"content": [{"type": "tool_use"}]}}',
        ],
    )
    def test_it_is_always_an_error_of_ours(self, recording, content):
        with pytest.raises(FarmError):
            read_session(recording(text=content))

    def test_a_missing_file_a_directory_and_a_pipe_are_errors(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for name in ("missing", ".", "pipe", "nul\0"):
            with pytest.raises(InputError):
                read_session(tmp_path / name)

    def test_a_huge_line_is_read(self, recording):
        assert len(read_session(recording({"text": "x" * 5_000_000})).final_text) == 5_000_000

    @pytest.mark.parametrize("end", [b"", b"\n"])
    def test_what_may_be_read_may_be_written_however_deep(self, recording, end):
        inner = b"[" * 190 + b"1" + b"]" * 190
        record = b'{"output_messages": [{"role": "a", "content": ' + inner + b"}]}"
        transcript = read_session(recording(text=record + end))

        assert read_session(recording(text=dump_transcript(transcript))) == transcript

    def test_a_byte_order_mark_is_no_problem(self, recording):
        assert read_session(recording(text=b'\xef\xbb\xbf{"text": "x"}')).final_text == "x"

    @given(content=st.binary(max_size=200))
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_arbitrary_bytes_give_a_transcript_or_an_error_of_ours(self, recording, content):
        read_or_refuse(recording(text=content))

    @given(data=st.data())
    @settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_damaged_recordings_give_a_transcript_or_an_error_of_ours(self, recording, data):
        content = bytearray(data.draw(st.sampled_from(VALID)))
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        read_or_refuse(recording(text=bytes(content)))

    @given(data=st.data())
    @settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_values_of_a_wrong_type_anywhere_give_a_transcript_or_an_error_of_ours(self, recording, data):
        lines = [json.loads(line) for line in data.draw(st.sampled_from(VALID)).splitlines()]
        line = data.draw(st.sampled_from(lines))
        places = list(places_in(line))
        container, key = data.draw(st.sampled_from(places))
        container[key] = data.draw(anything)
        read_or_refuse(recording(*lines))


VALID = [
    *((FIXTURES / name).read_bytes() for name in ("stream.jsonl", "log.jsonl", "stream_denied.jsonl")),
    json.dumps(
        {
            "text": "x",
            "output_messages": [{"role": "assistant", "tool_calls": [{"tool": "T", "duration_ms": 1}]}],
            "trace": [{"type": "tool_call", "name": "a"}],
            "token_usage": {"input": 1, "output": 2},
            "cost_usd": 1,
        }
    ).encode(),
    dump_transcript(Transcript(agent="a", output_messages=(Message(role="assistant", content="x"),))),
]

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from places_in(inner)


def read_or_refuse(path: Path) -> None:
    try:
        transcript = read_session(path)
    except FarmError:
        return
    dump_transcript(transcript)
