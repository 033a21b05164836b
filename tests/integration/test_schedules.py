"""Nights that come and go by a clock of the test's own: what is submitted, and who is told of what."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from farm.errors import FarmError
from farm.queue import delivery
from farm.queue.broker import Broker
from farm.queue.carry_out import WorkPlace, carry_out
from farm.queue.collect import aggregate
from farm.queue.schedules import Schedule, load_scheduled, submit_scheduled
from farm.queue.server import Server
from farm.queue.timekeeper import Timekeeper
from farm.settings import load_settings
from tests.webhook import Receiver, open_receiver

BERLIN = ZoneInfo("Europe/Berlin")


class Inline:
    """Does in the foreground what a beat does in the background."""

    def start(self, key: str, job: Callable[[], None]) -> None:
        job()


class Nights:
    """A project, its broker, a clock, and beats that look at it."""

    def __init__(self, root: Path, place: WorkPlace, receiver: Receiver) -> None:
        self.root = root
        self.place = place
        self.broker = place.broker
        self.receiver = receiver
        self.suite = f"suite-{secrets.token_hex(4)}"  # the server is shared by many tests
        self.now = datetime(2026, 3, 20, 12, tzinfo=BERLIN).astimezone(UTC)
        self.submitted: list[str] = []
        (root / "tests").mkdir()
        self.write_case()
        self.write_farm_file()

    def write_case(self, said: str = "hello", **more: str) -> None:
        for name, text in {"greets": said, **more}.items():
            script = f"[{text}]" if text.startswith("{") else f"[{{say: {text}}}]"
            (self.root / "tests" / f"{name}.yaml").write_text(
                f"evalcases: [{{id: x, input: go, agent: scripted, script: {script}, "
                "evaluators: [{type: contains, value: hello}]}]\n"
            )

    def write_farm_file(self, schedule: str = "", notify: str = "") -> None:
        notify = notify or 'webhook: "${HOOK}"'
        (self.root / "farm.yaml").write_text(
            f"name: {self.suite}\nretries: 0\nschedules:\n  nightly:\n"
            f'    cron: "30 2 * * *"\n    timezone: Europe/Berlin\n    paths: [tests/]\n    {schedule}\n'
            f"    notify: [{{{notify}}}]\n"
        )

    def beat(self, root: Path | None = None) -> Timekeeper:
        return Timekeeper(
            root or self.root,
            self.broker,
            self._submit,
            background=Inline(),
            clock=lambda: self.now,
            environment={"HOOK": self.receiver.url, "PATH": "/usr/bin:/bin", "FARM_BROKER_URL": "a secret"},
        )

    def _submit(self, schedule: Schedule, occurrence: datetime) -> None:
        settings = load_settings(self.root)
        suite = load_scheduled(schedule, settings)
        run_id = schedule.run_id(occurrence)
        if submit_scheduled(
            schedule, settings, suite, self.broker, run_id, now=self.now, occurrence=occurrence
        ):
            self.submitted.append(run_id)

    def carry_out(self) -> None:
        """Do what workers do, until nothing of this suite is left to be done."""
        ledger = self.broker.ledger
        for run_id in self.submitted:
            deadline = time.monotonic() + 60
            while (status := ledger.status(run_id)) and status.state == "running":
                assert time.monotonic() < deadline
                for job in [*ledger.due(run_id), *ledger.waiting(run_id)]:
                    carry_out(job, self.place)
            aggregate(run_id, self.broker)

    def sleep(self, *beats: Timekeeper, until: str, every: timedelta = timedelta(minutes=37)) -> None:
        """Let time pass to a time of day in Berlin, with beats that look now and then."""
        hour, minute = map(int, until.split(":"))
        end = self.now.astimezone(BERLIN).replace(hour=hour, minute=minute)
        end = (end if end > self.now else end + timedelta(days=1)).astimezone(UTC)
        while self.now < end:
            self.now = min(self.now + every, end)
            for beat in beats:
                beat.look()

    def night(self, *beats: Timekeeper) -> None:
        """Let a night and a morning pass, with workers that do their work."""
        self.sleep(*beats, until="03:10")
        self.carry_out()
        self.sleep(*beats, until="12:00", every=timedelta(hours=3))

    def days(self) -> list[str]:
        """The days in Berlin that have runs."""
        moments = (
            datetime.strptime(run_id[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC) for run_id in self.submitted
        )
        return [f"{moment.astimezone(BERLIN):%m-%d %H:%M}" for moment in moments]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with open_receiver() as running:
        yield running


@pytest.fixture
def broker(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One with a store: what is over is found there, too."""
    connected = Broker(server.broker_url, tmp_path_factory.mktemp("store").as_uri())
    yield connected
    connected.client.close()


