"""What the tools that our formats come from get wrong, and we must not: the part that shows in a whole run.

The part that shows in a single evaluator is in tests/unit/evaluators/test_bugs_of_the_origins.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import time

CASE = """\
name: "{name}"
prompt: "Say hello"
script: [{steps}]
assertions: [{{type: contains, value: hello}}]
"""


def test_agentv_a_quality_failure_does_not_exit_with_0(farm, write):
    write("tests/rude.yaml", CASE.format(name="rude", steps="{say: go away}"))
    assert farm("run", "tests").returncode == 1


def test_agentv_one_pass_and_one_crash_is_not_a_pass(farm, write):
    write("tests/good.yaml", CASE.format(name="good", steps="{say: hello}"))
    write("tests/crash.yaml", CASE.format(name="crash", steps="{crash: the line went dead}"))
    done = farm("run", "tests")
    assert done.returncode == 3
    assert "Results: 1/2 passed, 1 errored" in done.stdout


def test_promptfoo_no_case_is_dropped_for_a_typo(farm, write):
    write("tests/good.yaml", CASE.format(name="good", steps="{say: hello}"))
    write("tests/typo.yaml", CASE.format(name="typo", steps="{say: hello}").replace("assertions", "asserts"))
    done = farm("run", "tests")
    assert done.returncode == 2
    assert 'unknown key "asserts"' in done.stderr


def test_promptfoo_and_agentv_no_grandchild_survives_a_time_out(farm, write):
    mark = f"grandchild-{os.getpid()}-{time.monotonic_ns()}"
    daemon = f"setsid sh -c 'sleep 300 & sleep 300 # {mark}' & sleep 300"
    write(
        "tests/slow.yaml", CASE.format(name="slow", steps=f'{{tool: Bash, input: {{command: "{daemon}"}}}}')
    )
    done = farm("run", "tests", "--timeout", "1", "--json")
    assert json.loads(done.stdout)["cases"][0]["outcome"] == "errored"
    running = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert mark not in running


def test_agentv_keys_in_user_data_are_not_renamed(farm, write):
    echo = "import json, sys; p = json.load(sys.stdin); print(json.dumps({'score': 1, 'details': p}))"
    write(
        "tests/keys.eval.yaml",
        "tests:\n"
        "  - id: keys\n"
        "    input: x\n"
        "    expected_output: {riskLevel: High}\n"
        "    script: [{say: hello}]\n"
        f'    evaluators: [{{type: code_judge, command: [python3, -c, "{echo}"]}}]\n',
    )
    report = json.loads(farm("run", "tests", "--json").stdout)
    details = report["cases"][0]["trials"][0]["verdicts"][0]["details"]
    assert details["expected_messages"][0]["content"] == {"riskLevel": "High"}
