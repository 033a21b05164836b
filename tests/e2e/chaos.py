"""Carry out a run while everything that can die does, and check that its report is that of a calm day.

    python -m tests.e2e.chaos --cases 2000 --kills 60 --restarts 2 --seed 1

The submitter is killed while it publishes; workers of both pools and processes of their pools are killed at
random, while the run makes progress; the server is killed and started again on what it wrote down. What is
expected follows from the cases alone: they are made so that each has one right outcome. The seed settles the
cases and who is killed when (by progress, not by the clock); which session that hits, the machine decides.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from farm.errors import FarmError
from farm.queue.ledger import RunStatus
from farm.sessions.process_table import MARKER, process_ids, read_process
from tests.e2e.fleet import Fleet, Pool, Worker, is_alive, open_fleet, program_of, wait_until

LEASE_SECONDS = 5
_PR_SET_CHILD_SUBREAPER = 36
_POOLS: tuple[tuple[Pool, int], ...] = (("prefork", 4), ("threads", 6), ("prefork", 4), ("threads", 6))

FARM_YAML = """
name: chaos
retries: 1
isolation: process
workspace: workspace
agents:
  echoes: {kind: command, command: 'cat {PROMPT_FILE}'}
  # What it leaves in the background must not be there when the session is over, however it ends.
  daemon: {kind: command, command: 'setsid sleep 600 & sleep 0.3; cat {PROMPT_FILE}'}
  missing: {kind: command, command: '/nowhere/agent {PROMPT_FILE}'}
