"""Measure what the farm adds to real sessions: the Claude Code CLI through the engine, and in a bare loop.

Both run the same CLI with the same arguments and environment on the same scripted API, whose answers take
their time as a model's do; the loop is `xargs -P`. In each round both have a turn, each first in every
other one, and what is told is the median of the rounds' ratios: neither one busy moment of the machine nor a
machine that grows slower decides. Wall time is told from `farm submit` to the report; what of it
a session has is told without the start and the end of the engine, which a run pays once.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shlex
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from bench.engine import start_submit
from farm.agents.base import Session
from farm.agents.claude_command import PROGRAM, make_command
from farm.model.agent import ClaudeSpec
from farm.model.messages import Message
from farm.model.suite import Case
from farm.sessions.trial_directories import PARTS
from farm.sessions.workspace import Workspace
from farm.testing import Scenario, ScriptedApi, ToolUse, Turn

SESSIONS = 96
CONCURRENCY = 16
ANSWER_SECONDS = 2.0
ROUNDS = 4

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
    cpu_seconds: float  # of all its processes


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.sessions", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    count = parser.parse_args().rounds
    program = PROGRAM.find() or (_CLAUDE.absolute() if _CLAUDE.exists() else None)
    if program is None:
        print("Claude Code is not installed; `make claude` does it, with npm")
        return
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # to be told the CPU time of orphans as well
    os.environ |= {"ANTHROPIC_API_KEY": _KEY, "FARM_CLAUDE_PATH": str(program)}
    with tempfile.TemporaryDirectory(prefix="farm-bench-") as name, ScriptedApi({"bench": _SCENARIO}) as api:
        directory = Path(name)
        project = _write_project(directory / "project", api.base_url("bench"))

        def bare(place: str, sessions: int = SESSIONS) -> Measured:
            loop = _write_loop(directory / place, project / "workspace", api.base_url("bench"), sessions)
            return _measure(partial(_run_loop, loop))

        def farm(_place: str) -> Measured:
            return _measure(partial(_submit, project, "hello.yaml", SESSIONS))

        bare("warm-up", sessions=2)  # brings the CLI's 246 MB into memory
        starts = [_measure(partial(_submit, project, "start.yaml", 1)) for _ in range(3)]
        start = Measured(*(median(each) for each in zip(*map(astuple, starts), strict=True)))
        print(f"{SESSIONS} sessions, {CONCURRENCY} at once, load {os.getloadavg()[0]:.1f}")
        print(f"start and end of the engine: {_figures(start)} CPU")
        print("\nround        bare: wall        CPU   farm: wall        CPU   wall, CPU: farm / bare")
        rounds = []
        for number in range(1, count + 1):
            kinds = (bare, farm) if number % 2 else (farm, bare)
            measured = {kind: kind(f"loop-{number}") for kind in kinds}
            rounds.append((measured[bare], measured[farm]))
            wall, cpu = _ratios(*rounds[-1], start)
            print(
                f"{number:<8} {_figures(measured[bare])} {_figures(measured[farm])}   {wall:.3f}, {cpu:.3f}"
            )
        _conclude(rounds, start)


def _conclude(rounds: list[tuple[Measured, Measured]], start: Measured) -> None:
    waves = SESSIONS / CONCURRENCY
    walls, cpus = zip(*(_ratios(bare, farm, start) for bare, farm in rounds), strict=True)
    added = [(f.wall_seconds - start.wall_seconds - b.wall_seconds) / waves * 1000 for b, f in rounds]
    added_cpu = [(f.cpu_seconds - start.cpu_seconds - b.cpu_seconds) / SESSIONS * 1000 for b, f in rounds]
    print("\nmedian of the rounds (least to most)")
    print(f"wall, start to report: {_spread(walls)} x the loop (at most 1.05)")
    print(f"CPU without the engine's start: {_spread(cpus)} x (at most 1.05)")
    print(f"added to a session: {median(added):+.0f} ms (at most 100), {median(added_cpu):+.0f} ms CPU")


def _ratios(bare: Measured, farm: Measured, start: Measured) -> tuple[float, float]:
    return (
        farm.wall_seconds / bare.wall_seconds,
        (farm.cpu_seconds - start.cpu_seconds) / bare.cpu_seconds,
    )


def _spread(values: tuple[float, ...]) -> str:
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def _figures(measured: Measured) -> str:
    return f"{measured.wall_seconds:8.2f} s {measured.cpu_seconds:8.2f} s"


def _measure(run: Callable[[], None]) -> Measured:
    before, started = _cpu_seconds(), time.perf_counter()
    run()
    wall_seconds = time.perf_counter() - started
    return Measured(wall_seconds, _cpu_seconds() - before)


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


def _write_loop(place: Path, workspace: Path, base_url: str, sessions: int) -> list[Path]:
    """Write a script for each session: what the farm would run, without the farm."""
    scripts = []
    for number in range(sessions):
        root = place / str(number)
        for part in PARTS:
            (root / part).mkdir(parents=True)
        directory, home, tmp, config = (root / part for part in PARTS)
        (directory / "README.md").write_bytes((workspace / "README.md").read_bytes())
        session = _session(Workspace(root, directory, home, tmp, config), base_url)
        command = make_command(session, ClaudeSpec(base_url=base_url), str(uuid.uuid4()))
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
