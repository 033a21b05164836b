"""What `farm schedule` and `farm beat` refuse, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.cli import beat, schedule
from farm.cli.options import Parser
from farm.errors import UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "farm.yaml").write_text(
        'name: shop\nschedules: {nightly: {cron: "30 2 * * *", timezone: Europe/Berlin, paths: [tests]}}\n'
    )
    monkeypatch.chdir(tmp_path)
    for name in ("FARM_BROKER_URL", "FARM_BROKER_URL_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["run"], "which schedule"),
        (["run", "nigthly"], 'no schedule "nigthly" in farm.yaml; did you mean "nightly"?'),
        (["run", "weekly"], "known are nightly"),
        (["run", "nightly", "--detach"], "set FARM_BROKER_URL"),
        (
            ["run", "nightly", "--at", "2026-01-01T02:31+01:00"],
            "before it, it came at 2026-01-01T02:30\\+01:00",
        ),
        (["run", "nightly", "--at", "2926-01-01T02:30+01:00"], "yet to come"),
        (["run", "nightly", "--at", "2026-01-01T02:30"], "in no time zone"),
        (["run", "nightly", "--at", "yesterday"], "yesterday is no time"),
        (["stop"], "invalid choice"),
    ],
)
def test_what_can_not_be_run_says_why(project: Path, arguments: list[str], why: str):
    parser = Parser(prog="farm schedule", description=None)
    schedule.add_arguments(parser)
    with pytest.raises(UsageError, match=why):
        schedule.run(parser.parse_intermixed_args(arguments))


def test_a_beat_needs_a_broker_and_schedules(project: Path, monkeypatch: pytest.MonkeyPatch):
    parser = Parser(prog="farm beat", description=None)
    beat.add_arguments(parser)
    with pytest.raises(UsageError, match="a beat needs a broker: set FARM_BROKER_URL"):
        beat.run(parser.parse_intermixed_args([]))
    monkeypatch.setenv("FARM_BROKER_URL", "redis://127.0.0.1:1/0")
    (project / "farm.yaml").write_text("name: shop\n")
    with pytest.raises(UsageError, match=r'farm.yaml has no "schedules"'):
        beat.run(parser.parse_intermixed_args([]))
