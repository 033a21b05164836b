"""Real processes for tests: owners of sessions that are killed, and what they leave."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a process table to search")

# Long enough for the slowest machine; a test that passes does not wait for it.
PATIENCE_SECONDS = 60.0

# Starts a process that has left its parent, its session and its group, and writes its id to a file.
ESCAPE = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid() if os.getpid() != os.getsid(0) else None
        {lose_marks}
        script = "echo $$ > escaped.part; mv escaped.part escaped; exec sleep 300"
        os.execvpe("/bin/sh", ["sh", "-c", script], env)
    os._exit(0)
os.wait()
while not os.path.exists("escaped"):
    time.sleep(0.01)
"""


def escape_command(then: str = "", *, keep_environment: bool = True) -> list[str]:
    env = "env = dict(os.environ)" if keep_environment else "env = {}"
    return [sys.executable, "-I", "-S", "-c", ESCAPE.format(lose_marks=env) + then]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> float:
    """Wait for something to become true; give how long it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, "it never happened"
        time.sleep(0.01)
    return time.monotonic() - started


def start_owner(program: str, *arguments: str, tmp: Path, **options) -> subprocess.Popen[bytes]:
    """Start a process that runs sessions, with a temporary directory of its own."""
    env = {**os.environ, "TMPDIR": str(tmp)}
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env=env, cwd=Path(__file__).parents[3], **options
    )


def guards_of(pid: int) -> list[int]:
    """Find the guards that a process started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_guard = b"guard.main()" in (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if is_guard and parent == pid:
            found.append(int(entry.name))
    return found


def processes_in(place: Path) -> list[int]:
    """Find the living processes that work in a directory, whatever namespace they are in."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            cwd = os.readlink(entry / "cwd")
        except OSError:
            continue
        if cwd.startswith(str(place)) and is_alive(int(entry.name)):
            found.append(int(entry.name))
    return found
