import json
import shutil
from pathlib import Path

import pytest

from farm.agents.replay import ReplayAgent
from farm.errors import SessionError
from farm.model.messages import ToolCall

FIXTURES = Path(__file__).parent / "fixtures"


def test_a_recorded_session_is_given_as_if_it_had_just_run(make_session, tmp_path):
    shutil.copy(FIXTURES / "stream.jsonl", tmp_path / "recorded.jsonl")
    watched: list[ToolCall] = []
    transcript = ReplayAgent().run(make_session(replay="recorded.jsonl", watch=watched))

    assert transcript.final_text == "All done."
    assert watched == list(transcript.tool_calls())
    assert len(watched) == 5


def test_the_case_finds_its_own_record(make_session, tmp_path):
    lines = [json.dumps({"id": name, "text": f"answer to {name}"}) for name in ("other", "case")]
    (tmp_path / "outputs.jsonl").write_text("\n".join(lines))

    assert ReplayAgent().run(make_session(replay="outputs.jsonl")).final_text == "answer to case"


def test_a_case_without_a_recording_is_an_error(make_session):
    with pytest.raises(SessionError, match="replay: FILE") as error:
        ReplayAgent().run(make_session())
    assert (error.value.kind, error.value.retryable) == ("no_replay", False)


def test_a_failed_session_fails_again_in_its_own_way_and_is_not_tried_again(make_session, tmp_path):
    shutil.copy(FIXTURES / "stream_overloaded.jsonl", tmp_path / "recorded.jsonl")
    with pytest.raises(SessionError, match=r"^recorded.jsonl: ") as error:
        ReplayAgent().run(make_session(replay="recorded.jsonl"))
    assert (error.value.kind, error.value.retryable) == ("api_overloaded", False)


@pytest.mark.parametrize("name", ["missing.jsonl", "broken.jsonl"])
def test_a_recording_that_can_not_be_read_is_an_error_with_its_place(make_session, tmp_path, name):
    (tmp_path / "broken.jsonl").write_text('{"text": "x"}\n{"tex\n{}\n')
    with pytest.raises(SessionError, match=rf"^{name}:\d:\d: ") as error:
        ReplayAgent().run(make_session(replay=name))
    assert (error.value.kind, error.value.retryable) == ("bad_replay", False)
