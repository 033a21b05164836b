"""The embedded server: there while it is needed, gone with whoever needed it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from farm.queue import server as server_module
from farm.queue.server import ServerError, private_server

OWNER = """
import sys, time
from farm.queue.server import private_server
with private_server() as server:
    print(server.pid, server.socket, flush=True)
    time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def gone(pid: int, directory: Path | None = None) -> bool:
    """Wait a while for a process to be dead, and its directory removed."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not alive(pid) and (directory is None or not directory.exists()):
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def owner():
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid, _, socket = process.stdout.readline().strip().partition(" ")
    yield process, int(pid), Path(socket)
    process.kill()
    process.wait()
    process.stdout.close()


def test_it_answers_and_is_gone_at_the_end_of_the_block():
    with private_server() as server:
        assert alive(server.pid)
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
    assert not alive(server.pid)
    assert not server.socket.parent.exists()


def test_nobody_else_can_enter_its_directory():
    with private_server() as server:
        assert server.socket.parent.stat().st_mode & 0o077 == 0


def test_two_do_not_disturb_each_other():
    with private_server() as one:
        with private_server() as two, redis.Redis.from_url(two.url) as client:
            client.set("key", "two")
        with redis.Redis.from_url(one.url) as client:
            assert client.get("key") is None


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_is_gone_however_its_owner_dies(owner, end):
    process, pid, socket = owner
    assert alive(pid)
    process.send_signal(end)
    process.wait()
    assert gone(pid, socket.parent)


def test_it_is_gone_when_its_watchdog_is_killed(owner):
    _, pid, socket = owner
    watchdog = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(watchdog, signal.SIGKILL)
    assert gone(pid)
    shutil.rmtree(socket.parent)  # all that nobody is left to remove


def test_ctrl_c_is_the_owners_to_act_on(owner):
    process, pid, socket = owner
    watchdog = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(watchdog, signal.SIGINT)
    with redis.Redis(unix_socket_path=str(socket)) as client:
        assert client.ping()
    assert process.poll() is None


def test_a_machine_without_an_embedded_server_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _package: None)
    with pytest.raises(ServerError, match="set FARM_BROKER_URL"), private_server():
        pass


def test_a_server_that_does_not_start_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(server_module, "_program", lambda: Path("/bin/false"))
    with pytest.raises(ServerError, match="did not start"), private_server():
        pass
