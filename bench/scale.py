"""Measure how memory and time grow with the number of cases: a run of trivial cases, from start to report.

Each figure is the most that one process of its kind had at any moment (proportional set size). The
aggregator is one of the worker's processes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from bench.engine import start_submit
from bench.processes import MemoryWatch

COUNTS = (1000, 10_000, 50_000)


def main() -> None:
    """Print a row for each number of cases, given on the command line or the usual ones."""
    counts = [int(argument) for argument in sys.argv[1:]] or COUNTS
    print(" cases      time  ms a case    submitter  worker process       server   (MB)")
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="farm-bench-") as name:
            seconds, peaks = _run(Path(name), count)
        figures = "  ".join(
            f"{peaks.get(kind, 0) / 1024:12.0f}" for kind in ("submitter", "worker", "server")
        )
        print(f"{count:6}  {seconds:7.1f} s  {seconds / count * 1000:9.2f}  {figures}", flush=True)


def _run(project: Path, count: int) -> tuple[float, dict[str, int]]:
    (project / "workspace").mkdir()
    (project / "farm.yaml").write_text("workspace: workspace\n")
    cases = "".join(
        f"  - id: case-{number}\n    input: Say hello.\n    script: [{{say: hello}}]\n"
        for number in range(count)
    )
    evaluators = "evaluators: [{type: contains, value: hello}]\n"
    (project / "hello.yaml").write_text(f"target: scripted\n{evaluators}evalcases:\n{cases}")
    started = time.perf_counter()
    process = start_submit(project)
    assert process.stdout is not None
    last = b""
    with MemoryWatch(process.pid, _kind) as memory:
        for line in process.stdout:  # not kept: this program's own memory is not what is measured
            last = line if line.startswith(b"Results:") else last
        process.wait()
    assert f"Results: {count}/{count} passed".encode() in last, last
    return time.perf_counter() - started, memory.largest_kib


def _kind(command: str) -> str:
    for mark, kind in (("farm submit", "submitter"), ("-m workers", "worker"), ("valkey-server", "server")):
        if mark in command:
            return kind
    return "other"


if __name__ == "__main__":
    main()
