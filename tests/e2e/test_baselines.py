"""Runs beside earlier runs, as a nightly job and a pull request would have them; few submits, much looked at."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

import pytest
from lxml import etree

from farm.cli import main
from farm.queue.archive import REPORT
from farm.queue.broker import Broker
from farm.queue.server import private_server
from farm.reporting.json import dump_report
from tests.unit.builders import suite_report
from tests.unit.reporting.test_compare import report

CASE = """\
name: "{name}"
prompt: "Say hello"
tags: [{name}]
script: [{step}]
assertions:
  - {{type: contains, value: hello}}
  - {{type: file_exists, path: ours.xml, negate: true}}  # no report is for an agent to read
  - {{type: file_exists, path: night.json, negate: true}}
"""
SAYS_HELLO = '{say: "hello"}'
IS_RUDE = '{say: "go away @octocat"}'
CRASHES = '{crash: "the line went dead"}'
RUN = re.compile(r"\.farm/runs/(\S+)/report\.json")


@pytest.fixture
def project(tmp_path, write):
    write("farm.yaml", "name: demo\nisolation: process\nretries: 0\n")
    for name, step in {
        "broken": SAYS_HELLO,
        "crash": SAYS_HELLO,
        "gone": SAYS_HELLO,
        "mended": IS_RUDE,
    }.items():
        write(f"tests/{name}.yaml", CASE.format(name=name, step=step))
    return tmp_path


@dataclass(frozen=True)
class Done:
    """What came of a command."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def look(project, monkeypatch, capsys) -> Callable[..., Done]:
    """Give a function that carries out a command which only looks, in this process: that is cheaper."""
    monkeypatch.chdir(project)

    def carry_out(*arguments: str) -> Done:
        capsys.readouterr()
        code = main._guarded(lambda: main._run(list(arguments)))
        return Done(code, *capsys.readouterr())

    return carry_out


def await_another_second() -> None:
    """Runs are in order by the second that they began in."""
    time.sleep(1.01 - time.time() % 1)


