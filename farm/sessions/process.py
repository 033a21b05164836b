"""Run a command to its end and give back what it wrote; nothing of it is left running."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

from farm.errors import SessionError
from farm.sessions.launch import CommandNotStartedError as CommandNotStartedError
from farm.sessions.launch import make_launch
from farm.sessions.sandbox import Sandbox

DEFAULT_OUTPUT_LIMIT_BYTES = 10 * 2**20

_CHUNK_BYTES = 65536
_POLL_SECONDS = 0.02
_LOOK_FOR_STOP_SECONDS = 0.2  # 32 sessions wake up 160 times a second: too little to measure
_LONGEST_WAIT_SECONDS = 3600.0  # epoll takes no more than 24 days at once; authors may

_End: TypeAlias = Literal["exited", "timed_out", "stopped"]


@dataclass(frozen=True)
class ProcessResult:
    """How a command ended, and the head of what it wrote."""

    exit_code: int  # negative: the signal that ended it; in a sandbox, 128 + signal
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool  # it wrote more than is kept
    duration_ms: float
    stopped: bool = False  # killed because somebody asked for it


def run_process(
    command: str | Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_seconds: float,
    stdin: bytes = b"",
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
    stop: threading.Event | None = None,
    sandbox: Sandbox | None = None,
    on_line: Callable[[bytes], None] | None = None,
    sealed: bool = False,
) -> ProcessResult:
    """Run a command (a string is the shell's) until it ends, its time is up, or `stop` is set.

    Without a sandbox it can see and change all that this process can. `on_line` is told every line of stdout
    that is kept, as it comes and without its line break; not what follows the last break. What it raises ends
    the command. `sealed`: none of its descendants can write to its own output, which so is the record of what
    it did; a shell can't open its /dev/stdout then.

    The end is that of the command itself: what it left in the background is not waited for but killed, and
    so is everything when this thread is interrupted. May be called from many threads.
    """
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    started = time.monotonic()
    with (
        contextlib.closing(make_launch(cwd, env, stdin, sandbox)) as launch,
        _pipes_closed(launch.start(argv, sealed=sealed)) as process,
    ):
        try:
            launch.descendants.adopt(process.pid)
            pipes = _Pipes(process, launch.stdin, output_limit_bytes, on_line)
            end = pipes.pump_until_exit(started + timeout_seconds, stop)
        finally:
            launch.descendants.kill()
            code = process.wait()  # not if it can't be killed, which may be for ever
        pipes.drain()
        exit_code = launch.exit_code(code, bytes(pipes.stderr)) if end == "exited" else -signal.SIGKILL
    return ProcessResult(
        exit_code=exit_code,
        stdout=bytes(pipes.stdout),
        stderr=bytes(pipes.stderr),
        timed_out=end == "timed_out",
        truncated=pipes.truncated,
        duration_ms=(time.monotonic() - started) * 1000,
        stopped=end == "stopped",
    )


@contextlib.contextmanager
def _pipes_closed(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Close our ends of a process's pipes after the block. Left by itself, it would be waited for."""
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def check_not_stopped(stop: threading.Event) -> None:
    """End the session that was asked to stop: whatever it did so far is nothing to grade."""
    if stop.is_set():
        raise SessionError("stopped", "the session was stopped before its end", retryable=True)


def _longest_wait_seconds(*, can_see_exit: bool, stop: threading.Event | None) -> float:
    if not can_see_exit:
        return _POLL_SECONDS
    return _LONGEST_WAIT_SECONDS if stop is None else _LOOK_FOR_STOP_SECONDS


class _Pipes:
    """Both ends of a conversation with a process, none of which can block the others."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: bytes,
        limit_bytes: int,
        on_line: Callable[[bytes], None] | None,
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.truncated = False
        self._process = process
        self._stdin = process.stdin
        self._unwritten = memoryview(stdin)
        self._limit_bytes = limit_bytes
        self._on_line = on_line
        self._line_start = 0  # in stdout: of the line that is not told yet
        self._open: dict[IO[bytes], bytearray] = {process.stdout: self.stdout, process.stderr: self.stderr}
        for pipe in (process.stdin, *self._open):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    def pump_until_exit(self, deadline: float, stop: threading.Event | None) -> _End:
        """Move data until the process itself has ended, or must end."""
        with selectors.DefaultSelector() as selector, _exit_handle(self._process) as handle:
            if self._stdin is not None:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            for pipe in self._open:
                selector.register(pipe, selectors.EVENT_READ)
            if handle is not None:
                selector.register(handle, selectors.EVENT_READ)
            longest_wait_seconds = _longest_wait_seconds(can_see_exit=handle is not None, stop=stop)
            while (remaining := deadline - time.monotonic()) > 0:
                if stop is not None and stop.is_set():
                    return "stopped"
                ready = [key.fileobj for key, _ in selector.select(min(remaining, longest_wait_seconds))]
                for stream in ready:
                    if stream is self._stdin and self._write():
                        selector.unregister(stream)
                        self._stdin.close()
                for pipe in [pipe for pipe in self._open if pipe in ready]:
                    if not self._read(pipe):
                        selector.unregister(pipe)
                if handle in ready or (handle is None and self._process.poll() is not None):
                    return "exited"
        return "timed_out"

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
            assert self._stdin is not None
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
        searched = len(kept)
        kept += chunk[: max(room, 0)]
        if kept is self.stdout and self._on_line is not None:
            self._tell_lines(self._on_line, searched)
        return True

    def _tell_lines(self, on_line: Callable[[bytes], None], searched: int) -> None:
        """Tell the lines that have come to their end; there is no line break before `searched`."""
        while (end := self.stdout.find(b"\n", searched)) >= 0:
            line = bytes(self.stdout[self._line_start : end])
            self._line_start = searched = end + 1
            on_line(line)


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
