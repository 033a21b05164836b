"""Where notices go, and what is said when they do not arrive. See test_schedules.py for real ones."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from farm.model.schedule import NotifySpec
from farm.queue import delivery
from farm.queue.delivery import DeliveryError, deliver, shown_target


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_PAUSES_SECONDS", (0.0,))
    monkeypatch.setattr(delivery, "_WEBHOOK_SECONDS", 0.2)
    monkeypatch.setattr(delivery, "_COMMAND_SECONDS", 0.3)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("${GONE}", "GONE is not set"),
        ("${FILE}", "it is no URL of http:// or https://"),
        ("https://${SECRET}:x/", "it is no URL"),
        ("http://127.0.0.1:${PORT}/${SECRET}", "it can't be reached: Connection refused"),
    ],
)
def test_a_webhook_that_can_not_be_told_says_why_and_no_secret(tmp_path: Path, url: str, why: str):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens there
        port = str(free.getsockname()[1])
        environment = {"FILE": "file:///etc/passwd", "SECRET": "s3cret", "PORT": port}
        with pytest.raises(DeliveryError, match=why) as caught:
            deliver(NotifySpec(webhook=url), b"{}", tmp_path, environment)
    assert "s3cret" not in str(caught.value)


def test_a_webhook_that_does_not_answer_is_given_up(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        spec = NotifySpec(webhook=f"http://127.0.0.1:{silent.getsockname()[1]}/")
        with pytest.raises(DeliveryError, match="timed out"):
            deliver(spec, b"{}", tmp_path, {})


def test_a_webhook_that_answers_a_byte_at_a_time_is_given_up(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not done.wait(0.05):
                    connection.sendall(b"x")

        done = threading.Event()
        threads = [threading.Thread(target=drip, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        spec = NotifySpec(webhook=f"http://127.0.0.1:{server.getsockname()[1]}/")
        started = time.monotonic()
        try:
            with pytest.raises(DeliveryError, match="its answer does not come to an end"):
                deliver(spec, b"{}", tmp_path, {})
        finally:
            done.set()
        assert time.monotonic() - started < 10


def test_a_command_that_fails_says_why(tmp_path: Path):
    with pytest.raises(DeliveryError, match="exit code 3: no such room"):
        deliver(NotifySpec(command="echo no such room >&2; exit 3"), b"{}", tmp_path, os.environ)


def test_a_command_that_hangs_is_killed(tmp_path: Path):
    started = time.monotonic()
    with pytest.raises(DeliveryError, match=r"longer than 0.3 s"):
        deliver(NotifySpec(command="sleep 60"), b"{}", tmp_path, os.environ)
    assert time.monotonic() - started < 30


def test_of_a_target_only_the_host_is_shown():
    assert (
        shown_target(NotifySpec(webhook="https://u:pw@hooks.example:8443/T0/secret"))
        == "webhook hooks.example"
    )
    assert shown_target(NotifySpec(webhook="${SLACK}")) == "webhook ${SLACK}"
    assert shown_target(NotifySpec(command="curl -H 'token: secret' x")) == "command"