def test_a_nightly_run_and_what_came_after_it(farm, look, project, write):
    # The first night: there is nothing to compare with, and what fails has not regressed.
    first = farm("run", "tests", "--baseline", "latest", "--fail-on", "regression", "--junit", "ours.xml")
    assert first.returncode == 0, first.stderr
    assert first.stderr == 'no earlier run of "demo" is complete, so there is nothing to compare with\n'
    night = RUN.search(first.stdout)[1]  # type: ignore[index]
    directory = project / ".farm/runs" / night
    assert (project / "ours.xml").read_bytes() == (directory / "junit.xml").read_bytes()
    assert etree.parse(directory / "junit.xml").getroot().get("failures") == "1"
    assert "### Failed (1)" in (directory / "report.md").read_text()
    assert not (directory / "comparison.json").exists()

    assert "no run is blessed" in look("bless", "--show").stderr
    blessed = look("bless", night)
    assert (blessed.returncode, blessed.stdout) == (
        0,
        f"run {night} is blessed for demo: 3 passed, 1 failed\n",
    )
    (shown,) = json.loads(look("bless", "--show", "--json").stdout)
    assert (shown["suite"], shown["run_id"]) == ("demo", night)

    # A pull request that breaks things.
    write("tests/broken.yaml", CASE.format(name="broken", step=IS_RUDE))
    write("tests/crash.yaml", CASE.format(name="crash", step=CRASHES))
    write("tests/mended.yaml", CASE.format(name="mended", step=SAYS_HELLO))
    write("tests/new.yaml", CASE.format(name="new", step=IS_RUDE))
    (project / "tests/gone.yaml").unlink()
    await_another_second()
    second = farm(
        "run",
        "tests",
        "--baseline",
        "blessed",
        "--fail-on",
        "regression",
        "--out",
        "out",
        "--junit",
        "ours.xml",
    )
    assert second.returncode == 1
    changes = [
        "✗ tests/broken  regressed: passed → failed",
        "✗ tests/gone  missing: was passed",
        "! tests/crash  inconclusive: passed → errored",
        "✓ tests/mended  fixed: failed → passed",
        "- tests/new  new: failed",
        f"Compared with {night}: 1 regressed, 1 missing, 1 inconclusive, 1 fixed, 1 new",
    ]
    assert second.stdout.splitlines()[-6:] == changes
    written = json.loads((project / "out/comparison.json").read_text())
    assert (written["before"]["run_id"], written["states"]["missing"]) == (night, 1)
    later = written["after"]["run_id"]
    page = (project / "out/report.md").read_text()
    assert page.index("### Regressed (2)") < page.index("### Failed (1)")
    assert "`tests/gone` missing: was passed" in page

    # Whoever watches it as well takes nothing away.
    watched = look("watch", later, "--out", "out")
    assert watched.returncode == 1
    assert (project / "out/report.md").read_text() == page
    assert json.loads((project / "out/comparison.json").read_text()) == written

    # The same afterwards; the run that was broken is named by its id, by its directory, and by its file.
    for name in (later, "out", "out/report.json"):
        again = look("compare", night, name)
        assert (again.returncode, again.stdout.splitlines()) == (1, changes)
    assert look("compare", "blessed", "out", "--format", "markdown").stdout == page
    assert json.loads(look("compare", night, later, "--format", "json").stdout) == written
    # A report that another program has laid out anew is still one.
    (project / "flat.json").write_text(json.dumps(json.loads((project / "out/report.json").read_text())))
    assert look("compare", "flat.json", later).returncode == 3  # what crashed both times
    assert look("compare", later, night).returncode == 1  # tests/new is missing there

    # A part of the suite: what is not selected is not missing.
    shutil.copyfile(directory / "report.json", project / "night.json")
    options = (
        "--junit",
        "ours.xml",
        "--baseline",
        "night.json",
        "--tag",
        "mended",
        "--fail-on",
        "regression",
    )
    await_another_second()
    part = farm("run", "tests", *options, "--json")
    assert part.returncode == 0
    assert json.loads(part.stdout)["totals"]["cases"] == 1
    assert part.stderr.endswith(f"Compared with {night}: 1 fixed, 3 not selected\n")

    rows = json.loads(look("history", "--json").stdout)
    assert [row["run_id"] for row in rows][1:] == [later, night]
    assert [row["pass_rate"] for row in rows] == [1.0, pytest.approx(1 / 3), 0.75]
    listed = look("history", "--limit", "2", "--suite", "demo").stdout.splitlines()
    assert len(listed) == 2
    assert re.fullmatch(rf"\S+ \S+  {later}  demo  33%   -  0:\d\d  1 passed, 2 failed, 1 errored", listed[1])
    flips = json.loads(look("history", "tests/mended", "--json").stdout)
    assert [(row["outcome"], row["flipped_from"]) for row in flips] == [
        ("passed", None),
        ("passed", "failed"),
        ("failed", None),
    ]
    assert (
        look("history", "tests/broken").stdout.splitlines()[0].endswith("  scripted  -  failed, was passed")
    )
    assert "no run of other is over" in look("history", "--suite", "other").stderr
    nothing = look("history", "tests/none")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert 'no run that is over has a case "tests/none"' in nothing.stderr

    # The latest is the one that has the cases, not the newest of another part.
    await_another_second()
    other = json.loads(farm("run", "tests", "--tag", "new", "--json").stdout)["run_id"]
    assert look("compare", "latest", other).stdout.endswith(
        f"Compared with {later}: 3 missing, 1 still failing\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "tests", "--baseline", "nowhere"], '"nowhere" is no report, and no run with one'),
        (["run", "tests", "--baseline", "tests"], "tests has no report.json"),
        (["run", "tests", "--baseline", "farm.yaml"], "farm.yaml: can't be read"),
        (
            ["run", "tests", "--baseline", "blessed"],
            'no run of "demo" is blessed; `farm bless RUN` does that',
        ),
        (["run", "tests", "--fail-on", "regression"], "--fail-on regression needs a --baseline"),
        (["run", "tests", "--junit", "no/such.xml"], "--junit: no is not a directory"),
        (["compare", "latest", "blessed"], '"blessed" can only stand for the first of the two runs'),
        (["compare", "a", "b"], '"b" is no report, and no run with one'),
        (["bless"], "say which run, or --show"),
    ],
)
def test_what_can_not_be_compared_is_told_before_anything_runs(look, project, arguments, message):
    done = look(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project / ".farm/runs").exists()


def test_a_team_shares_what_is_blessed_on_its_broker(look, project, monkeypatch):
    with private_server() as server:
        monkeypatch.setenv("FARM_BROKER_URL", server.broker_url)
        archive = Broker(server.broker_url).archive
        for run_id, outcome in (("20260101-000000-aaaaaa", "passed"), ("20260102-000000-bbbbbb", "failed")):
            done = suite_report(report("a", outcome), run_id=run_id)
            archive.write(run_id, REPORT, BytesIO(dump_report(done)))
        assert look("bless", "20260101-000000-aaaaaa").returncode == 0
        compared = look("compare", "blessed", "20260102-000000-bbbbbb")
        assert (compared.returncode, compared.stdout.splitlines()[0]) == (
            1,
            "✗ a  regressed: passed → failed",
        )
        assert look("history", "a").stdout.splitlines()[0].endswith("failed, was passed")
        queued = look("submit", "tests", "--baseline", "blessed")
        assert (queued.returncode, queued.stdout) == (2, "")
        assert "--baseline needs --wait" in queued.stderr
    assert not (project / ".farm").exists()
