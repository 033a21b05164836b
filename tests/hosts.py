"""Another machine to run a command on: this one, seen through a sandbox, with something else in its /etc."""

from __future__ import annotations

from pathlib import Path

ETC = Path("/etc")


def host_with(name: str, directory: Path) -> list[str]:
    """Give what is to stand before a command that shall find a directory as /etc/NAME; needs bubblewrap."""
    command = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(ETC)]
    for entry in ETC.iterdir():
        if entry.is_symlink():
            command += ["--symlink", str(entry.readlink()), str(entry)]
        else:
            command += ["--ro-bind-try", str(entry), str(entry)]
    return [*command, "--ro-bind", str(directory), str(ETC / name), "--"]
