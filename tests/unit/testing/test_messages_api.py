"""The scripted API over real sockets: what it answers, what breaks on purpose, what it remembers."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from farm.testing import Fault, Scenario, ScriptedApi, ToolUse, Turn

SCENARIOS = {
    "reads": Scenario(
        turns=(
            Turn(say="Looking.", tools=(ToolUse(tool="Read", input={"file_path": "a"}), ToolUse(tool="Bash"))),
            Turn(say="Done."),
        )
    ),
    "overloaded": Scenario(turns=(Turn(fault=Fault(status=529, message="too much")),)),
    "limited": Scenario(turns=(Turn(say="at last", fault=Fault(status=429, count=2, retry_after_seconds=1.5)),)),
    "limited-twice": Scenario(turns=(
        Turn(say="on", fault=Fault(status=429, count=1)), Turn(say="done", fault=Fault(status=529, count=1)),
    )),
    "drops": Scenario(turns=(Turn(say="never whole", fault=Fault(drop_after_events=2)),)),
    "garbles": Scenario(turns=(Turn(say="never", fault=Fault(malformed="data: {]\n\n")),)),
    "slow": Scenario(turns=(Turn(say="later", delay_seconds=0.3),)),
    "hangs": Scenario(turns=(Turn(say="never", delay_seconds=3600),)),
}  # fmt: skip


@pytest.fixture
def api():
    with ScriptedApi(SCENARIOS) as api:
        yield api


def ask(
    api: ScriptedApi, name: str, *said: str, path: str = "", headers=None, **fields: Any
) -> tuple[int, bytes]:
    """Ask for a message after these alternating ones of user and assistant."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said or ("go",))]
    body = {"model": "some-model", "messages": messages, **fields}
    return request(f"{api.base_url(name)}{path}/v1/messages?beta=true", "POST", json.dumps(body), headers)


def request(url: str, method: str, body: str | None = None, headers=None) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def events(stream: bytes) -> list[dict[str, Any]]:
    blocks = stream.decode().strip().split("\n\n")
    return [json.loads(block.partition("\ndata: ")[2]) for block in blocks]


def test_an_answer_is_a_message_with_what_is_said_and_used(api):
    status, body = ask(api, "reads")
    message = json.loads(body)
    assert status == 200
    assert [block["type"] for block in message["content"]] == ["text", "tool_use", "tool_use"]
    assert (message["content"][1]["name"], message["content"][1]["input"]) == ("Read", {"file_path": "a"})
    assert len({block["id"] for block in message["content"][1:]}) == 2
    assert (message["role"], message["model"], message["stop_reason"]) == (
        "assistant",
        "some-model",
        "tool_use",
    )


def test_the_turn_is_told_from_the_conversation(api):
    assert json.loads(ask(api, "reads", "go", "Looking.", "result")[1])["content"][0]["text"] == "Done."
    # Whoever asks, and however often: nothing is used up.
    first, second = (json.loads(ask(api, "reads")[1]) for _ in range(2))
    assert [block["type"] for block in first["content"]] == [block["type"] for block in second["content"]]
    # But for the ids, which no two answers share.
    assert {block["id"] for block in first["content"][1:]}.isdisjoint(b["id"] for b in second["content"][1:])


def test_system_messages_in_between_do_not_count(api):
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "system", "content": "x"},
    ]
    assert json.loads(ask(api, "reads", messages=messages)[1])["content"][0]["text"] == "Looking."


def test_a_conversation_beyond_the_last_turn_is_a_bad_request(api):
    status, body = ask(api, "reads", "go", "a", "b", "c", "d")
    assert (status, json.loads(body)["error"]["type"]) == (400, "invalid_request_error")
    assert "no turn 3" in json.loads(body)["error"]["message"]


def test_a_stream_has_the_events_that_make_up_the_same_message(api):
    found = events(ask(api, "reads", stream=True)[1])
    kinds = [event["type"] for event in found]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert kinds == ["message_start", *block * 3, "message_delta", "message_stop"]
    assert found[0]["message"]["id"].startswith("msg_")
    assert found[2]["delta"]["text"] == "Looking."
    assert json.loads(found[5]["delta"]["partial_json"]) == {"file_path": "a"}
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


