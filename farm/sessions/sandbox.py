"""Confine a command with bubblewrap: what it may change, what it may see, whether it has a network.

Inside there is a file system of its own, which shows the system's programs read-only and the trial's own
directories at their usual paths. Nothing else is there: no home of anybody, no broker's socket, no suite with
its exam. Programs in PATH that lie in a home (pyenv, nvm, a virtual environment) are shown with what they are
installed with. Processes are in a namespace of their own: when its first one is dead, all are.

Knows nothing of how the command is run and watched; that is `process`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from farm.errors import SessionError
from farm.model.agent import Isolation

# What a system is made of. All else at the top is somebody's: /home, /root, /srv, /mnt, /work, …
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu", "snap", "sys")
# Links in /etc that may lead to where nothing is shown.
_ETC_LINKS = ("resolv.conf", "localtime", "hosts", "passwd", "group", "ssl/certs", "ssl/cert.pem")
# The session of a farm that root runs is root, though without any power: these are for root alone.
_ROOTS_SECRETS = ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "ssl/private", "ssh")
# What an administrator tells everybody's agents on this machine, and no other machine does.
_HOSTS_INSTRUCTIONS = ("claude-code", "codex", "gemini-cli", "opencode")
# Variables that a session inherits and that name files.
_FILE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")

_PROGRAM_DIRECTORIES = ("bin", "sbin", "shims", "libexec")
# Homes of many things beside programs (keyrings, tokens): of these only programs and libraries are shown.
_SHARED_PREFIXES = (".local", ".cargo")
# An absolute path in a command, wherever the shell lets one begin.
_PATH_IN_COMMAND = re.compile(r"""(?:^|[\s"'=:;|&(<>])(/[^\s"'=:;|&()<>{}$*?\[\]\\`]+)""")

_FAILURE_HOLDS_SECONDS = 60.0
_PROBE_TIMEOUT_SECONDS = 30.0
_ADVICE = (
    "install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`) and allow user namespaces, "
    "or set `isolation: process` without `network: false`"
)


@dataclass(frozen=True)
class Sandbox:
    """What a command may change and see, beside the system."""

    writable: tuple[Path, ...]
    tmp: Path  # what is /tmp inside
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()  # never shown because they lie beside a program: the suite with its exam
    network: bool = True

    def showing(self, *readable: Path) -> Sandbox:
        """Give one that shows more, read-only."""
        return replace(self, readable=(*self.readable, *readable))

    def for_command(self, command: str | Sequence[str]) -> Sandbox:
        """Give one that shows what an author's own command names by its absolute path."""
        words = _PATH_IN_COMMAND.findall(command) if isinstance(command, str) else command
        named = [Path(word) for word in words if word.startswith("/")]
        return self.showing(*(path for name in named for path in self._shown_for(name)))

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], status: int) -> list[str]:
        """Give the command that runs `argv` in here; bubblewrap reports on the descriptor `status`."""
        program = _find_bubblewrap()
        assert program is not None
        return [
            program,
            *_namespaces(network=self.network),
            *_system(),
            *("--bind", str(self.tmp), "/tmp"),  # noqa: S108 (inside)
            *self._binds(env),
            *("--remount-ro", "/", "--chdir", str(cwd), "--json-status-fd", str(status), "--", *argv),
        ]

    def _binds(self, env: Mapping[str, str]) -> Iterator[str]:
        path_variable = env.get("PATH", os.defpath)
        files = tuple(value for name in _FILE_VARIABLES if (value := env.get(name)))
        shown = _shown_everywhere(path_variable, _stamp(path_variable), files, self.hidden)
        writable = [str(path) for path in self.writable]
        # Paths as text: pathlib would take longer for it than the command itself may take.
        for path in _outermost((*shown, *map(str, self.readable)), outside=writable):
            yield from ("--ro-bind-try", path, path)  # it may have been removed since we looked
        for path in _outermost(writable, outside=()):
            yield from ("--bind", path, path)

    def _shown_for(self, named: Path) -> Iterator[Path]:
        if not os.access(named, os.R_OK) or _is_system(named) or _is_wide(named):
            return
        directory = named if named.is_dir() else named.parent
        in_hidden = any(directory.is_relative_to(hidden) for hidden in self.hidden)
        if in_hidden or _is_wide(directory) or _would_reveal(directory, self.hidden):
            yield named
        else:
            yield from _with_libraries(directory)


