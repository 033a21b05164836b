"""Run a command to its end and give back what it wrote; nothing of it is left running."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from farm.errors import FarmError
from farm.sessions.descendants import Descendants

DEFAULT_OUTPUT_LIMIT_BYTES = 10 * 2**20

_CHUNK_BYTES = 65536
_POLL_SECONDS = 0.02
_LONGEST_WAIT_SECONDS = 3600.0  # epoll takes no more than 24 days at once; authors may

# The command waits for one line, so that it is marked before it can start anything. Not preexec_fn: that
# is unsafe in a process with threads.
_GATE = 'IFS= read -r line || exit 125; exec "$@"'


class CommandNotStartedError(FarmError):
    """A command that could not even be started: not found, not executable, no such directory."""

    exit_code = 3


@dataclass(frozen=True)
class ProcessResult:
    """How a command ended, and the head of what it wrote."""

    exit_code: int  # negative: the signal that ended it
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool  # it wrote more than is kept
    duration_ms: float


def run_process(
    command: str | Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_seconds: float,
    stdin: bytes = b"",
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
) -> ProcessResult:
    """Run a command (a string is the shell's) until it ends or its time is up.

    The end is that of the command itself: what it left in the background is not waited for but killed, and
    so is everything when this thread is interrupted. May be called from many threads.
    """
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    started = time.monotonic()
    descendants = Descendants()
    with _start(argv, cwd, {**env, **descendants.environment}, has_stdin=bool(stdin)) as process:
        try:
            descendants.adopt(process.pid)
            pipes = _Pipes(process, b"\n" + stdin, output_limit_bytes)
            timed_out = not pipes.pump_until_exit(started + timeout_seconds)
        finally:
            descendants.kill()
        pipes.drain()
    return ProcessResult(
        exit_code=process.returncode,
        stdout=bytes(pipes.stdout),
        stderr=bytes(pipes.stderr),
        timed_out=timed_out,
        truncated=pipes.truncated,
        duration_ms=(time.monotonic() - started) * 1000,
    )


def _start(argv: list[str], cwd: Path, env: Mapping[str, str], *, has_stdin: bool) -> subprocess.Popen[bytes]:
    gate = _GATE if has_stdin else f"{_GATE} </dev/null"
    try:
        program = _find_program(argv, cwd, env)
        return subprocess.Popen(
            ["/bin/sh", "-c", gate, "sh", program, *argv[1:]],
            cwd=cwd,
            env=env,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        name = argv[0] if argv else ""
        raise CommandNotStartedError(f"can't start {name!r} in {cwd}: {error}") from error


def _find_program(argv: list[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Find the program before the shell does, whose only answer would be an exit code."""
    if not cwd.is_dir():
        raise FileNotFoundError("no such directory")
    name = argv[0] if argv else ""
    beside = str(cwd / name) if "/" in name else name
    if program := shutil.which(beside, path=env.get("PATH", os.defpath)):
        return program
    raise FileNotFoundError("command not found, or not executable")


class _Pipes:
    """Both ends of a conversation with a process, none of which can block the others."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit_bytes: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.truncated = False
        self._process = process
        self._stdin = process.stdin
        self._unwritten = memoryview(stdin)
        self._limit_bytes = limit_bytes
        self._open: dict[IO[bytes], bytearray] = {process.stdout: self.stdout, process.stderr: self.stderr}
        for pipe in (process.stdin, *self._open):
            os.set_blocking(pipe.fileno(), False)

    def pump_until_exit(self, deadline: float) -> bool:
        """Move data until the process itself has ended; False if the deadline came first."""
        with selectors.DefaultSelector() as selector, _exit_handle(self._process) as handle:
            selector.register(self._stdin, selectors.EVENT_WRITE)
            for pipe in self._open:
                selector.register(pipe, selectors.EVENT_READ)
            if handle is not None:
                selector.register(handle, selectors.EVENT_READ)
            while (remaining := deadline - time.monotonic()) > 0:
                wait_seconds = min(remaining, _LONGEST_WAIT_SECONDS if handle is not None else _POLL_SECONDS)
                ready = [key.fileobj for key, _ in selector.select(wait_seconds)]
                for stream in ready:
                    if stream is self._stdin and self._write():
                        selector.unregister(stream)
                        self._stdin.close()
                for pipe in [pipe for pipe in self._open if pipe in ready]:
                    if not self._read(pipe):
                        selector.unregister(pipe)
                if handle in ready or (handle is None and self._process.poll() is not None):
                    return True
        return False

    def drain(self) -> None:
        """Take what is still in the pipes; nobody is left to fill them."""
        for pipe in list(self._open):
            # A bound for where somebody could be left: no more than the pipe and the limit can hold.
            for _ in range(self._limit_bytes // _CHUNK_BYTES + 32):
                if not self._read(pipe, stop_when_empty=True):
                    break

    def _write(self) -> bool:
        """Write what the pipe takes; True once there is nothing more to write."""
        try:
            written = os.write(self._stdin.fileno(), self._unwritten[:_CHUNK_BYTES])
        except BlockingIOError:
            return False
        except BrokenPipeError:
            return True
        self._unwritten = self._unwritten[written:]
        return not self._unwritten

    def _read(self, pipe: IO[bytes], *, stop_when_empty: bool = False) -> bool:
        """Read one chunk; False at the end of the stream."""
        try:
            chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return not stop_when_empty
        if not chunk:
            del self._open[pipe]
            return False
        kept = self._open[pipe]
        room = self._limit_bytes - len(kept)
        self.truncated = self.truncated or len(chunk) > room
        kept += chunk[: max(room, 0)]
        return True


@contextlib.contextmanager
def _exit_handle(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """Give a descriptor that becomes readable when the process ends, where the system has such a thing.

    It leaves the process unburied, so that its id can't be another's before its descendants are dead.
    """
    if sys.platform != "linux":
        yield None
        return
    handle = os.pidfd_open(process.pid)
    try:
        yield handle
    finally:
        os.close(handle)
