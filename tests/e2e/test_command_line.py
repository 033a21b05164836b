"""What a user sees of the commands: what they print, where, and how they exit."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PASSING = """\
name: "Greets"
prompt: "Say hello"
tags: [polite]
script: [{say: "hello there"}]
assertions:
  - {type: contains, value: hello}
"""
FAILING = PASSING.replace('say: "hello there"', 'say: "go away"').replace("Greets", "Is rude")
CRASHING = PASSING.replace('{say: "hello there"}', '{crash: "the line went dead"}')


@pytest.fixture
def project(tmp_path, write):
    write("farm.yaml", "name: demo\n")
    write("tests/good.yaml", PASSING)
    return tmp_path


def test_a_run_prints_a_line_a_case_and_where_the_report_is(farm, project):
    done = farm("submit", "tests")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "✓ tests/good  Greets"
    assert lines[1] == "Results: 1/1 passed"
    report = Path(re.fullmatch(r"Report: (\.farm/runs/[\w-]+/report\.json)", lines[2])[1])  # type: ignore[index]
    assert json.loads((project / report).read_text())["totals"]["passed"] == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("other", "code", "line"),
    [
        (FAILING, 1, "Results: 1/2 passed, 1 failed"),
        (CRASHING, 3, "Results: 1/2 passed, 1 errored"),
        (PASSING + 'skip: "not today"\n', 0, "Results: 1/2 passed, 1 skipped"),
    ],
)
def test_the_exit_code_tells_failed_from_could_not_be_judged(farm, project, write, other, code, line):
    write("tests/other.yaml", other)
    done = farm("run", "tests")
    assert done.returncode == code
    assert line in done.stdout


def test_a_failure_and_an_error_together_exit_as_a_failure(farm, project, write):
    write("tests/bad.yaml", FAILING)
    write("tests/crash.yaml", CRASHING)
    assert farm("run", "tests").returncode == 1


def test_the_reason_stands_under_the_cross(farm, project, write):
    write("tests/bad.yaml", FAILING)
    lines = farm("run", "tests/bad.yaml").stdout.splitlines()
    assert lines[:4] == [
        "✗ tests/bad  Is rude",
        '    ✗ contains "hello"',
        '        does not contain "hello"',
        '        seen: "go away"',
    ]


def test_verbose_shows_tool_calls_and_every_verdict(farm, project, write):
    write("tests/tool.yaml", PASSING.replace("[{say", '[{tool: Bash, input: {command: "echo hi"}}, {say'))
    out = farm("run", "tests/tool.yaml", "-v").stdout
    assert "  · tests/tool: Bash(command='echo hi')" in out
    assert '    ✓ contains "hello"' in out


def test_json_is_the_report_and_nothing_else_on_standard_output(farm, project):
    done = farm("run", "tests", "--json", "-v")
    assert json.loads(done.stdout)["schema"] == "farm.report/1"
    assert "Report: " in done.stderr


def test_the_list_runs_nothing_and_names_what_is_not_a_test(farm, project, write):
    write("tests/compose.yaml", "services: {}\n")
    done = farm("run", "tests", "--list-tests")
    assert done.stdout == "tests/good\n"
    assert "not a test: tests/compose.yaml: it has none of the keys prompt" in done.stderr
    assert not (project / ".farm").exists()
    listed = json.loads(farm("run", "tests", "--list-tests", "--json").stdout)
    assert [case["id"] for case in listed["cases"]] == ["tests/good"]
    assert listed["skipped_files"][0]["file"] == "tests/compose.yaml"


def test_cases_are_picked_by_id_and_tag(farm, project, write):
    write("tests/bad.yaml", FAILING.replace("polite", "rude"))
    assert farm("run", "tests", "--case", "*good").returncode == 0
    assert farm("run", "tests", "--tag", "polite").returncode == 0
    assert farm("run", "tests", "--tag", "rude").returncode == 1
    none = farm("run", "tests", "--tag", "nope")
    assert (none.returncode, none.stderr) == (
        2,
        "farm: no case matches --tag nope; --list-tests shows what there is\n",
    )


def test_trials_are_repeated_as_often_as_asked(farm, project):
    done = farm("run", "tests", "--trials", "3", "--json")
    assert len(json.loads(done.stdout)["cases"][0]["trials"]) == 3


def test_a_kept_directory_is_named_and_others_are_gone(farm, project, write, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    write("tests/bad.yaml", FAILING)
    done = farm("run", "tests", "--keep", "failed", env={"TMPDIR": str(scratch)})
    kept = re.search(r"kept: (\S+) \(tests/bad\)", done.stderr)
    assert kept is not None
    assert [path.resolve() for path in scratch.iterdir()] == [Path(kept[1]).resolve()]


def test_a_time_out_is_errored_and_nothing_stays(farm, project, write):
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    steps = f"[{{tool: Bash, input: {{command: 'setsid sleep 300 # {mark}'}}}}, {{say: hello}}]"
    write("tests/slow.yaml", PASSING.replace('[{say: "hello there"}]', steps))
    done = farm("run", "tests/slow.yaml", "--timeout", "1")
    assert done.returncode == 3, done.stdout
    assert "timeout: " in done.stdout
    assert mark not in subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout


def test_an_agent_that_can_not_run_here_is_errored_never_failed(farm, project, write):
    write("tests/real.yaml", PASSING.replace('script: [{say: "hello there"}]\n', ""))
    done = farm("run", "tests/real.yaml", env={"FARM_CLAUDE_PATH": "/nonexistent/claude"})
    assert done.returncode == 3
    assert "agent_unavailable: " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: farm COMMAND …"),
        (["sumbit"], 'farm: unknown command "sumbit"; did you mean "submit"?'),
        (["run"], "farm: the following arguments are required: PATH; see farm run --help"),
        (["run", "nowhere"], "farm: nowhere: no such file or directory"),
        (["run", "tests", "--trials", "0"], "--trials: 0 is not a whole number from 1 to 1000"),
        (["run", "tests", "--timeout", "soon"], "--timeout: soon is not a number above 0"),
        (["run", "tests", "-w", "nowhere"], "nowhere is not a directory"),
        (["run", ""], "farm: argument PATH: is empty; see farm run --help"),
        (["run", "tests", "--agent", ""], "farm: argument --agent: is empty"),
        (["run", "tests", "--out", ""], "farm: argument --out: is empty"),
        (
            ["run", "tests", "--agent", "cluade"],
            'farm: --agent: unknown agent "cluade"; did you mean "claude"?',
        ),
        (["run", "tests", "--pattern", "*.nope"], "farm: no test found in tests matching *.nope"),
        (["check", "empty"], "farm: no test found in empty"),
        (["analyze", "tests/good.yaml", "nowhere.jsonl"], "nowhere.jsonl"),
        (["init"], "farm.yaml exists already; farm init overwrites nothing"),
    ],
)
def test_a_wrong_command_line_gives_one_clear_message_and_exits_with_2(farm, project, arguments, message):
    (project / "empty").mkdir()
    done = farm(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_broker_that_is_away_is_told_of_and_nothing_is_written(farm, project):
    done = farm("submit", "tests", "--wait", env={"FARM_BROKER_URL": "redis://127.0.0.1:1"})
    assert done.returncode == 3
    assert re.fullmatch(
        r"farm: the broker can't be reached \(is FARM_BROKER_URL right\?\): .*\n", done.stderr
    )
    assert not (project / ".farm").exists()


def test_all_problems_of_all_files_are_told_and_nothing_runs(farm, project, write):
    write("tests/typo.yaml", PASSING.replace("assertions", "asserts"))
    write("tests/tool.yaml", "name: x\nprompt: y\nassertions:\n  - tool: Raed\n")
    write("tests/broken.yaml", "name: [\n")
    for command in ("check", "run"):
        done = farm(command, "tests")
        assert done.returncode == 2
        assert done.stderr.splitlines() == [
            "tests/broken.yaml:2:1: not valid YAML: while parsing a flow node: did not find expected node content",
            'tests/tool.yaml:4:11: unknown tool "Raed"; did you mean "Read"?',
            'tests/typo.yaml:1:1: the key "assertions" is missing',
            'tests/typo.yaml:5:1: unknown key "asserts" in an assertion test; did you mean "assertions"?',
            "farm: 4 problems in 3 files; nothing was run",
        ]
        assert done.stdout == ""
    assert not (project / ".farm").exists()


def test_check_tells_of_scripted_apis_what_submitting_would(farm, project, write):
    apis = '  one: {kind: anthropic, api: "scripted:one.yaml"}\n  two: {kind: claude, api: "scripted:two.yaml"}\n'
    write("farm.yaml", f"network: false\nagents:\n{apis}")
    write("one.yaml", "turns: [{sy: hello}]\n")
    write("two.yaml", "turns: [{say: hello}]\n")
    for agent in ("one", "two"):
        write(f"tests/{agent}.yaml", f"name: x\nprompt: hi\nagent: {agent}\nassertions: [{{tool: Read}}]\n")
    checked = farm("check", "tests")
    assert checked.returncode == 2, checked
    assert checked.stderr.splitlines() == [
        'one.yaml:1:10: unknown key "sy" in a scenario; did you mean "say"?',
        "tests/two.yaml:1:1: `network: false` cuts a session off from `api: scripted:two.yaml`, too",
        "farm: 2 problems in 2 files; nothing was run",
    ]
    submitted = farm("submit", "tests/one.yaml")
    assert (submitted.returncode, submitted.stderr.splitlines()[0]) == (2, checked.stderr.splitlines()[0])


def test_check_says_what_it_checked(farm, project):
    assert farm("check", "tests").stdout == "✓ 1 case in 1 file: no problems\n"


def test_a_new_project_passes(farm, tmp_path):
    assert farm("init", "fresh").returncode == 0
    assert farm("check", "tests", cwd=tmp_path / "fresh").returncode == 0
    done = farm("submit", "tests/", cwd=tmp_path / "fresh")
    assert done.returncode == 0
    assert "Results: 3/3 passed" in done.stdout


def test_agents_are_listed_with_those_of_farm_yaml(farm, project, write):
    write("farm.yaml", "agents: {mine: {kind: scripted}}\n")
    done = farm("agents")
    assert done.returncode == 0
    assert re.search(r"^✓ mine +\(scripted\)$", done.stdout, re.MULTILINE)
    assert re.search(r"^✗ claude +", done.stdout, re.MULTILINE)
    rows = {row["name"]: row for row in json.loads(farm("agents", "--json").stdout)}
    assert rows["scripted"]["usable"]
    assert rows["mine"]["kind"] == "scripted"


def test_the_schema_is_json(farm):
    assert "$defs" in json.loads(farm("schema").stdout)


def test_the_version_is_told(farm):
    assert re.fullmatch(r"farm \d+\.\d+\.\d+\n", farm("--version").stdout)


def test_every_command_explains_itself(farm):
    listed = re.findall(r"^  (\w+) ", farm("--help").stdout, re.MULTILINE)
    for command in ("submit", "run", "schedule"):  # tests/unit/cli/test_main.py has them all
        assert command in listed
        done = farm(command, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"usage: farm {command}")


def test_output_is_plain_when_piped_and_coloured_on_a_terminal(farm, project):
    assert "\x1b" not in farm("run", "tests").stdout
    assert "\x1b[32m✓\x1b[0m" in farm("run", "tests", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b" not in farm("run", "tests", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout
    on_terminal = _on_a_terminal([sys.executable, "-m", "farm", "run", "tests"], project)
    assert "\x1b[32mResults: 1/1 passed\x1b[0m" in on_terminal


def _on_a_terminal(command: list[str], cwd: Path) -> str:
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(command, cwd=cwd, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # Linux says EIO when the other side is closed
        pass
    os.close(ours)
    assert process.wait(timeout=30) == 0
    return shown.decode()


def test_an_interrupted_run_exits_with_130_and_keeps_what_is_done(project, write):
    write("tests/slow.yaml", PASSING.replace('{say: "hello there"}', '{sleep: 60}, {say: "hello"}'))
    process = subprocess.Popen(
        [sys.executable, "-m", "farm", "run", "tests"], cwd=project, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "✓ tests/good  Greets\n"
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Results: 1/2 passed, 1 cancelled" in rest
    (report,) = (project / ".farm" / "runs").glob("*/report.json")
    assert json.loads(report.read_text())["state"] == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_kill_leaves_nothing_behind(project, write, tmp_path, number):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    steps = f"[{{tool: Bash, input: {{command: 'touch {scratch}/on; setsid sleep 300 # {mark}'}}}}]"
    write("tests/slow.yaml", PASSING.replace('[{say: "hello there"}]', steps))
    process = subprocess.Popen(
        [sys.executable, "-m", "farm", "run", "tests"],
        cwd=project,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        text=True,
    )
    while not (scratch / "on").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    shown, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    # Both run at the same time, and the other may have been as slow to start.
    assert re.search(r"Results: (1/2 passed, 1|0/2 passed, 2) cancelled", shown)
    assert mark not in subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    assert [path.name for path in scratch.iterdir()] == ["on"]


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("run tests > /dev/full", 3, "farm: can't write to standard output: No space left on device\n"),
        ("check tests > /dev/full", 3, "farm: can't write to standard output: No space left on device\n"),
        ("run --help > /dev/full", 3, "farm: can't write to standard output: No space left on device\n"),
        ("check nowhere 2> /dev/full", 2, ""),
        ("run tests >&-", 0, ""),
        ("run tests <&- >&- 2>&-", 0, ""),
    ],
)
def test_output_that_can_not_be_written_is_no_bug(project, command, code, told):
    shell = f"{sys.executable} -m farm {command}"
    done = subprocess.run(["bash", "-c", shell], cwd=project, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, told)


def test_a_reader_that_goes_away_is_no_error(project):
    shell = f"{sys.executable} -m farm schema | head -c 10; echo; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], cwd=project, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] in ("0", "141")


def test_help_and_check_import_nothing_that_they_do_not_need(project):
    heavy = {"celery", "kombu", "redis", "anthropic", "rich", "click", "jinja2", "jsonschema_rs", "asyncio"}
    rooms = {"farm.agents", "farm.evaluators", "farm.reporting", "farm.queue", "farm.sessions"}
    seldom = {"re2", "json", "difflib", "farm.authoring.eval_files", "farm.model.command_template"}
    for arguments, more in (
        (["--help"], {"pydantic", "yaml", "re2", "json"}),
        (["check", "tests/good.yaml"], rooms | seldom),
    ):
        program = (
            "import sys\n"
            "from farm.cli.main import main\n"
            "try: main(sys.argv[1:])\n"
            f"except SystemExit: print(sorted({heavy | more!r} & sys.modules.keys()))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=project,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "[]", arguments