@dataclass(frozen=True)
class SandboxAvailability:
    """Whether commands can be confined on this machine: bubblewrap's version, or what is missing."""

    works: bool
    version: str | None = None
    reason: str | None = None


def choose_sandbox(
    isolation: Isolation, sandbox: Sandbox, *, availability: SandboxAvailability | None = None
) -> Sandbox | None:
    """Say whether commands run in a sandbox, and raise SessionError if one was asked for and can't be had."""
    if isolation == "process":
        if not sandbox.network:
            raise _unavailable("`network: false` needs a sandbox, but `isolation: process` asks for none")
        return None
    found = availability or sandbox_availability(network=sandbox.network)
    if found.works:
        return sandbox
    if isolation == "bubblewrap" or not sandbox.network:
        asked = "`isolation: bubblewrap`" if isolation == "bubblewrap" else "`network: false`"
        raise _unavailable(f"{asked} needs bubblewrap, which does not work here: {found.reason}")
    return None


def _unavailable(why: str) -> SessionError:
    return SessionError("sandbox_unavailable", f"{why}; {_ADVICE}", retryable=False)


def sandbox_availability(*, network: bool = True) -> SandboxAvailability:
    """Try bubblewrap as sessions use it, once in a process; `network` False tries to cut it as well."""
    return _probes[network].result()


class _Probe:
    """One real try. Success lasts; a failure may have been a full machine's, so it is tried again later."""

    def __init__(self, *, network: bool) -> None:
        self._network = network
        self._lock = threading.Lock()
        self._found: SandboxAvailability | None = None
        self._valid_until = 0.0

    def result(self) -> SandboxAvailability:
        with self._lock:
            if self._found is None or time.monotonic() > self._valid_until:
                self._found = _try_bubblewrap(network=self._network)
                lasts_seconds = float("inf") if self._found.works else _FAILURE_HOLDS_SECONDS
                self._valid_until = time.monotonic() + lasts_seconds
            return self._found

    def forget_parent(self) -> None:
        self._lock = threading.Lock()


_probes = {network: _Probe(network=network) for network in (True, False)}
for _probe in _probes.values():
    os.register_at_fork(after_in_child=_probe.forget_parent)


def _try_bubblewrap(*, network: bool) -> SandboxAvailability:
    if sys.platform != "linux":
        return SandboxAvailability(works=False, reason="there is bubblewrap for Linux only")
    _find_bubblewrap.cache_clear()  # it may have been installed meanwhile
    program = _find_bubblewrap()
    if program is None:
        return SandboxAvailability(works=False, reason="there is no program `bwrap`")
    confined = [
        program,
        *_namespaces(network=network),
        *_system(),
        *("--tmpfs", "/tmp", "--remount-ro", "/", "--", "/bin/sh", "-c", ":"),  # noqa: S108 (inside)
    ]
    version = _ask([program, "--version"])
    tried = _ask(confined)
    if tried.returncode == 0:
        return SandboxAvailability(works=True, version=version.stdout.strip() or None)
    said = (tried.stderr.strip() or f"exit code {tried.returncode}").splitlines()[-1]
    return SandboxAvailability(works=False, version=version.stdout.strip() or None, reason=said)


def _ask(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, returncode=1, stdout="", stderr=str(error))


