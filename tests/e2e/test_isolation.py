"""Sessions kept apart, from the YAML file to the verdict: the real command, real sandboxes, real kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sessions.processes import processes_in, wait_until

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="nothing else has sandboxes and guards")


def report_of(directory: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((directory / "out/report.json").read_text())
    ((trial,),) = [case["trials"] for case in report["cases"]]
    assert isinstance(trial, dict)
    return trial


@linux_only
def test_a_confined_session_sees_neither_the_exam_nor_a_network(farm, write, requires_bubblewrap):
    exam = write(
        "exam.yaml",
        """\
name: Looks around
prompt: Look around
isolation: bubblewrap
network: false
script:
  - {tool: Bash, input: {command: "cat EXAM || echo no exam"}}
  - {tool: Bash, input: {command: "ls HOME/.bashrc HOME/.ssh || echo no home"}}
  - {tool: Bash, input: {command: "tail -n +3 /proc/net/dev | wc -l"}}
  - {tool: Bash, input: {command: "touch EXAM.new /usr/new || echo read-only"}}
  - {tool: Bash, input: {command: "echo mine > kept.txt; cat kept.txt"}}
  - {say: done}
assertions:
  - {type: file_contains, path: kept.txt, value: mine}
  - type: code_judge
    command: "cat EXAM || echo '{\\"score\\": 1}'"
""",
    )
    text = exam.read_text().replace("EXAM.new", f"{exam.parent}/new").replace("HOME", str(Path.home()))
    # The judge is the author's: it may look at a file by naming it. The agent may not.
    exam.write_text(text.replace("cat EXAM || echo '{", "cat /no/exam || echo '{").replace("EXAM", str(exam)))
    result = farm("run", exam, "--out", "out")

    trial = report_of(exam.parent)
    assert (result.returncode, trial["outcome"]) == (0, "passed"), result.stdout + result.stderr
    transcript = json.loads((exam.parent / "out" / trial["transcript"]).read_text())
    answers = [call["output"] for message in transcript["output_messages"] for call in message["tool_calls"]]
    assert [answer.splitlines()[0] for answer in answers] == ["no exam", "no home", "1", "read-only", "mine"]


@pytest.mark.parametrize("place", ["case", "agent", "farm.yaml"])
def test_what_was_asked_for_and_can_not_be_had_is_errored(farm, write, place):
    keys = {
        name: "isolation: process\nnetwork: false\n" if name == place else ""
        for name in ("case", "farm.yaml")
    }
    options = ", isolation: process, network: false" if place == "agent" else ""
    write("farm.yaml", f"{keys['farm.yaml']}agents: {{player: {{kind: scripted{options}}}}}\n")
    test = write(
        "test.yaml",
        f"{keys['case']}name: n\nprompt: p\nagent: player\nscript: [{{say: hello}}]\n"
        "assertions: [{type: contains, value: hello}]\n",
    )
    result = farm("run", test, "--out", "out")

    trial = report_of(test.parent)
    assert (result.returncode, trial["outcome"]) == (3, "errored"), result.stdout + result.stderr
    assert trial["error"]["kind"] == "sandbox_unavailable"
    assert "`network: false` needs a sandbox" in trial["error"]["message"]


@linux_only
@pytest.mark.parametrize("isolation", ["process", "auto"])
def test_nothing_of_a_session_survives_the_sigkill_of_the_farm(write, tmp_path, isolation):
    write(
        "test.yaml",
        f"isolation: {isolation}\n"
        """\
name: Never ends
prompt: p
script:
  - {tool: Bash, input: {command: "setsid setsid sleep 300 & echo > begun; sleep 300"}}
assertions: [{type: contains, value: hello}]
""",
    )
    tmp = tmp_path / "t"
    tmp.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "farm", "run", "test.yaml"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as farm:
        wait_until(lambda: bool(list(tmp.glob("farm-*/workspace/begun"))))
        assert len(processes_in(tmp)) >= 2
        farm.kill()
    wait_until(lambda: processes_in(tmp) == [])
    wait_until(lambda: list(tmp.glob("farm-*/workspace")) == [])
