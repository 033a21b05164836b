"""Keep a server running for exactly as long as somebody holds the other end of standard input.

Run as a program of its own, with nothing but the standard library: it starts in a few milliseconds, has no
threads, and does not die of what kills its parent. When its input ends, its parent has gone, in whatever
way; then the server is killed and its directory removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile

_PR_SET_PDEATHSIG = 1
_LONGEST_PLACE = 75


def main() -> None:
    """Start the server given on the command line, say where it is, and wait."""
    # Ctrl-C goes to every process of the terminal: our parent decides what it means, not we.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    program, *options = sys.argv[1:]
    # The path of a socket can't be longer than some 100 bytes.
    usual = os.path.abspath(tempfile.gettempdir())  # noqa: PTH100 — TMPDIR may be ".", and the server moves
    place = usual if len(os.fsencode(usual)) <= _LONGEST_PLACE else "/tmp"  # noqa: S108
    directory = tempfile.mkdtemp(prefix="farm-server-", dir=place)
    server = None
    try:
        socket = f"{directory}/s"
        settings = ("--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", directory)
        server = subprocess.Popen(
            [program, *settings, "--save", "", "--appendonly", "no", "--daemonize", "no", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,  # safe here: no threads
        )
        signal.signal(signal.SIGCHLD, _server_died)
        if server.poll() is not None:  # before we listened
            _server_died()
        with contextlib.suppress(BrokenPipeError):  # it has gone already: that is told by its input's end
            os.write(1, f"{socket}\t{server.pid}\n".encode(errors="surrogateescape"))
        while os.read(0, 65536):
            pass
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if server is not None:
            with contextlib.suppress(ProcessLookupError):
                server.kill()
            server.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _server_died(*_signal: object) -> None:
    raise SystemExit(1)


def _die_with_parent() -> None:
    """Have the system kill the server if the watchdog itself is killed (Linux)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