"""


@dataclass(frozen=True)
class Expected:
    """How a case must end, whatever happens on the way."""

    outcome: str
    trials: int = 1
    error: str | None = None


@dataclass
class Deeds:
    """What was done to the fleet."""

    workers_killed: int = 0
    pool_processes_killed: int = 0
    restarts: int = 0
    freezes: int = 0

    @property
    def kills(self) -> int:
        return self.workers_killed + self.pool_processes_killed


def make_case(number: int, chance: random.Random) -> tuple[dict[str, Any], Expected]:
    """Make a case with one right outcome."""
    said = f"answer {number}"
    right, wrong = {"type": "contains", "value": said}, {"type": "contains", "value": "another answer"}
    # Long enough to be hit, short enough for the run to end.
    pause = round(chance.choice([0, 0, 0, 0.1, 0.3, 1.0]), 1)
    script: list[dict[str, Any]] = [{"sleep": pause}, {"say": said}]
    case: dict[str, Any] = {"id": f"case-{number:05}", "input": said, "agent": "scripted"}
    kind = chance.choices(
        (
            "passes",
            "fails",
            "writes",
            "repeats",
            "echoes",
            "mistaken",
            "daemon",
            "missing",
            "crashes",
            "skipped",
        ),
        (30, 10, 10, 5, 20, 5, 8, 5, 2, 2),
    )[0]
    expected = Expected("passed")
    match kind:
        case "passes":
            case |= {"script": script, "evaluators": [right]}
        case "fails":
            case |= {"script": script, "evaluators": [right, wrong]}
            expected = Expected("failed")
        case "writes":
            write = {"tool": "Write", "input": {"file_path": "new.txt", "content": said}}
            seen = {"type": "file_contains", "path": "new.txt", "value": said}
            given = {"type": "file_exists", "path": "given.txt"}
            case |= {"script": [write, *script], "evaluators": [right, seen, given]}
        case "repeats":
            case |= {"script": script, "evaluators": [right], "trials": 3}
            expected = Expected("passed", trials=3)
        case "echoes" | "daemon":
            case |= {"agent": kind, "evaluators": [right]}
        case "mistaken":
            case |= {"agent": "echoes", "evaluators": [wrong]}
            expected = Expected("failed")
        case "missing":
            case |= {"agent": "missing", "evaluators": [right]}
            expected = Expected("errored", error="agent_unavailable")
        case "crashes":
            case |= {"script": [{"sleep": pause}, {"crash": "on purpose"}], "evaluators": [right]}
            expected = Expected("errored", error="crashed")
        case "skipped":
            case |= {"script": script, "evaluators": [right], "skip": "not today"}
            expected = Expected("skipped", trials=0)
    return case, expected


class Chaos:
    """One run under fire."""

    def __init__(self, fleet: Fleet, chance: random.Random, cases: int) -> None:
        self.deeds = Deeds()
        self._fleet = fleet
        self._chance = chance
        self._expected: dict[str, Expected] = {}
        self._thaws: list[threading.Timer] = []
        self._write_project(cases)

    def run(self, kills: int, restarts: int, freezes: int) -> dict[str, Any]:
        """Submit, kill, and give the report once it is there."""
        assert self._fleet.server is not None
        run_id = self._submit_and_kill()
        for pool, concurrency in _POOLS:
            self._fleet.start_worker(pool, concurrency, ready=False)
        total = self._fleet.status(run_id).total
        plan = _spread(total, kills, "kill") + _spread(total, restarts, "restart")
        plan += _spread(total, freezes, "freeze")
        for due, deed in sorted(plan):
            status = self._await_progress(run_id, due)
            if status.state != "running":
                say(f"the run was over before all was done to it: {deed} at {due} of {total}")
                break
            if deed == "kill":
                self._kill_somebody(status)
            elif deed == "freeze":
                self._freeze_somebody(status)
            else:
                self._restart(run_id, status)
        self._fleet.await_run(run_id, 600)
        return self._end(run_id)

    def check(self, report: dict[str, Any]) -> None:
        """Compare a report with what was to be expected."""
        ids = [case["id"] for case in report["cases"]]
        assert ids == sorted(self._expected), "each case once, by id"
        seen = {
            case["id"]: Expected(case["outcome"], len(case["trials"]), _error(case))
            for case in report["cases"]
        }
        wrong = {
            name: (self._expected[name], seen[name]) for name in ids if self._expected[name] != seen[name]
        }
        for name, (expected, found) in wrong.items():
            say(f"WRONG {name}: expected {expected}, found {found}")
        assert not wrong, f"{len(wrong)} cases have another outcome than on a calm day"
        assert report["state"] == "complete"
        counts = Counter(expected.outcome for expected in self._expected.values())
        assert {outcome: report["totals"][outcome] for outcome in counts} == counts

    def _write_project(self, count: int) -> None:
        fleet = self._fleet
        fleet.write("farm.yaml", FARM_YAML)
        fleet.write("workspace/given.txt", "given\n")
        made = [make_case(number, self._chance) for number in range(count)]
        for first in range(0, count, 200):
            cases = [case for case, _ in made[first : first + 200]]
            fleet.write(f"tests/{first:05}.yaml", json.dumps({"cases": cases}))  # JSON is YAML
        for number, (case, expected) in enumerate(made):
            self._expected[f"tests/{number // 200 * 200:05}::{case['id']}"] = expected

    def _submit_and_kill(self) -> str:
        """Have a submitter killed after it wrote the manifest, and before it has published all."""
        assert self._fleet.server is not None
        client = self._fleet.server.client()
        published = self._chance.choice([0, 1])  # whether it is to have published something
        for _ in range(20):
            submitter = self._fleet.start_farm("submit", "--wait", "tests", log="submitter.log")
            wait_until(lambda: self._fleet.broker.ledger.runs(), "the submitter writes its manifest")
            deadline = time.monotonic() + 30
            while published and not _queued(client) and time.monotonic() < deadline:
                pass
            submitter.kill()
            submitter.wait()
            (run_id,) = self._fleet.broker.ledger.runs()
            total, queued = self._fleet.status(run_id).total, _queued(client)
            if queued < total:
                say(f"the submitter of {total} trials was killed when it had published {queued}")
                return run_id
            published = 0  # it was too fast: this time, before the first
            self._fleet.broker.ledger.forget(run_id)
            client.delete("agent.scripted", "agent.command")
        raise AssertionError("no submitter could be killed in time")

    def _await_progress(self, run_id: str, due: int) -> RunStatus:
        status = self._fleet.status(run_id)
        deadline = time.monotonic() + 300
        while status.state == "running" and status.done < due:
            assert time.monotonic() < deadline, f"no progress: {status}"
            time.sleep(0.05)
            status = self._fleet.status(run_id)
        return status

    def _kill_somebody(self, status: RunStatus) -> None:
        # Only those that are at work: to kill one that still starts would be too easy for it.
        wait_until(self._ready, "a worker is ready")
        worker = self._chance.choice(self._ready())
        pool = worker.pool_processes() if worker.pool == "prefork" and self._chance.random() < 0.6 else []
        if not pool:
            self._kill_worker(worker, status)
            return
        victim = self._chance.choice(pool)
        os.kill(victim, signal.SIGKILL)
        self.deeds.pool_processes_killed += 1
        say(f"{status.done:5} done: killed process {victim} of the pool of worker {worker.pid}")

    def _freeze_somebody(self, status: RunStatus) -> None:
        """Have a worker lose its leases and come back: as when a machine sleeps, or a network is cut."""
        wait_until(self._ready, "a worker is ready")
        worker = self._chance.choice(self._ready())
        frozen = [worker.pid, *worker.pool_processes()]
        _signal(frozen, signal.SIGSTOP)
        thaw = threading.Timer(LEASE_SECONDS + 2, _signal, (frozen, signal.SIGCONT))
        thaw.start()
        self._thaws.append(thaw)
        self.deeds.freezes += 1
        say(f"{status.done:5} done: froze worker {worker.pid} ({worker.pool}) beyond its leases")

    def _ready(self) -> list[Worker]:
        known = {record.pid for record in self._fleet.broker.ledger.workers()}
        return [worker for worker in self._living() if worker.pid in known]

    def _kill_worker(self, worker: Worker, status: RunStatus) -> None:
        worker.kill()
        self.deeds.workers_killed += 1
        new = self._fleet.start_worker(worker.pool, 4 if worker.pool == "prefork" else 6, ready=False)
        say(f"{status.done:5} done: killed worker {worker.pid} ({worker.pool}), started {new.pid}")

    def _living(self) -> list[Worker]:
        return [worker for worker in self._fleet.workers if worker.process.poll() is None]

    def _restart(self, run_id: str, status: RunStatus) -> None:
        assert self._fleet.server is not None
        down_seconds = self._chance.uniform(0, 2)
        self._fleet.server.kill()
        time.sleep(down_seconds)
        self._fleet.server.start()
        began = time.monotonic()
        after = self._fleet.status(run_id)
        self._await_progress(run_id, min(after.done + 1, after.total))
        took = time.monotonic() - began
        self.deeds.restarts += 1
        lost = status.done - after.done
        say(
            f"{status.done:5} done: killed the server for {down_seconds:.1f} s"
            f"{f', {lost} results were lost' if lost > 0 else ''}; the next result came after {took:.1f} s"
        )

    def _end(self, run_id: str) -> dict[str, Any]:
        """End the workers; the report must stay what it was when the run was first said to be complete."""
        first = self._fleet.report_bytes(run_id)
        for _ in range(3):
            self._fleet.broker.publish_aggregation(run_id)
        wait_until(lambda: not self._fleet.broker.queued(["control"]), "all messages have been taken")
        for thaw in self._thaws:
            thaw.join()
        for worker in self._living():
            worker.end()
        assert self._fleet.report_bytes(run_id) == first, "the report was written twice, and differs"
        loaded: dict[str, Any] = json.loads(first)
        return loaded


def _spread(total: int, count: int, deed: str) -> list[tuple[int, str]]:
    # Over the first four fifths: on a fast machine the run must not be over before all is done to it.
    return [(int(0.8 * total * (number + 1) / count), deed) for number in range(count)]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it may have been killed meanwhile
            os.kill(pid, number)


def _queued(client: Any) -> int:
    return sum(client.llen(f"agent.{kind}") for kind in ("scripted", "command"))


def _error(case: dict[str, Any]) -> str | None:
    kinds = {trial["error"]["kind"] for trial in case["trials"] if trial["error"]}
    return ", ".join(sorted(kinds)) or None


def say(line: str) -> None:
    """Say what was done, at once: who watches wants to know where it hangs."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def all_orphans_are_ours() -> Iterator[None]:
    """Become the parent of all that loses its own; at the end, there must be none."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    yield
    _bury_orphans()
    wait_until(lambda: not _descendants(), f"nothing runs any more of {_descendants()}")


def _descendants() -> dict[int, str]:
    _bury_orphans()
    rows = {row.pid: row.parent for pid in process_ids() if (row := read_process(pid)) is not None}
    found = {os.getpid()}
    while more := {pid for pid, parent in rows.items() if parent in found} - found:
        found |= more
    return {pid: program_of(pid) for pid in found - {os.getpid()} if is_alive(pid)}


def _bury_orphans() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main() -> int:
    """Carry out one run under fire."""
    parser = argparse.ArgumentParser(prog="chaos", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--freezes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    say(
        f"SEED={seed}: {arguments.cases} cases, {arguments.kills} kills, {arguments.freezes} freezes, "
        f"{arguments.restarts} restarts"
    )
    started = time.monotonic()
    os.environ.pop(MARKER, None)
    with all_orphans_are_ours(), open_fleet(FARM_LEASE_SECONDS=str(LEASE_SECONDS)) as fleet:
        fleet.start_server()
        chaos = Chaos(fleet, random.Random(seed), arguments.cases)
        try:
            report = chaos.run(arguments.kills, arguments.restarts, arguments.freezes)
            chaos.check(report)
        except BaseException:
            say(fleet.logs())
            raise
    deeds, totals, engine = chaos.deeds, report["totals"], report["engine"]
    say(
        f"killed {deeds.workers_killed} workers and {deeds.pool_processes_killed} processes of pools, "
        f"froze {deeds.freezes}, restarted the server {deeds.restarts} times "
        f"in {time.monotonic() - started:.0f} s"
    )
    say(
        f"every outcome is right: {totals['passed']} passed, {totals['failed']} failed, "
        f"{totals['errored']} errored, {totals['skipped']} skipped; {engine['executions']} executions by "
        f"{engine['workers']} workers, {engine['retries']} of them again, "
        f"{engine['duplicate_executions']} duplicates ignored; nothing is left"
    )
    assert deeds.kills == arguments.kills, "it was over too soon: use more cases"
    assert (deeds.restarts, deeds.freezes) == (arguments.restarts, arguments.freezes)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (AssertionError, FarmError, subprocess.TimeoutExpired) as error:
        say(f"FAILED: {error}")
        sys.exit(1)
