"""Say where this machine's workers keep what they have unpacked."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from farm.queue.names import CACHE_VARIABLE


def cache_directory() -> Path:
    """Give the directory that the environment names, else one beside the workspaces."""
    if told := os.environ.get(CACHE_VARIABLE):
        return Path(told)
    # Only on the same file system can files be shared with them.
    return Path(tempfile.gettempdir()) / f"farm-cache-{os.getuid()}"
