"""Say where the broker is: FARM_BROKER_URL, or the file that FARM_BROKER_URL_FILE names.

A URL holds a password, and variables are shown by `docker inspect`, `systemctl show` and the like; files are
not. Imports no client: every command asks whether there is a broker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from farm.errors import UsageError
from farm.queue.names import URL_FILE_VARIABLE, URL_VARIABLE

_MAX_BYTES = 4096


def names_broker(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether the environment names a broker, right or wrong."""
    return bool(environment.get(URL_VARIABLE) or environment.get(URL_FILE_VARIABLE))


def url_from_environment(environment: Mapping[str, str] = os.environ) -> str | None:
    """Give the broker's URL as it was written; None if the environment names none."""
    url, file = environment.get(URL_VARIABLE), environment.get(URL_FILE_VARIABLE)
    if not file:
        return url or None
    if url:
        raise UsageError(f"{URL_VARIABLE} and {URL_FILE_VARIABLE} are both set; one is enough")
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(_MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"{URL_FILE_VARIABLE}={file}: can't be read: {why}") from None
    if not text.strip():
        raise UsageError(f"{URL_FILE_VARIABLE}={file}: is empty; it must hold a URL as {URL_VARIABLE} would")
    return text.strip()
