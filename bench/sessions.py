"""Measure what the farm adds to real sessions: the Claude Code CLI through the engine, and in a bare loop.

Both run the same CLI with the same arguments and environment on the same scripted API, whose answers take
their time as a model's do; the loop is `xargs -P`. They take turns, and the best of each is compared. Wall
time is told from `farm submit` to the report, and from the first request to the last: what lies before and
after is the start and the end of the engine, which a run of thousands pays once.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shlex
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.engine import start_submit
from farm.agents.base import Session
from farm.agents.claude_command import PROGRAM, make_command
from farm.model.agent import ClaudeSpec
from farm.model.messages import Message
from farm.model.suite import Case
from farm.sessions.trial_directories import PARTS
from farm.sessions.workspace import Workspace
from farm.testing import Scenario, ScriptedApi, ToolUse, Turn

SESSIONS = 48
CONCURRENCY = 16
ANSWER_SECONDS = 2.0
ROUNDS = 2

_PR_SET_CHILD_SUBREAPER = 36
_CLAUDE = Path(".tools/claude/node_modules/.bin/claude")
_KEY = "sk-ant-bench-0123456789"
_PROMPT = "How many lines has the README?"
_MODEL = "claude-sonnet-4-5"
_SCENARIO = Scenario(
    turns=(
        Turn(
            tools=(ToolUse(tool="Bash", input={"command": "wc -l README.md"}),), delay_seconds=ANSWER_SECONDS
        ),
        Turn(say="Three.", delay_seconds=ANSWER_SECONDS),
    )
)


@dataclass(frozen=True)
class Measured:
    """What a round took."""

    wall_seconds: float
    sessions_seconds: float  # of these, from the first request to the last
    cpu_seconds: float  # of all its processes


def main() -> None:
    """Print the figures."""
    program = PROGRAM.find() or (_CLAUDE.absolute() if _CLAUDE.exists() else None)
    if program is None:
        print("Claude Code is not installed; `make claude` does it, with npm")
        return
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # to be told the CPU time of orphans as well
    os.environ |= {"ANTHROPIC_API_KEY": _KEY, "FARM_CLAUDE_PATH": str(program)}
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as name, ScriptedApi({"bench": _SCENARIO}) as api:
        directory = Path(name)
        project = _write_project(directory / "project", api.base_url("bench"))
        start = _measure(api, partial(_submit, project, "start.yaml", 1))
        print(f"{SESSIONS} sessions, {CONCURRENCY} at once, load {os.getloadavg()[0]:.1f}")
        print(
            f"start of the engine: {start.cpu_seconds:.1f} s CPU\n\nround         wall   sessions        CPU"
        )
        rounds: dict[str, list[Measured]] = {"bare": [], "farm": []}
        for number in range(ROUNDS):
            loop = _write_loop(directory / f"loop-{number}", project / "workspace", api.base_url("bench"))
            rounds["bare"].append(_measure(api, partial(_run_loop, loop)))
            rounds["farm"].append(_measure(api, partial(_submit, project, "hello.yaml", SESSIONS)))
            for kind, measured in rounds.items():
                print(f"{kind} {number + 1}  {_figures(measured[-1])}")
        bare, farm = _best(rounds["bare"]), _best(rounds["farm"])
        _compare(bare, farm, start)


def _compare(bare: Measured, farm: Measured, start: Measured) -> None:
    print(f"bare    {_figures(bare)}\nfarm    {_figures(farm)}   (the best of each)\n")
    waves = SESSIONS / CONCURRENCY
    added_ms = (farm.sessions_seconds - bare.sessions_seconds) / waves * 1000
    added_cpu = farm.cpu_seconds - start.cpu_seconds - bare.cpu_seconds
    print(f"wall, start to report: {farm.wall_seconds / bare.wall_seconds:.3f} x the loop")
    ratio = farm.sessions_seconds / bare.sessions_seconds
    print(f"wall, from the first request to the last: {ratio:.3f} x (at most 1.05)", end="")
    print(f", {added_ms:+.0f} ms a session (at most 100)")
    print(f"CPU without the engine's start: {1 + added_cpu / bare.cpu_seconds:.3f} x (at most 1.05)", end="")
    print(f", {added_cpu / SESSIONS * 1000:+.0f} ms a session")


def _best(measured: list[Measured]) -> Measured:
    return Measured(
        min(each.wall_seconds for each in measured),
        min(each.sessions_seconds for each in measured),
        min(each.cpu_seconds for each in measured),
    )


def _figures(measured: Measured) -> str:
    return f"{measured.wall_seconds:8.2f} s {measured.sessions_seconds:8.2f} s {measured.cpu_seconds:8.2f} s"


def _measure(api: ScriptedApi, run: Callable[[], None]) -> Measured:
    before, asked, started = _cpu_seconds(), len(api.received()), time.perf_counter()
    moments: list[float] = []  # of requests
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.005):
            if len(api.received()) > asked + len(moments):
                moments.append(time.perf_counter())

    watcher = threading.Thread(target=watch)
    watcher.start()
    run()
    end = time.perf_counter()
    ended.set()
    watcher.join()
    sessions_seconds = moments[-1] - moments[0] if moments else 0.0
    return Measured(end - started, sessions_seconds, _cpu_seconds() - before)


def _cpu_seconds() -> float:
    """Give the CPU time of all processes that we started, directly or not, and that have ended."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write_project(project: Path, base_url: str) -> Path:
    (project / "workspace").mkdir(parents=True)
    (project / "workspace/README.md").write_text("one\ntwo\nthree\n")
    (project / "farm.yaml").write_text(
        f"workspace: workspace\nmodel: {_MODEL}\nretries: 0\n"
        f"agents:\n  bench: {{kind: claude, base_url: {json.dumps(base_url)}}}\n"
    )
    evaluator = "    evaluators: [{type: contains, value: Three}]\n"
    cases = "".join(f"  - id: case-{n}\n    input: {_PROMPT}\n{evaluator}" for n in range(SESSIONS))
    (project / "hello.yaml").write_text(f"target: bench\nevalcases:\n{cases}")
    (project / "start.yaml").write_text(
        f"evalcases:\n  - id: start\n    input: Go\n    script: [{{say: Three.}}]\n{evaluator}"
    )
    return project


