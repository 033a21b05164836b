"""Run the ledger's Lua scripts on its server, each whole or not at all. Knows nothing of what they do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from farm.queue.connection import clear_errors

if TYPE_CHECKING:
    from redis.commands.core import Script

_DIRECTORY = Path(__file__).parent / "lua"


class ScriptedClient:
    """A client and the scripts that it has registered: once, for hashing a script's text takes its time."""

    def __init__(self, client: redis.Redis) -> None:
        # Any: by redis-py's types every answer may be text or bytes; ours are bytes.
        self._client: Any = client
        self._scripts: dict[str, Script] = {}

    def _run_script(
        self, name: str, keys: Sequence[str], arguments: Sequence[Any], *, shared: str = "clock"
    ) -> Any:
        with clear_errors():
            return self._script(name, shared)(keys=keys, args=arguments)

    def _script(self, name: str, shared: str) -> Script:
        if name not in self._scripts:
            self._scripts[name] = self._client.register_script(_source(name, shared))
        return self._scripts[name]

    def time_ms(self) -> int:
        """Give the time by the server's clock, the only one that all share."""
        with clear_errors():
            seconds, microseconds = self._client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000


@cache
def _source(name: str, shared: str) -> str:
    parts = ("clock", name) if shared == "clock" else ("clock", shared, name)
    return "".join((_DIRECTORY / f"{part}.lua").read_text() for part in parts)
