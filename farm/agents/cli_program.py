"""Find an agent's CLI on this machine, ask it for its version, and say what to do if it is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from farm.agents.base import Availability
from farm.errors import SessionError

_VERSION_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class CliProgram:
    """A program that may be installed here."""

    name: str  # in PATH
    variable: str  # of the environment: which one this machine has, if not the one in PATH
    package: str  # of npm, that brings it

    def find(self, executable: str | None = None) -> Path | None:
        """Find it: what an author named, what this machine's variable names, else what is in PATH."""
        found = shutil.which(executable or os.environ.get(self.variable) or self.name)
        return Path(found).absolute() if found else None

    def missing(self, executable: str | None = None) -> str:
        """Say that it is not here, and what to do."""
        told = os.environ.get(self.variable)
        if executable:
            return f'there is no program "{executable}", which the agent\'s `executable` names'
        if told:
            return f'there is no program "{told}", which {self.variable} names'
        return (
            f"there is no program `{self.name}` in PATH; install it (`npm install -g {self.package}`), "
            f"or set {self.variable}"
        )

    def require(self, executable: str | None = None) -> Path:
        """Find it for a session, which can't do without."""
        program = self.find(executable)
        if program is None:
            raise SessionError("agent_unavailable", self.missing(executable), retryable=False)
        return program

    def availability(self) -> Availability:
        """Say whether it is here and runs. What it is allowed to ask its API for is another matter."""
        program = self.find()
        if program is None:
            return Availability(usable=False, reason=self.missing())
        return ask_version(program)


def ask_version(program: Path) -> Availability:
    """Really run it: what is installed may be for another machine."""
    try:
        return Availability(usable=True, version=_version(program, program.stat().st_mtime_ns))
    except _NoVersionError as error:
        return Availability(usable=False, reason=str(error))


class _NoVersionError(Exception):
    """Raised, not returned: what failed once, on a busy machine perhaps, is not remembered."""


@lru_cache(maxsize=32)
def _version(program: Path, _changed: int) -> str:
    # Some write into their home even now, and would make one.
    with tempfile.TemporaryDirectory(prefix="farm-version-", ignore_cleanup_errors=True) as home:
        try:
            done = subprocess.run(
                [program, "--version"],
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_VERSION_TIMEOUT_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _NoVersionError(f"{program} can't be run: {error}") from None
    version = done.stdout.strip()
    if done.returncode != 0 or not version:
        said = done.stderr.strip()[-200:] or f"exit code {done.returncode}"
        raise _NoVersionError(f"{program} --version: {said}")
    return version