def _submit(project: Path, file: str, count: int) -> None:
    process = start_submit(project, file, "--concurrency", str(CONCURRENCY))
    output, _ = process.communicate()
    assert f"Results: {count}/{count} passed".encode() in output, output[-500:]


def _write_loop(place: Path, workspace: Path, base_url: str) -> list[Path]:
    """Write a script for each session: what the farm would run, without the farm."""
    scripts = []
    for number in range(SESSIONS):
        root = place / str(number)
        for part in PARTS:
            (root / part).mkdir(parents=True)
        directory, home, tmp, config = (root / part for part in PARTS)
        (directory / "README.md").write_bytes((workspace / "README.md").read_bytes())
        session = _session(Workspace(root, directory, home, tmp, config), base_url)
        command = make_command(session, ClaudeSpec(base_url=base_url))
        env = session.workspace.environment(command.env)
        # In a session of its own, as the farm's are: a busy machine shares its time out by session.
        words = ["setsid", "env", "-i", *(f"{name}={value}" for name, value in env.items()), *command.argv]
        script = root / "run.sh"
        script.write_text(
            f"cd {shlex.quote(str(directory))} && exec {shlex.join(words)} >../out 2>../err </dev/null\n"
        )
        scripts.append(script)
    return scripts


def _session(workspace: Workspace, base_url: str) -> Session:
    message = Message(role="user", content=_PROMPT)
    case = Case(
        id=str(uuid.uuid4()), name="bench", file="bench.yaml", evaluators=(), input_messages=(message,)
    )
    spec = ClaudeSpec(base_url=base_url)
    return Session(
        case=case,
        agent="bench",
        spec=spec,
        workspace=workspace,
        files=workspace.root,
        timeout_seconds=600,
        model=_MODEL,
    )


def _run_loop(scripts: list[Path]) -> None:
    names = "\n".join(map(str, scripts)).encode()
    subprocess.run(["xargs", f"-P{CONCURRENCY}", "-n1", "sh"], input=names, check=True)
    for script in scripts:
        assert b'"is_error":false' in (script.parent / "out").read_bytes(), script


if __name__ == "__main__":
    main()
