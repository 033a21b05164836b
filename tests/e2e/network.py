"""Hosts with a network of their own between them: namespaces, whose cables can be pulled."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_numbers = itertools.count()


@dataclass(frozen=True)
class Host:
    """A network namespace with an address."""

    name: str
    address: str
    switch: str  # the namespace at the other end of its cable
    port: str  # and the interface there

    def command(self, *command: str | Path, hides: Path | None = None) -> list[str]:
        """Give a command as it is run on this host; what it hides is an empty directory there."""
        entered = ["ip", "netns", "exec", self.name]
        if hides is None:
            return [*entered, *map(str, command)]
        hidden = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
        return [*entered, "unshare", "--mount", "sh", "-c", hidden, str(hides), *map(str, command)]

    def cut_off(self) -> None:
        """Pull the cable: what is sent is lost, and nobody is told."""
        _ip("-n", self.switch, "link", "set", self.port, "down")

    def plug_in(self) -> None:
        """Put the cable back."""
        _ip("-n", self.switch, "link", "set", self.port, "up")


@contextmanager
def network(count: int) -> Iterator[list[Host]]:
    """Set up hosts around a switch; nothing of this machine's own network is touched."""
    # Of this process and call alone; an interface's name has no more than 15 characters.
    mark = f"{os.getpid() % 10**6}-{next(_numbers)}"
    third = os.getpid() % 250 + 1
    switch = f"farm-{mark}-switch"
    hosts = [
        Host(f"farm-{mark}-{number}", f"10.231.{third}.{number}", switch, f"p{number}")
        for number in range(1, count + 1)
    ]
    with ExitStack() as stack:
        for name in (switch, *(host.name for host in hosts)):
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for host in hosts:
            cable = ("type", "veth", "peer", host.port, "netns", switch)
            _ip("link", "add", "eth0", "netns", host.name, *cable)
            _ip("-n", switch, "link", "set", host.port, "master", "bridge", "up")
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-n", host.name, "link", "set", "eth0", "up")
            _ip("-n", host.name, "link", "set", "lo", "up")
        yield hosts


@contextmanager
def needed_network(count: int, *programs: str) -> Iterator[list[Host]]:
    """Set hosts up for a test; skip it where that is impossible, but not for root in CI."""
    missing = [program for program in programs if shutil.which(program) is None]
    reason = f"{', '.join(missing)}: not installed" if missing else why_no_network()
    if reason is not None:
        assert os.geteuid() != 0 or not os.environ.get("CI"), f"CI must be able to do this: {reason}"
        pytest.skip(reason)
    with network(count) as made:
        yield made


def why_no_network() -> str | None:
    """Say why hosts can't be set up here; None if they can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if not (shutil.which("ip") and shutil.which("unshare")):
        return "iproute2 and util-linux are not installed"
    try:
        with network(1):
            return None
    except subprocess.CalledProcessError as error:
        return f"network namespaces do not work here: {error.stderr.decode(errors='replace').strip()}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
