"""Trees of files to make workspaces and bundles of."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false")


def write(directory: Path, *names: str) -> None:
    """Write files that hold their own names."""
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def git(directory: Path, *arguments: str) -> None:
    """Run git as nobody in particular, whatever hook we are run from."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run((*GIT, *arguments), cwd=directory, check=True, capture_output=True, env=env)
