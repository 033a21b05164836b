"""What farm.yaml may say of schedules, and what it is told if it says something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from farm.errors import InputError
from farm.model.schedule import NotifySpec, ScheduleSpec
from farm.settings import Settings, load_settings

GOOD = """\
name: shop
agents: {fast: {kind: scripted}}
schedules:
  nightly:
    cron: "30 2 * * mon-fri"
    timezone: Europe/Berlin
    paths: [tests/]
    agent: fast
    trials: 3
    tags: [slow]
    max_cost_usd: 20
    baseline: blessed
    deadline_minutes: 90
    notify:
      - {on: [regression, overdue], webhook: "https://hooks.example/${TOKEN}"}
      - {command: ./tell.sh}
"""


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Settings]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()

    def read(text: str) -> Settings:
        (tmp_path / "farm.yaml").write_text(text)
        return load_settings(tmp_path)

    return read


def test_a_schedule_says_when_what_and_who_is_told(read):
    assert read(GOOD).schedules == {
        "nightly": ScheduleSpec(
            cron="30 2 * * mon-fri",
            timezone="Europe/Berlin",
            paths=("tests/",),
            agent="fast",
            trials=3,
            tags=("slow",),
            max_cost_usd=20,
            baseline="blessed",
            deadline_minutes=90,
            notify=(
                NotifySpec(on=("regression", "overdue"), webhook="https://hooks.example/${TOKEN}"),
                NotifySpec(command="./tell.sh"),
            ),
        )
    }


@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        ('"30 2 * * mon-fri"', '"30 25 * * *"', '5:11: hour "25": must be of numbers from 0 to 23, or "*"'),
        ('"30 2 * * mon-fri"', "daily", "5:11: \"daily\" is no cron line: write five fields"),
        ("Europe/Berlin", "Europe/Berlim", '6:15: unknown timezone "Europe/Berlim"; did you mean "Europe/Berlin"?'),
        ("Europe/Berlin", "../etc", '6:15: unknown timezone "../etc"; write it like Europe/Berlin'),
        ("Europe/Berlin", "Europe", '6:15: unknown timezone "Europe"'),
        ("[tests/]", "[tests/, gone/]", '7:21: there is no "gone/" beside farm.yaml'),
        ("[tests/]", "[]", '7:12: "paths" must not be empty'),
        ("    paths: [tests/]\n", "", '5:5: the key "paths" is missing'),
        ("agent: fast", "agent: fats", '8:12: unknown agent "fats"; did you mean "fast"?'),
        ("trials: 3", "trials: 0", '9:13: "trials" must be at least 1'),
        ("deadline_minutes: 90", "deadline: 90", '13:5: unknown key "deadline" in a schedule; did you mean "deadline_minutes"?'),
        ("[regression, overdue]", "[regresion]", '15:15: "on" must be'),
        ("[regression, overdue]", "[regresion]", 'did you mean "regression"?'),
        ("[regression, overdue]", "[]", '15:14: "on" must not be empty'),
        ('"https://hooks.example/${TOKEN}"', "ftp://secret", '15:46: "webhook" must begin with https:// or http://, or be a ${NAME}'),
        ("${TOKEN}", "${TOKEN", "15:46: a variable is written ${NAME}"),
        ("{command: ./tell.sh}", "{on: [errors]}", '16:9: give either "webhook" or "command"'),
        ("{command: ./tell.sh}", "{command: x, webhook: http://x}", '16:9: give either "webhook" or "command"'),
        ("name: shop\n", "", '2:1: schedules need a suite with a name'),
        ("nightly:", '"every night":', '4:3: "every night" is no name for a schedule'),
    ],
)  # fmt: skip
def test_every_mistake_is_told_with_its_place(read, written: str, instead: str, problem: str):
    assert written in GOOD
    with pytest.raises(InputError) as caught:
        read(GOOD.replace(written, instead))
    assert problem in str(caught.value), str(caught.value)
    assert len(caught.value.problems) == 1
    assert "secret" not in str(caught.value)


def test_schedules_must_be_a_mapping(read):
    with pytest.raises(InputError, match=r'farm.yaml:2:12: "schedules" must be a mapping of names'):
        read("name: shop\nschedules: [nightly]\n")