@pytest.fixture
def nights(tmp_path: Path, place: WorkPlace, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(delivery, "_PAUSES_SECONDS", (0.01, 0.01))
    return Nights(tmp_path, place, receiver)


def test_a_fortnight_has_one_run_each_night_and_an_alert_where_one_belongs(nights: Nights):
    told = nights.receiver.events
    one, two = nights.beat(), nights.beat()
    one.look()
    two.look()
    assert nights.submitted == []  # last night was before there was a beat
    for _ in range(2):
        nights.night(one, two)
    assert told() == []  # all is well, which is no news

    nights.write_case("bye")
    nights.night(one, two)
    assert told() == [("20260323", "regression")]
    nights.night(one, two)  # no worse than it was
    nights.write_case("hello")
    nights.night(one, two)
    assert told()[1:] == [("20260325", "recovery")]

    nights.now += timedelta(days=2, hours=6)  # both were down; the second night is caught up with
    one, two = nights.beat(), nights.beat()
    one.look()
    two.look()
    assert nights.days()[5:] == ["03-27 02:30"]
    nights.carry_out()
    nights.night(one)
    nights.night(two)  # the clock is put forward: there is no 02:30
    assert nights.days()[6:] == ["03-28 02:30", "03-29 03:00"]

    nights.sleep(one, two, until="06:25")  # no worker is there
    assert told()[2:] == []
    nights.sleep(one, two, until="12:00")
    assert told()[2:] == [("20260330", "overdue")]
    three = nights.beat()  # one that was restarted knows what the others knew
    three.look()
    nights.carry_out()
    three.look()
    assert told()[3:] == []

    nights.now = datetime(2026, 10, 22, 12, tzinfo=BERLIN).astimezone(UTC)
    for key in nights.broker.client.scan_iter(match="farm:watched:*"):
        nights.broker.client.delete(key)  # as it is after a fortnight without a beat
    one, two = nights.beat(), nights.beat()
    for _ in range(5):
        one.look()
        nights.night(one, two)  # the clock is put back: there is 02:30 twice
    assert nights.days()[9:] == [f"10-{day} 02:30" for day in range(23, 28)]
    assert max(Counter(nights.submitted).values()) == 1
    assert told()[3:] == []


def test_beats_that_look_at_the_same_moment_submit_and_tell_once(nights: Nights):
    beats = [nights.beat() for _ in range(4)]
    for beat in beats:
        beat.look()

    def look_at_once() -> None:
        barrier = threading.Barrier(len(beats))
        threads = [threading.Thread(target=lambda beat=beat: (barrier.wait(), beat.look())) for beat in beats]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    nights.write_case("{crash: no}")
    nights.now += timedelta(hours=15)
    look_at_once()
    assert len(nights.submitted) == 1
    nights.carry_out()
    look_at_once()
    assert nights.receiver.events() == [("20260321", "errors")]


def test_what_is_told_has_all_that_people_want_to_know(nights: Nights):
    beat = nights.beat()
    beat.look()
    nights.night(beat)
    nights.write_case("bye", crashes="{crash: no}")
    nights.night(beat)
    errors, regression = nights.receiver.told
    assert (regression["event"], errors["event"]) == ("regression", "errors")
    assert regression["schema"] == "farm.notification/1"
    assert regression["regressed"] == ["tests/greets::x"]
    assert (regression["totals"]["failed"], regression["totals"]["errored"]) == (1, 1)
    assert (regression["baseline"], regression["run_id"]) == (nights.submitted[0], nights.submitted[1])
    assert regression["scheduled_for"] == "2026-03-22T01:30:00+00:00"
    assert regression["report"].endswith(f"/runs/{nights.submitted[1]}/report.json")
    start = f"{nights.suite}, nightly: worse than before · tests/greets::x · 1 failed, 1 errored · run "
    assert regression["text"].startswith(start)
    assert errors["reason"] == "cases errored: 1"


def test_a_webhook_that_fails_is_tried_again_and_its_secret_is_in_no_log(nights: Nights, caplog):
    caplog.set_level(logging.DEBUG)
    beat = nights.beat()
    beat.look()
    nights.write_case("{crash: no}")
    nights.receiver.status = 503
    nights.night(beat)
    assert nights.receiver.told == []
    nights.receiver.status = 200
    nights.sleep(beat, until="20:00")
    assert nights.receiver.events() == [("20260321", "errors")]
    assert "webhook ${HOOK}: it answers with status 503" in caplog.text
    assert "secret-of-the-hook" not in caplog.text


def test_what_can_not_be_submitted_is_told_and_the_next_night_is_fine(nights: Nights, caplog):
    beat = nights.beat()
    beat.look()
    (nights.root / "tests" / "greets.yaml").write_text("evalcases: [{id: x, inptu: <!channel> @here}]\n")
    nights.sleep(beat, until="03:10", every=timedelta(minutes=5))
    assert nights.submitted == []
    (told,) = nights.receiver.told
    assert (told["event"], told["state"]) == ("errors", "not_submitted")
    assert 'unknown key "inptu"' in told["reason"]
    assert told["scheduled_for"] == "2026-03-21T01:30:00+00:00"
    nights.write_case()
    nights.night(beat)
    assert nights.days() == ["03-22 02:30"]


def test_a_farm_file_that_is_wrong_for_a_while_leaves_the_schedules_as_they_were(nights: Nights, caplog):
    beat = nights.beat()
    beat.look()
    good = (nights.root / "farm.yaml").read_text()
    (nights.root / "farm.yaml").write_text(good.replace("30 2", "61 2"))
    nights.night(beat)  # nothing runs by a file that is wrong, but somebody hears of it
    assert caplog.text.count("the schedules stay as they were (1): farm.yaml:5:11: minute") == 1
    assert (nights.submitted, nights.receiver.events()) == ([], [("20260321", "errors")])
    (nights.root / "farm.yaml").write_text(good.replace("30 2", "45 2"))
    beat.look()  # 02:45 of today is over, but was not missed
    assert nights.submitted == []
    nights.night(beat)
    assert nights.days() == ["03-22 02:45"]


def test_a_broker_that_forgot_everything_runs_no_old_night_again(nights: Nights):
    beat = nights.beat()
    beat.look()
    nights.sleep(beat, until="03:10")
    client = nights.broker.client
    (lost,) = nights.submitted
    keys = [*client.scan_iter(match=f"farm:*{lost}*"), *client.scan_iter(match="farm:watched:*")]
    client.delete(*keys)
    nights.sleep(beat, until="12:00")
    (told,) = nights.receiver.told
    assert (told["state"], told["reason"]) == ("lost", "the broker has lost it before it was over")
    nights.beat().look()
    assert nights.submitted == [lost]


def test_a_run_of_which_only_the_report_is_left_is_not_run_again(nights: Nights):
    beat = nights.beat()
    beat.look()
    nights.night(beat)
    (run_id,) = nights.submitted
    nights.broker.ledger.forget(run_id)
    nights.beat().look()
    assert nights.submitted == [run_id]


def test_a_night_that_was_missed_for_too_long_is_told_of_and_not_run(nights: Nights):
    nights.write_farm_file()
    weekly = (nights.root / "farm.yaml").read_text().replace("30 2 * * *", "30 2 * * sun")
    (nights.root / "farm.yaml").write_text(weekly)
    nights.beat().look()  # on a Friday
    nights.now += timedelta(days=4)
    for _ in range(2):
        nights.beat().look()
    assert nights.submitted == []
    (told,) = nights.receiver.told
    assert "missed: no beat was running at 2026-03-22T01:30+00:00" in told["reason"]


def test_a_command_gets_json_and_no_secret_of_the_farm(nights: Nights):
    nights.write_farm_file(notify='on: [failure, errors], command: "cat > told.json; env > environment"')
    nights.write_case("bye")
    beat = nights.beat()
    beat.look()
    nights.night(beat)
    assert json.loads((nights.root / "told.json").read_text())["event"] == "failure"
    environment = (nights.root / "environment").read_text()
    assert "PATH=" in environment
    assert "FARM_BROKER_URL" not in environment


def test_a_blessed_run_that_is_not_there_is_told_of(nights: Nights):
    nights.write_farm_file(schedule="baseline: blessed")
    beat = nights.beat()
    beat.look()
    nights.night(beat)
    (told,) = nights.receiver.told
    assert (told["event"], told["state"]) == ("errors", "complete")
    assert "is blessed; `farm bless RUN` does that" in told["reason"]


def test_a_submission_that_fails_once_is_tried_again_and_nobody_is_told(nights: Nights):
    beat = nights.beat()
    beat.look()
    real, failures = beat._submit, iter([FarmError("the checkout is in flux")])

    def submit(schedule: Schedule, occurrence: datetime) -> None:
        for failure in failures:
            raise failure
        real(schedule, occurrence)

    beat._submit = submit
    nights.sleep(beat, until="03:10", every=timedelta(minutes=5))
    nights.carry_out()
    nights.sleep(beat, until="12:00", every=timedelta(hours=3))
    assert (nights.days(), nights.receiver.told) == (["03-21 02:30"], [])


def test_a_report_that_can_not_be_read_is_told_of_once_it_is_late(nights: Nights, caplog):
    beat = nights.beat()
    beat.look()
    nights.sleep(beat, until="02:40")
    nights.carry_out()
    assert nights.broker.store_url is not None
    (report,) = Path(nights.broker.store_url.removeprefix("file://")).glob("runs/*/report.json")
    report.unlink()
    nights.sleep(beat, until="06:00", every=timedelta(minutes=20))
    assert nights.receiver.told == []  # the store may come back
    nights.sleep(beat, until="12:00", every=timedelta(minutes=20))
    (told,) = nights.receiver.told
    assert "its report can't be read: run " in told["reason"]
    assert caplog.text.count("its report can't be read: run ") == 2


def test_a_beat_with_another_farm_file_leaves_notices_to_those_who_know_their_targets(nights: Nights):
    beat = nights.beat()
    beat.look()
    nights.write_case("{crash: no}")
    nights.sleep(beat, until="02:40")
    nights.carry_out()
    nights.receiver.status = 503
    beat.look()
    nights.receiver.status = 200
    good = (nights.root / "farm.yaml").read_text()
    (nights.root / "farm.yaml").write_text(good.replace("${HOOK}", "${OTHER}"))
    nights.sleep(nights.beat(), until="02:50", every=timedelta(minutes=1))
    assert nights.receiver.told == []
    (nights.root / "farm.yaml").write_text(good)
    nights.sleep(nights.beat(), until="06:00")
    assert nights.receiver.events() == [("20260321", "errors")]


def test_a_beat_with_another_farm_file_takes_no_notice_from_one_that_could_deliver_it(nights: Nights):
    good = nights.beat()
    good.look()
    others = nights.root / "other"
    (others / "tests").mkdir(parents=True)
    (others / "farm.yaml").write_text((nights.root / "farm.yaml").read_text().replace("${HOOK}", "${OTHER}"))
    # Its looks come just before the other's: what it put off, it would be the first to see again.
    other = nights.beat(others)
    nights.write_case("{crash: no}")
    nights.night(good)
    nights.receiver.told.clear()
    nights.receiver.status = 503
    nights.sleep(good, until="02:40")
    nights.carry_out()
    good.look()
    nights.receiver.status = 200
    nights.sleep(other, good, until="12:00", every=timedelta(seconds=30))
    assert nights.receiver.events() == [("20260322", "errors")]


def test_a_case_that_nobody_could_judge_last_night_and_that_fails_now_is_told_of(nights: Nights):
    beat = nights.beat()
    beat.look()
    for said in ("hello", "{crash: no}", "bye", "bye"):
        nights.write_case(said)
        nights.night(beat)
    assert nights.receiver.events() == [("20260322", "errors"), ("20260323", "errors")]
    assert nights.receiver.told[1]["reason"] == "cases that fail, and were not judged in the baseline: 1"
