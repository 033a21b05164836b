"""What a terminal is told to show while a run goes on."""

from __future__ import annotations

import dataclasses
import io
import os
from collections import Counter

import pytest
from rich.text import Text

from farm.cli.live_view import Pace, Region, picture
from farm.cli.view import PlainView
from farm.model.job import CaseJob
from farm.queue.following import Update
from farm.queue.ledger import Running, RunStatus

WIDE = os.terminal_size((100, 30))


def status(**known: object) -> RunStatus:
    figures = {field.name: 0 for field in dataclasses.fields(RunStatus) if field.type in ("int", "float")}
    nothing = {field.name: None for field in dataclasses.fields(RunStatus)}
    running = {
        "run_id": "r",
        "state": "running",
        "total": 10,
        "executions": 1,
        "cancelled": False,
        "fields": {},
    }
    return RunStatus(**{**nothing, **figures, **running, **known})  # type: ignore[arg-type]


def running(case_id: str, note: str = "", trial: int = 1) -> Running:
    return Running(CaseJob(run_id="r", case_id=case_id, trial=trial), "worker", note, 0)


def shown(update: Update, size: os.terminal_size = WIDE, pace: Pace | None = None) -> list[str]:
    return [line.plain for line in picture(update, pace or Pace(), size, now=63.0)]


def test_running_sessions_stand_above_the_run_as_a_whole():
    sessions = (running("a", "Bash(command='ls')"), running("long/name", trial=2))
    update = Update(
        status(done=3, leased=2), running=lambda: sessions, outcomes=Counter({"passed": 2, "failed": 1})
    )
    first, second, last = shown(update)
    assert first[2:] == "a             1:03  Bash(command='ls')"
    assert second[2:] == "long/name #2  1:03"
    assert last.endswith(" 3/10 · 2 passed · 1 failed")
    assert last.count("━") * 7 // 3 == last.count("─")


def test_nothing_is_read_as_markup_and_no_control_character_gets_through():
    line, _ = shown(
        Update(status(leased=1), running=lambda: [running("[red]x\x1b[2J\n", "[/] \x07 :smile:")])
    )
    assert r"[red]x\x1b[2J" in line
    assert r"[/] \x07 :smile:" in line
    assert line.isprintable()


def test_more_sessions_than_fit_are_counted():
    sessions = tuple(running(f"case-{number}") for number in range(20))
    lines = shown(Update(status(leased=20), running=lambda: sessions))
    assert len(lines) == 10
    assert lines[-2] == "  … and 12 more"
    assert len(shown(Update(status(leased=20), running=lambda: sessions), os.terminal_size((20, 4)))) == 3


def test_a_narrow_terminal_gets_the_figures_and_no_bar():
    (line,) = shown(Update(status(done=5), outcomes=Counter({"passed": 5})), os.terminal_size((20, 10)))
    assert line == "5/10 · 5 passed"


@pytest.mark.parametrize(
    ("fields", "unserved", "word"),
    [
        ({"executions": 0}, (), "starting"),
        ({"executions": 0}, ("claude",), "waiting for a worker"),
        ({"state": "aggregating"}, (), "writing the report"),
        ({"state": "aggregating", "cancelled": True}, (), "cancelling"),
    ],
)
def test_a_run_that_is_not_under_way_says_why(fields, unserved, word):
    assert shown(Update(status(**fields), unserved=unserved))[-1].endswith(f" · {word}")


def test_a_service_that_is_busy_is_told_once(capsys):
    view = PlainView(verbose=False, quiet=True)
    for busy in ({}, {"claude:opus": 9100}, {"claude:opus": 7100}, {}):
        view.update(Update(status(), busy=busy))
    assert capsys.readouterr().err == "waiting: claude:opus is busy; sessions of it start again in 9 s\n"


def test_the_pace_is_that_of_late():
    pace = Pace()
    pace.note(100, 0.0)  # done before we came: of an earlier day, for all we know
    assert pace.per_second(5.0) is None
    pace.note(110, 10.0)
    assert pace.per_second(10.0) == 1.0
    assert pace.per_second(20.0) == 0.5
    pace.note(111, 100.0)
    assert pace.per_second(100.0) == pytest.approx(1 / 90)


class Screen(io.StringIO):
    """A stream without a terminal behind it, whose size COLUMNS and LINES tell."""


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "5")
    return Screen()


def test_lines_are_drawn_over_and_what_is_above_stays(screen):
    region = Region(screen)
    region.draw([Text("one"), Text("two")])
    region.draw([Text("three")], above="result\n")
    region.clear()
    hide, show = "\x1b[?25l", "\x1b[?25h"
    assert screen.getvalue() == f"{hide}one\ntwo{hide}\r\x1b[1A\x1b[Jresult\nthree\r\x1b[J{show}"


def test_lines_never_wrap_and_never_fill_the_screen(screen):
    Region(screen).draw([Text("x" * 50), *(Text("界" * 30) for _ in range(9))])
    lines = screen.getvalue().removeprefix("\x1b[?25l").split("\n")
    assert len(lines) == 4
    assert all(Text(line).cell_len < 20 for line in lines)


def test_a_terminal_that_became_narrower_has_wrapped_what_is_erased(screen, monkeypatch):
    region = Region(screen)
    region.draw([Text("x" * 19), Text("y")])
    monkeypatch.setenv("COLUMNS", "10")
    region.draw([Text("z")])
    assert screen.getvalue().endswith("\r\x1b[2A\x1b[Jz")
