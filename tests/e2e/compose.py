"""Run services of docker-compose.yml on hosts of a test, as an engine would: their commands, users and files.

A container is a bubblewrap sandbox in its host's network. Its root is read-only, and holds this machine's
programs in the place of the image's; secrets, volumes, tmpfs, environment and command are the file's.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from farm.sessions.process_table import MARKER
from tests.e2e.fleet import Fleet, children_of, server_program, start
from tests.e2e.network import Host

REPOSITORY = Path(__file__).parents[2]
COMPOSE_FILE = REPOSITORY / "docker-compose.yml"
DOCKERFILE = REPOSITORY / "deploy" / "Dockerfile"

_PROGRAMS = "/opt/image"
_USERS = {"valkey:valkey": 999}
_FARM_USER = 10001
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::-([^}]*))?\})")


def load_compose(variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Read the file, with variables in its texts replaced as Compose does."""

    def value(match: re.Match[str]) -> str:
        dollar, name, default = match.groups()
        return "$" if dollar else (variables or {}).get(name) or default or ""

    def replaced(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: replaced(inner) for key, inner in data.items()}
        if isinstance(data, list):
            return [replaced(inner) for inner in data]
        return _VARIABLE.sub(value, data) if isinstance(data, str) else data

    loaded: dict[str, Any] = replaced(yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8")))
    return loaded


def image_environment() -> dict[str, str]:
    """Give what the Dockerfile sets for all images."""
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.removeprefix("ENV ") for line in text.splitlines() if line.startswith("ENV ")]
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


class Compose:
    """The services of the file, for one fleet."""

    def __init__(self, fleet: Fleet, addresses: Mapping[str, Host], **variables: str) -> None:
        """Take where each service that others look for by its name is."""
        self._fleet = fleet
        self._file = load_compose(variables)
        self._directory = fleet.root / "containers"
        self._directory.mkdir()
        self._directory.chmod(0o755)
        fleet.root.chmod(0o755)
        self._hosts = self._directory / "hosts"
        names = "".join(f"{host.address} {name}\n" for name, host in addresses.items())
        self._hosts.write_text(f"127.0.0.1 localhost\n{names}")
        self._programs = self._directory / "bin"
        self._programs.mkdir()
        self._programs.chmod(0o755)
        shutil.copy(REPOSITORY / "deploy" / "with-secrets.sh", self._programs / "with-secrets")
        shutil.copy(server_program(), self._programs / "valkey-server")
        if client := shutil.which("valkey-cli") or shutil.which("redis-cli"):
            (self._programs / "valkey-cli").symlink_to(client)
        self.secrets = self._directory / "secrets"
        made = [REPOSITORY / "deploy" / "make-secrets.sh", self.secrets]
        subprocess.run(made, check=True, capture_output=True)

    def service(self, name: str) -> dict[str, Any]:
        """Give what the file says of a service."""
        service: dict[str, Any] = self._file["services"][name]
        return service

    def log(self, name: str, host: Host) -> Path:
        """Say where a service's output goes."""
        return self._fleet.root / f"{name}-{host.address}.log"

    def start(self, name: str, host: Host) -> subprocess.Popen[bytes]:
        """Start a service's container on a host."""
        process = start(
            *self._container(name, host, self._command(name)),
            log=self.log(name, host),
            env=self._fleet.env,
            cwd=self._fleet.root,
        )
        self._fleet.others.append(process)
        return process

    def run(self, name: str, host: Host, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a service to its end, with its own command or another."""
        return subprocess.run(
            self._container(name, host, list(command) or self._command(name)),
            env=self._fleet.env,
            cwd=self._fleet.root,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def stop(self, container: subprocess.Popen[bytes]) -> None:
        """Tell a container's program to end, not what holds it."""
        (first,) = children_of(container.pid)
        (program,) = children_of(first)
        os.kill(program, signal.SIGTERM)

    def is_healthy(self, name: str, host: Host) -> bool:
        """Do the health check of a service that runs on a host."""
        how, *command = self.service(name)["healthcheck"]["test"]
        assert how in ("CMD", "CMD-SHELL")
        if how == "CMD-SHELL":
            command = ["sh", "-c", *command]
        return not self.run(name, host, *command).returncode

    def _command(self, name: str) -> list[str]:
        return [str(word) for word in self.service(name)["command"]]

    def _container(self, name: str, host: Host, command: list[str]) -> list[str]:
        service = self.service(name)
        user = _USERS[service["user"]] if "user" in service else _FARM_USER
        assert service["read_only"]
        return host.command(
            *("bwrap", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--clearenv"),
            *("--unshare-uts", "--hostname", f"{name}-{host.address.rpartition('.')[2]}"),
            *self._system(),
            *self._files(name, host, user),
            *self._farm(),
            *("--remount-ro", "/", "--chdir", service.get("working_dir", "/")),
            *self._environment(service),
            *("--", "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all"),
            *("with-secrets", *command),
        )

    def _system(self) -> Iterator[str]:
        for top in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "etc"):
            path = Path("/", top)
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), str(path))
            elif path.is_dir():
                yield from ("--ro-bind", str(path), str(path))
        yield from ("--dev", "/dev", "--proc", "/proc", "--ro-bind", str(self._hosts), "/etc/hosts")

    def _farm(self) -> Iterator[str]:
        """Show the farm as it is here, wherever that is (in /tmp, perhaps), and where the image has it."""
        for shown in dict.fromkeys((REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))):
            yield from _mounted("--ro-bind", shown, str(shown))
        yield from _mounted("--ro-bind", sys.prefix, "/opt/farm")
        yield from _mounted("--ro-bind", self._programs, _PROGRAMS)

    def _files(self, name: str, host: Host, user: int) -> Iterator[str]:
        service = self.service(name)
        for entry in service.get("tmpfs", ()):
            yield from ("--dir", "/var/lib", "--perms", "1777", "--tmpfs", entry.partition(":")[0])
        for entry in service.get("volumes", ()):
            *source, target = entry.removesuffix(":ro").split(":")
            if entry.endswith(":ro"):
                yield from _mounted("--ro-bind", (REPOSITORY / source[0]).resolve(), target)
                continue
            volume = self._directory / (source[0] if source else f"{name}-{host.address}")
            volume.mkdir(exist_ok=True)
            os.chown(volume, user, user)
            yield from _mounted("--bind", volume, target)
        for secret in service.get("secrets", ()):
            long = secret if isinstance(secret, dict) else {"source": secret}
            file = Path(self._file["secrets"][long["source"]]["file"]).name
            target = long.get("target", f"/run/secrets/{long['source']}")
            yield from _mounted("--ro-bind", self.secrets / file, target)

    def _environment(self, service: dict[str, Any]) -> Iterator[str]:
        told = {**image_environment(), **service.get("environment", {})}
        told["PATH"] += f":{_PROGRAMS}"
        told[MARKER] = self._fleet.mark  # by which a fleet finds all of its processes
        for variable, value in told.items():
            yield from ("--setenv", variable, value)


def _mounted(how: str, source: Path | str, target: str) -> Iterator[str]:
    """Mount something where others can get to it: the directories that bubblewrap makes by itself are root's."""
    for parent in reversed(Path(target).parents[:-1]):
        yield from ("--dir", str(parent))
    yield from (how, str(source), target)
