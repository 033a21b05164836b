"""Measure the embedded engine: from `farm submit` to the report, for trivial cases of the command agent.

The reference is bare Celery in the same run: tasks that do nothing but run /bin/true, with a
worker that is already up. Compare the ratios; the machine is shared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.processes import MemoryWatch
from farm.queue.embedded import default_concurrency
from farm.queue.server import private_server

# AgentV 4.42 on a machine of this kind; 167 MB at 500.
TO_BEAT_SECONDS = {100: 1.0, 500: 3.1, 2000: 10.9}
REPEATS = 3

_COMMAND = 'printf "hello %s" {EVAL_ID} > {OUTPUT_FILE}'


def main() -> None:
    """Print the times."""
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as name:
        directory = Path(name)
        rate = _bare_celery_rate(directory)
        print(f"bare Celery, /bin/true: {rate:.0f} tasks/s ({default_concurrency()} processes)")
        print("cases   best     all                    to beat   cases/s   of bare Celery   memory")
        for count, to_beat in TO_BEAT_SECONDS.items():
            times, memory_mb = _measure(directory, count)
            best = min(times)
            share = count / best / rate
            every = " ".join(f"{seconds:.2f}" for seconds in times)
            print(
                f"{count:5}  {best:5.2f} s  {every:<20}  {to_beat:5.1f} s  {count / best:8.0f}"
                f"  {share:14.2f}  {memory_mb:6.0f} MB"
            )


def _measure(directory: Path, count: int) -> tuple[list[float], float]:
    project = directory / str(count)
    write_project(project, count)
    times = [_submit(project, count)[0] for _ in range(REPEATS)]
    return times, _submit(project, count, watch=True)[1]


def write_project(project: Path, count: int) -> None:
    """Write a project of so many trivial cases."""
    (project / "workspace").mkdir(parents=True)
    (project / "farm.yaml").write_text(
        f"workspace: workspace\nagents:\n  hello: {{kind: command, command: {json.dumps(_COMMAND)}}}\n"
    )
    cases = "".join(
        f"  - id: case-{number}\n    input: Say hello.\n    evaluators: [{{type: contains, value: hello}}]\n"
        for number in range(count)
    )
    (project / "hello.yaml").write_text(f"target: hello\nevalcases:\n{cases}")


def _submit(project: Path, count: int, *, watch: bool = False) -> tuple[float, float]:
    started = time.perf_counter()
    process = start_submit(project)
    if watch:
        with MemoryWatch(process.pid, lambda _command: "all") as memory:
            output, _ = process.communicate()
        peak_mb = memory.peak_kib / 1024
    else:
        output, _ = process.communicate()
        peak_mb = 0.0
    seconds = time.perf_counter() - started
    assert f"Results: {count}/{count} passed".encode() in output, output[-500:]
    return seconds, peak_mb


def start_submit(project: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start `farm submit` in a project, where Python keeps its bytecode, as it does for users."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.Popen(
        [sys.executable, "-m", "farm", "submit", *(arguments or ("hello.yaml",))],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
    )


_BARE = """
import subprocess
from celery import Celery
app = Celery(broker=%r, set_as_current=False)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=1, worker_send_task_events=False)
@app.task(name="true")
def true():
    subprocess.run(["/bin/true"])
    with app.pool.acquire() as connection:
        connection.default_channel.client.incr("done")
"""


def _bare_celery_rate(directory: Path, count: int = 1000) -> float:
    import redis
    from celery import Celery

    with private_server() as server, redis.Redis.from_url(server.url) as client:
        (directory / "bare.py").write_text(_BARE % server.broker_url)
        worker = subprocess.Popen(
            [
                *(sys.executable, "-m", "celery", "-A", "bare", "worker", "--pool", "prefork"),
                *("--concurrency", str(default_concurrency()), "--loglevel", "ERROR"),
                *("--without-mingle", "--without-gossip"),
            ],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            app = Celery(broker=server.broker_url, set_as_current=False)
            app.send_task("true", ignore_result=True)
            _await(client, 1)
            for _ in range(count):
                app.send_task("true", ignore_result=True)
            started, done = time.perf_counter(), int(client.get("done") or 0)
            _await(client, count + 1)
            return (count + 1 - done) / (time.perf_counter() - started)
        finally:
            worker.terminate()
            worker.wait()


def _await(client: object, count: int) -> None:
    while int(client.get("done") or 0) < count:  # type: ignore[attr-defined]
        time.sleep(0.005)


if __name__ == "__main__":
    main()
