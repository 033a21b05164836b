"""A terminal with a real process in it, to see what a person sees and to press Ctrl-C as one does."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PATIENCE_SECONDS = 90.0


def until(condition: Callable[[], object], what: str = "it") -> None:
    """Wait for something that must happen, however slow this machine is."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.02)


class Terminal:
    """`farm ARGUMENTS…` on a pseudo-terminal of its own."""

    def __init__(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], columns: int = 100, lines: int = 30
    ) -> None:
        self._own, child = os.openpty()
        self.resize(columns, lines)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "farm", *arguments],
            cwd=cwd,
            env={**env, "TERM": env.get("TERM", "xterm-256color")},
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(child)
        self._seen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """All that was written so far, control sequences included."""
        return self._seen.decode(errors="replace").replace("\r\n", "\n")

    @property
    def plain_text(self) -> str:
        """The same without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.text)

    def resize(self, columns: int, lines: int) -> None:
        """Make the window larger or smaller."""
        fcntl.ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def await_text(self, text: str) -> None:
        """Wait until something was written."""
        try:
            until(lambda: text in self.plain_text)
        except AssertionError:
            raise AssertionError(f"{text!r} was not written: {self.text!r}") from None

    def press_ctrl_c(self) -> None:
        """Do what a person does: the terminal tells every process in its foreground."""
        os.write(self._own, b"\x03")

    def await_end(self) -> int:
        """Wait for the end of the process, and of what it wrote."""
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code

    def close(self) -> None:
        """End it, whatever became of it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self._reader.join(PATIENCE_SECONDS)
        os.close(self._own)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._own, 65536)
            except OSError:  # nobody has the other end open any more
                return
            if not data:
                return
            self._seen += data
