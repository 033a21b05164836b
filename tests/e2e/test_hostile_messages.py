"""One real worker, a queue full of what is not for it, and a good case behind all that."""

from __future__ import annotations

import base64
import json
import pickle
import uuid
from pathlib import Path
from typing import Any

from tests.e2e.fleet import open_fleet, wait_until

KEY = "a key that is long enough, and shown to nobody"
CANARY = "canary-in-the-message"


def message(task: str = "farm.carry_out", body: Any = None, headers: Any = None, **changes: Any) -> bytes:
    """Write a message as Celery does, but for what is changed in it."""
    if body is None:
        body = [[], {"run_id": "no-such-run", "case_id": CANARY, "trial": 1}, {}]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    whole = {
        "body": base64.b64encode(content).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"lang": "py", "task": task, "id": str(uuid.uuid4()), **(headers or {})},
        "properties": {
            "delivery_mode": 2,
            "delivery_tag": str(uuid.uuid4()),
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": "agent.command"},
            "priority": 0,
        },
    }
    return json.dumps({**whole, **changes}).encode()


class _Bomb:
    """Unpickled, it would make a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return (open, (str(self._file), "w"))


def dropped(mark: Path) -> list[bytes]:
    """What is dropped before Celery sees it, each with a line in the log."""
    named = {"run_id": "r", "case_id": CANARY, "trial": 1}
    pickled = pickle.dumps([(), {"run_id": _Bomb(mark)}, {}])
    return [
        CANARY.encode(),
        b"\xff\xfe" + CANARY.encode(),
        b"[1]",
        b"{}",
        b"[" * 60_000,
        CANARY.encode() * 4000,  # 84 KB
        message()[:-20],
        message("no.such.task"),
        message("farm.no_such_task"),
        message("celery.map", [[], {"task": {"task": "farm.aggregate"}, "it": [[CANARY]]}, {}]),
        message(body=pickled),
        message(body=pickled, **{"content-type": "application/x-python-serialize"}),
        message(body=b"[" * 30_000),
        message(body="text"),
        message(body=[[], named, {"chain": [{"task": "farm.aggregate", "kwargs": {"run_id": CANARY}}]}]),
        message(body="%%%", properties={"body_encoding": "base64"}),
        message(headers={"id": f"{CANARY}\nWARNING all is well"}),
        message(headers={"task": ["farm.carry_out"]}),
        message(headers={"eta": "2099-01-01T00:00:00"}),
        message(headers={"compression": "application/x-bz2"}),
        message(properties=None),
    ]


def refused() -> list[bytes]:
    """What reaches a task, and names nothing that it could carry out."""
    return [
        message(body=[[], {}, {}]),
        message(body=[[CANARY, "c", 1], {}, {}]),
        message(body=[[], {"run_id": "r", "case_id": CANARY, "trial": "1"}, {}]),
        message(body=[[], {"run_id": "r", "case_id": {"a": CANARY}, "trial": 1}, {}]),
        message(body=[[], {"run_id": "r", "case_id": "\ud800", "trial": 1}, {}]),
        message(body=[[], {"run_id": f"../{CANARY}", "case_id": "c", "trial": 1}, {}]),
        message(body=[[], {"run_id": "r", "case_id": "c", "trial": 1, "command": CANARY}, {}]),
        message("farm.aggregate", [[], {"run_id": [CANARY]}, {}]),
    ]


def test_nothing_that_lies_in_a_queue_ends_a_worker_or_is_run(tmp_path):
    mark = tmp_path / "was-here"
    with open_fleet(FARM_AGENTS="command", FARM_SIGNING_KEY=KEY) as fleet:
        client = fleet.start_server().client()
        worker = fleet.start_worker(concurrency=2)
        bad, odd = dropped(mark), refused()
        harmless = [message(), message("farm.aggregate", [[], {"run_id": "no-such-run"}, {}])]
        harmless.append(message(headers={"timelimit": 5, "retries": "x", "group": [1], "shadow": CANARY}))
        for text in (*bad, *odd, *harmless):
            client.lpush("agent.command", text)
        for text in (b"[1]", b"{}", b"\xff", message("farm.carry_out")):
            assert client.publish("/0.celery.pidbox", text) == 1
        wait_until(lambda: not client.llen("agent.command"), "the queue is empty")

        fleet.write("farm.yaml", "agents:\n  look: {kind: command, command: 'env; cat /proc/self/environ'}\n")
        fleet.write(
            "look.yaml",
            "name: look\nprompt: what do you see?\nagent: look\nassertions:\n"
            "  - {type: contains, value: PATH=}\n"
            "  - {type: contains, value: FARM_SIGNING, negate: true}\n"
            "  - {type: contains, value: FARM_BROKER, negate: true}\n"
            f"  - {{type: contains, value: '{KEY}', negate: true}}\n",
        )
        ran = fleet.farm("run", "--json", "look.yaml")
        assert ran.returncode == 0, ran.stdout + ran.stderr + worker.said()
        run_id = json.loads(ran.stdout)["run_id"]

        # Once more, what was good: a trial is carried out once, however often it is asked for.
        again = {"run_id": run_id, "case_id": "look", "trial": 1}
        client.lpush("agent.command", message(body=[[], again, {}]), message(body=[[], again, {}]))
        wait_until(lambda: not client.llen("agent.command"), "the queue is empty")
        assert fleet.status(run_id).executions == 1

        assert worker.process.poll() is None
        said = worker.said()
        assert said.count("dropped from a queue what is no message of ours") == len(bad)
        assert said.count("refused a message") == len(odd)
        assert said.count("dropped from a channel of all workers") >= 2
        assert CANARY not in said
        assert KEY not in said
        assert not mark.exists()
        assert fleet.broker.ledger.runs() == [run_id]
        client.close()
