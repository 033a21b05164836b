"""Ask kinds of agents, all at once, whether they can run here: most run a program to find out its version."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from farm.agents.base import Availability
from farm.agents.registry import AGENTS


def ask_agents(kinds: Collection[str] = tuple(AGENTS)) -> dict[str, Availability]:
    """Give what each kind says, in the order of the kinds."""
    if not kinds:
        return {}
    with ThreadPoolExecutor(max_workers=len(kinds), thread_name_prefix="availability") as pool:
        return dict(zip(kinds, pool.map(lambda kind: AGENTS[kind].availability(), kinds), strict=True))


def usable_agents() -> tuple[str, ...]:
    """Name the kinds that can run here."""
    return tuple(kind for kind, found in ask_agents().items() if found.usable)