@lru_cache
def _find_bubblewrap() -> str | None:
    return shutil.which("bwrap", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/local/bin:/usr/bin:/bin")


def _namespaces(*, network: bool) -> tuple[str, ...]:
    return (
        # Root gets a user namespace too: without it, it would be root outside as well. With setuid
        # bubblewrap and no such namespaces, users still have no capabilities.
        *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"),
        *(() if network else ("--unshare-net",)),
    )


def _system() -> tuple[str, ...]:
    # Asked again when something was put in /etc or taken away: workers live for weeks.
    return _system_arguments(os.geteuid() == 0, _stamp("/etc"))


@lru_cache(maxsize=8)
def _system_arguments(is_root: bool, _stamp: tuple[int, ...]) -> tuple[str, ...]:
    """Show the system, with the links that lead from one of its parts to another."""
    arguments = ["--dev", "/dev", "--proc", "/proc"]
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for name in _ETC_LINKS:
        target = Path("/etc", name).resolve()
        if os.access(target, os.R_OK) and not _is_system(target):
            arguments += ["--ro-bind-try", str(target), str(target)]
    for name in (*_HOSTS_INSTRUCTIONS, *(_ROOTS_SECRETS if is_root else ())):
        path = Path("/etc", name)
        if path.is_dir():
            arguments += ["--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.exists():
            arguments += ["--ro-bind", os.devnull, str(path)]
    return (*arguments, "--dir", "/run", "--symlink", "/tmp", "/var/tmp")  # noqa: S108 (inside)


def _stamp(path_variable: str) -> tuple[int, ...]:
    """Change when a program is installed: workers live for weeks."""
    times = []
    for name in path_variable.split(os.pathsep):
        try:
            times.append(os.stat(name).st_mtime_ns)  # noqa: PTH116 (for every command)
        except OSError:
            times.append(0)
    return tuple(times)


@lru_cache(maxsize=64)
def _program_directories(path_variable: str, _stamp: tuple[int, ...]) -> tuple[Path, ...]:
    """Find what must be shown for the programs in PATH to run, beside the system."""
    waiting = [Path(name) for name in path_variable.split(os.pathsep) if name.startswith("/")]
    waiting += [Path(sys.prefix, "bin"), Path(sys.base_prefix, "bin")]
    shown: dict[Path, None] = {}
    seen = set()
    while waiting:
        directory = waiting.pop()
        if directory in seen or _is_system(directory) or _is_wide(directory) or not _is_readable(directory):
            continue
        seen.add(directory)
        real = directory.resolve()
        waiting.append(real)
        shown.update(dict.fromkeys(_with_libraries(directory)))
        # A virtual environment's Python, or pipx's programs, lie elsewhere.
        waiting += {path.resolve().parent for path in real.iterdir() if path.is_symlink()}
    return tuple(shown)


@lru_cache(maxsize=64)
def _shown_everywhere(
    path_variable: str, stamp: tuple[int, ...], files: tuple[str, ...], hidden: tuple[Path, ...]
) -> tuple[str, ...]:
    """Name what every command sees beside the system: its programs, and the files that variables name."""
    named = [Path(file) for file in files if file.startswith("/") and os.access(file, os.R_OK)]
    found = (*_program_directories(path_variable, stamp), *(file for file in named if not _is_system(file)))
    return tuple(str(path) for path in found if not _would_reveal(path, hidden))


def _would_reveal(path: Path, hidden: Iterable[Path]) -> bool:
    return any(each.is_relative_to(path) for each in hidden)


def _with_libraries(directory: Path) -> Iterator[Path]:
    """Give a directory of programs with what they are installed with."""
    prefix = directory.parent
    if directory.name not in _PROGRAM_DIRECTORIES or _is_wide(prefix):
        yield directory
    elif prefix.name in _SHARED_PREFIXES:
        yield directory
        if _is_readable(prefix / "lib"):
            yield prefix / "lib"
    else:
        yield prefix


def _is_readable(directory: Path) -> bool:
    return os.path.isdir(directory) and os.access(directory, os.R_OK | os.X_OK)  # noqa: PTH112 (no exceptions)


def _is_system(path: Path) -> bool:
    return len(path.parts) > 1 and path.parts[1] in (*_SYSTEM, "dev", "proc")


def _is_wide(path: Path) -> bool:
    """Say whether a directory holds far more than programs: a whole home, everybody's temporary files."""
    homes = (Path("/home"), Path("/root"), Path("/Users"), Path(os.environ.get("HOME", "/")))
    return len(path.parts) <= 2 or path in homes or path.parent == Path("/home")


def _outermost(paths: Iterable[str], *, outside: Sequence[str]) -> list[str]:
    """Leave out what lies in another one of them, or in `outside`: it is shown already."""
    kept: list[str] = []
    for path in sorted(set(paths), key=len):
        if not any(path == other or path.startswith(f"{other}/") for other in (*kept, *outside)):
            kept.append(path)
    return kept
