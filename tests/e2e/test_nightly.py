"""Real beats, a real worker and a real webhook: a night that was missed is caught up with, once."""

from __future__ import annotations

import json
import signal
import sys
from datetime import UTC, datetime, timedelta

from farm.queue.notices import Notices
from farm.queue.schedules import find_schedule
from tests.e2e.fleet import Fleet, open_fleet, start, wait_until
from tests.webhook import open_receiver

CASE = """\
evalcases:
  - {id: greets, input: go, agent: scripted, script: [{say: hello}], evaluators: [{type: contains, value: hello}]}
  - {id: sulks, input: go, agent: scripted, script: [{say: bye}], evaluators: [{type: contains, value: hello}]}
"""


def start_celery_beat(fleet: Fleet) -> None:
    """Start a beat as users of Celery do."""
    command = (sys.executable, "-m", "celery", "-A", "workers.app", "beat", "--loglevel", "info")
    fleet.others.append(start(*command, log=fleet.root / "celery.log", env=fleet.env, cwd=fleet.project))


def write_project(fleet: Fleet) -> None:
    """Write a project whose nightly was due ten minutes ago, while no beat was there."""
    due = datetime.now(UTC) - timedelta(minutes=10)
    fleet.write("tests/talk.yaml", CASE)
    fleet.write(
        "farm.yaml",
        f'name: shop\nschedules: {{nightly: {{cron: "{due.minute} {due.hour} * * *", paths: [tests], '
        'notify: [{on: [failure, regression], webhook: "${HOOK}"}]}}\n',
    )


def test_beats_catch_up_with_a_night_once_and_tell_of_it():
    with open_receiver() as receiver, open_fleet(HOOK=receiver.url) as fleet:
        write_project(fleet)
        lacking = fleet.farm("beat")
        assert (lacking.returncode, "a beat needs a broker: set FARM_BROKER_URL" in lacking.stderr) == (
            2,
            True,
        )
        fleet.start_server()
        fleet.start_worker()
        schedule, _ = find_schedule(fleet.project, "nightly")
        now = datetime.now(UTC)
        Notices(fleet.broker.client).watched_since(schedule.definition, now - timedelta(hours=1))
        start_celery_beat(fleet)
        beat = fleet.start_farm("beat", "--pidfile", "beat.pid", "--max-interval", "1", log="beat.log")
        wait_until(lambda: receiver.told or beat.poll() is not None, "the webhook is told")
        run_id = schedule.run_id(schedule.last(now))
        assert receiver.events() == [(run_id[:8], "failure")], fleet.logs()
        told = receiver.told[0]
        assert (told["run_id"], told["state"], told["totals"]["failed"]) == (run_id, "complete", 1)

        asked = fleet.farm("schedule", "run", "nightly", "--wait", "--json")
        assert asked.returncode == 1, asked.stderr
        assert json.loads(asked.stdout)["schedule"] == "nightly"
        wait_until(lambda: len(receiver.told) == 2, "it is told of once, by the command or a beat")
        (row,) = json.loads(fleet.farm("schedule", "list", "--json").stdout)
        assert (row["name"], row["totals"]["passed"]) == ("nightly", 1)
        assert row["run_id"] == receiver.told[1]["run_id"]

        assert beat.poll() is None
        celery_log = (fleet.root / "celery.log").read_text()
        assert "schedules -> nightly" in celery_log
        assert "nightly: " in celery_log.partition("beat: Starting")[2]
        assert len(fleet.broker.ledger.runs()) == 2
        assert receiver.url not in fleet.logs()
        beat.send_signal(signal.SIGTERM)
        assert beat.wait(30) == 0, fleet.logs()
        assert not (fleet.project / "beat.pid").exists()


def test_without_a_broker_a_schedule_runs_here_and_is_told_of():
    with open_receiver() as receiver, open_fleet(HOOK=receiver.url) as fleet:
        write_project(fleet)
        ran = fleet.farm("schedule", "run", "nightly")
        assert (ran.returncode, receiver.events()[0][1]) == (1, "failure"), ran.stderr
