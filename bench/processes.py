"""Watch the memory of a process and all that it started, by what each is for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

_SAMPLE_EVERY_SECONDS = 0.1


class MemoryWatch:
    """Samples the proportional memory of a process tree, and remembers the most."""

    def __init__(self, pid: int, name_of: Callable[[str], str]) -> None:
        self.largest_kib: dict[str, int] = {}  # the most that one process of a kind had
        self.peak_kib = 0  # the most that all had together
        self._pid = pid
        self._name_of = name_of
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_EVERY_SECONDS):
            together = 0
            for pid, command in _tree(self._pid):
                name, size = self._name_of(command), _pss_kib(pid)
                together += size
                self.largest_kib[name] = max(self.largest_kib.get(name, 0), size)
            self.peak_kib = max(self.peak_kib, together)


def _tree(root: int) -> list[tuple[int, str]]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[stat.rfind(")") + 2 :].split()[1])
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(child for child, parent in parents.items() if parent == pid)
    return [(pid, _command(pid)) for pid in found]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _pss_kib(pid: int) -> int:
    """Give the memory of a process; pages that several share count for each in part."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