def test_an_error_has_its_status_and_the_usual_type(api):
    status, body = ask(api, "overloaded")
    assert (status, json.loads(body)["error"]) == (529, {"type": "overloaded_error", "message": "too much"})


def test_a_fault_with_a_count_goes_away_for_each_session_by_itself(api):
    first = [ask(api, "limited", headers={"X-Claude-Code-Session-Id": "one"})[0] for _ in range(3)]
    other = ask(api, "limited", path="/two")[0]
    assert (first, other) == ([429, 429, 200], 429)


def test_each_turn_of_a_session_has_its_own_faults(api):
    first = [ask(api, "limited-twice")[0] for _ in range(2)]
    second = [ask(api, "limited-twice", "go", "on", "more")[0] for _ in range(2)]
    assert (first, second) == ([429, 200], [529, 200])


@pytest.mark.parametrize("stream", [True, False])
def test_a_dropped_answer_breaks_the_connection(api, stream):
    with pytest.raises(http.client.IncompleteRead):
        ask(api, "drops", stream=stream)


def test_a_malformed_answer_is_sent_as_it_is(api):
    assert ask(api, "garbles", stream=True) == (200, b"data: {]\n\n")


def test_a_delayed_answer_holds_up_nobody_else(api):
    started = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        statuses = [status for status, _ in pool.map(lambda _: ask(api, "slow"), range(16))]
    assert statuses == [200] * 16
    assert time.monotonic() - started < 16 * 0.3


def test_closing_does_not_wait_for_an_answer_that_is_hours_away():
    with ThreadPoolExecutor(1) as pool:
        with ScriptedApi(SCENARIOS) as api:
            pending = pool.submit(ask, api, "hangs")
            while not api.received("hangs"):
                time.sleep(0.01)
        with pytest.raises((http.client.HTTPException, OSError)):
            pending.result(timeout=30)


def test_what_was_asked_is_remembered_without_the_keys(api):
    ask(
        api,
        "reads",
        "a marker",
        headers={"X-Api-Key": "sk-1", "Authorization": "Bearer sk-2", "X-Mine": "yes"},
    )
    ask(api, "overloaded")
    (seen,) = api.received("reads")
    assert (seen.turn, seen.is_streamed, seen.status, seen.headers["x-mine"]) == (0, False, 200, "yes")
    assert "a marker" in seen.text
    assert "sk-" not in repr(seen)
    assert [request.status for request in api.received()] == [200, 529]


def test_the_base_answers_head_and_unknown_paths_are_not_found(api):
    base = api.base_url("reads")
    assert request(base, "HEAD")[0] == 200
    assert request(f"{base}x", "HEAD")[0] == 404
    assert request(f"{base}/v1/models", "GET")[0] == 404
    assert request(f"{base}x/v1/messages", "POST", '{"messages": []}')[0] == 404
    assert request(f"{base}/v1/other", "POST", '{"messages": []}')[0] == 404
    with pytest.raises(KeyError):
        api.base_url("nope")


@pytest.mark.parametrize("body", ["", "[]", "{", "{}", '{"messages": 1}', "[" * 100_000])
def test_a_body_that_is_no_request_is_a_bad_request(api, body):
    assert request(f"{api.base_url('reads')}/v1/messages", "POST", body)[0] == 400


def test_tokens_can_be_counted(api):
    status, body = request(f"{api.base_url('reads')}/v1/messages/count_tokens", "POST", '{"messages": []}')
    assert (status, json.loads(body)["input_tokens"] > 0) == (200, True)


def test_scenarios_can_be_served_from_a_terminal(tmp_path):
    (tmp_path / "greets.yaml").write_text("turns: [{say: hello}]\n")
    command = [sys.executable, "-m", "farm.testing", str(tmp_path / "greets.yaml")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.endswith("/greets")
            assert request(url, "HEAD")[0] == 200
        finally:
            process.terminate()


def test_a_terminal_is_told_what_is_wrong_with_a_scenario(tmp_path):
    (tmp_path / "bad.yaml").write_text("turn: []\n")
    command = [sys.executable, "-m", "farm.testing", str(tmp_path / "bad.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert (done.returncode, 'unknown key "turn"' in done.stderr) == (2, True)
