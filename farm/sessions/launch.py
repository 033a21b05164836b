"""Start a command so that all that will stem from it can be found again."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Protocol

from farm.errors import FarmError
from farm.sessions.descendants import Descendants, SandboxDescendants
from farm.sessions.sandbox import Sandbox

# The command waits for one line, so that it is marked before it can start anything. Not preexec_fn: that
# is unsafe in a process with threads.
_GATE = 'IFS= read -r line || exit 125; exec "$@"'

_PIPE_BYTES = 2**20  # as much as Linux lets any user have
_SO_SNDBUFFORCE = 32  # of Linux, which Python has no name for


class CommandNotStartedError(FarmError):
    """A command that could not even be started: not found, not executable, no such directory."""

    exit_code = 3


class Launch(Protocol):
    """One way to start a command."""

    @property
    def descendants(self) -> Descendants:
        """What will stem from it."""
        ...

    @property
    def stdin(self) -> bytes:
        """What must be written to the process that is started."""
        ...

    def start(self, argv: Sequence[str], *, sealed: bool = False) -> subprocess.Popen[bytes]:
        """Start it in a session of its own; `sealed`: nobody but it can write to its output."""
        ...

    def exit_code(self, returned: int, stderr: bytes) -> int:
        """Give the command's own exit code; what was started may have ended with another."""
        ...

    def close(self) -> None:
        """Give back what was needed meanwhile."""
        ...


def make_launch(cwd: Path, env: Mapping[str, str], stdin: bytes, sandbox: Sandbox | None) -> Launch:
    """Choose how commands are started in a sandbox, or without one."""
    return _BareLaunch(cwd, env, stdin) if sandbox is None else _SandboxLaunch(cwd, env, stdin, sandbox)


class _BareLaunch:
    """Behind a gate: the command is marked before it runs."""

    def __init__(self, cwd: Path, env: Mapping[str, str], stdin: bytes) -> None:
        self.descendants = Descendants()
        self.stdin = b"\n" + stdin
        self._cwd = cwd
        self._env = {**env, **self.descendants.environment}
        self._gate = _GATE if stdin else f"{_GATE} </dev/null"

    def start(self, argv: Sequence[str], *, sealed: bool = False) -> subprocess.Popen[bytes]:
        program = _find_program(argv, self._cwd, self._env)
        gated = ["/bin/sh", "-c", self._gate, "sh", program, *argv[1:]]
        return _spawn(argv, gated, self._cwd, self._env, sealed=sealed)

    def exit_code(self, returned: int, _stderr: bytes) -> int:
        return returned

    def close(self) -> None:
        pass


class _SandboxLaunch:
    """Without a gate: nothing can leave the sandbox."""

    def __init__(self, cwd: Path, env: Mapping[str, str], stdin: bytes, sandbox: Sandbox) -> None:
        self.descendants = SandboxDescendants()
        self.stdin = stdin
        self._cwd = cwd
        self._env = {**env, **self.descendants.environment}
        self._sandbox = sandbox
        self._argv: Sequence[str] = ()

    def start(self, argv: Sequence[str], *, sealed: bool = False) -> subprocess.Popen[bytes]:
        self._argv = argv
        program, status = _find_program(argv, self._cwd, self._env), self.descendants.status
        wrapped = self._sandbox.wrap([program, *argv[1:]], cwd=self._cwd, env=self._env, status=status)
        stdin = subprocess.PIPE if self.stdin else subprocess.DEVNULL
        return _spawn(argv, wrapped, self._cwd, self._env, stdin=stdin, pass_fds=(status,), sealed=sealed)

    def exit_code(self, returned: int, stderr: bytes) -> int:
        code = self.descendants.exit_code()
        if code is None:
            said = stderr.decode(errors="replace").strip()[-500:] or f"exit code {returned}"
            raise _not_started(self._argv, self._cwd, f"the sandbox could not start it: {said}")
        return code

    def close(self) -> None:
        self.descendants.close()


def _spawn(
    argv: Sequence[str],
    wrapped: list[str],
    cwd: Path,
    env: Mapping[str, str],
    *,
    stdin: int = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
    sealed: bool,
) -> subprocess.Popen[bytes]:
    with ExitStack() as unused:
        try:
            seals = [_Seal(unused) for _ in range(2)] if sealed else []
            stdout, stderr = [seal.theirs.fileno() for seal in seals] or [subprocess.PIPE] * 2
            process = subprocess.Popen(
                wrapped,
                cwd=cwd,
                env=env,
                bufsize=0,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except (OSError, ValueError) as error:
            raise _not_started(argv, cwd, error) from error
        if seals:
            process.stdout, process.stderr = (seal.take() for seal in seals)
    assert process.stdout is not None
    if not sealed:
        _widen(process.stdout.fileno())
    return process


class _Seal:
    """A way for one output that a process can't give to others but by starting them with it.

    What a session's tools start could write to a pipe of the agent's own program, by its name in /proc, and
    so into the record of the session. No name leads to a socket.
    """

    def __init__(self, unused: ExitStack) -> None:
        self._ours, self.theirs = map(unused.enter_context, socket.socketpair())
        for option in (socket.SO_SNDBUF, *([_SO_SNDBUFFORCE] if sys.platform == "linux" else [])):
            with suppress(OSError):  # the second is for root alone
                self.theirs.setsockopt(socket.SOL_SOCKET, option, _PIPE_BYTES)

    def take(self) -> IO[bytes]:
        """Give the end that is ours."""
        return os.fdopen(self._ours.detach(), "rb", buffering=0)


def _widen(pipe: int) -> None:
    """Let a pipe hold more. Some programs (the Gemini CLI) end without waiting until all is read."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):  # on Linux
        with suppress(OSError):  # a user may have only so much of it: it goes without
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _find_program(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Find the program before the shell does, whose only answer would be an exit code."""
    name = argv[0] if argv else ""
    beside = str(cwd / name) if "/" in name else name
    try:
        if not cwd.is_dir():
            raise FileNotFoundError("no such directory")
        if program := shutil.which(beside, path=env.get("PATH", os.defpath)):
            return program
        raise FileNotFoundError("command not found, or not executable")
    except (OSError, ValueError) as error:
        raise _not_started(argv, cwd, error) from error


def _not_started(argv: Sequence[str], cwd: Path, why: object) -> CommandNotStartedError:
    name = argv[0] if argv else ""
    return CommandNotStartedError(f"can't start {name!r} in {cwd}: {why}")
