"""Let no proxy stand between a session and what runs on its own machine."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_local(url: str) -> bool:
    """Say whether an address is this machine's own loopback, where no proxy leads."""
    return urlsplit(url).hostname in _LOOPBACK


def past_proxies(url: str) -> dict[str, str]:
    """Give the environment of a program that is to find an address, whatever proxy it inherits."""
    if not is_local(url):
        return {}
    told = os.environ.get("NO_PROXY") or os.environ.get("no_proxy")
    names = ",".join([*([told] if told else []), *_LOOPBACK])
    return {"NO_PROXY": names, "no_proxy": names}
