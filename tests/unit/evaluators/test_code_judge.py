from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from farm.evaluators.base import EvaluationContext
from farm.model.messages import Message
from farm.model.verdict import Verdict
from tests.unit.evaluators.builders import a_case, call, session, verdict

KEYS = {
    "question",
    "expected_outcome",
    "expected_messages",
    "reference_answer",
    "candidate_answer",
    "output_messages",
    "input_messages",
    "input_files",
    "trace_summary",
    "workspace_path",
    "file_changes",
    "token_usage",
    "cost_usd",
    "duration_ms",
    "config",
}
ECHO = "import json, os, sys; print(json.dumps({'score': 1, 'details': {'seen': %s}}))"
PAYLOAD = "json.load(sys.stdin)"


def judged(code: str, context: EvaluationContext | None = None, **fields: Any) -> Verdict:
    """Judge by a Python program given as its source."""
    return verdict(context or session(), type="code_judge", command=[sys.executable, "-c", code], **fields)


def seen(expression: str, context: EvaluationContext | None = None, **fields: Any) -> Any:
    """Give what a judge sees when it evaluates a Python expression."""
    found = judged(ECHO % expression, context, **fields)
    assert found.outcome == "passed", found.reasoning
    assert found.details is not None
    return found.details["seen"]


@pytest.fixture
def suite(tmp_path):
    """A suite with a judge beside its test file."""
    files = {
        "suite/judges/score.py": "import json, lib; print(json.dumps({'score': lib.SCORE}))",
        "suite/judges/lib.py": "SCORE = 0.9",
        "suite/run.sh": "#!/bin/sh\necho '{\"score\": 1}'\n",
        "data/in.txt": "input",
        "data/out.txt": "output",
        "secret.txt": "not for judges",
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "suite/run.sh").chmod(0o755)
    return tmp_path


def test_the_programs_word_is_taken():
    answer = {"score": 0.85, "hits": ["h"], "misses": ["m"], "reasoning": "why", "details": {"k": [None]}}
    found = judged(f"print({json.dumps(answer)!r})")
    assert (found.outcome, found.score) == ("passed", 0.85)
    assert (found.hits, found.misses, found.reasoning, found.details) == (
        ("h",),
        ("m",),
        "why",
        {"k": [None]},
    )


@pytest.mark.parametrize(
    ("score", "outcome"), [(0, "failed"), (0.79, "failed"), (0.8, "passed"), (1, "passed")]
)
def test_it_passes_from_0_8(score, outcome):
    found = judged(f"print('{{\"score\": {score}}}')")
    assert (found.outcome, found.score) == (outcome, score)


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("", "printed no JSON"),
        ("hello", "printed no JSON"),
        ('{"score": 1} {"score": 1}', "printed no JSON"),
        ('{"score": NaN}', "printed no JSON"),
        ("[1]", "answer is wrong"),
        ("{}", "score: Field required"),
        ('{"score": 1.5}', "score: "),
        ('{"score": -1}', "score: "),
        ('{"score": "1"}', "score: "),
        ('{"score": true}', "score: "),
        ('{"score": null}', "score: "),
        ('{"score": 1, "hits": "h"}', "hits: "),
        ('{"score": 1, "misses": [1]}', "misses.0: "),
        ('{"score": 1, "details": []}', "details: "),
        ('{"score": 1, "reason": "x", "pass": true}', "reason: is not known; pass: is not known"),
    ],
)
def test_an_answer_of_another_form_is_errored(printed, words):
    found = judged(f"print({printed!r})")
    assert (found.outcome, found.score) == ("errored", None)
    assert found.reasoning is not None
    assert words in found.reasoning


def test_another_exit_code_than_0_is_errored_whatever_was_printed():
    found = judged("import sys; print('{\"score\": 1}'); sys.stderr.write('oh \\x1b no'); sys.exit(3)")
    assert found.outcome == "errored"
    assert found.reasoning == "the code judge ended with exit code 3; stderr: oh \\x1b no"


def test_a_judge_that_does_not_end_is_errored():
    found = judged("import time; time.sleep(60)", timeout_seconds=0.3)
    assert found.outcome == "errored"
    assert found.reasoning == "the code judge did not end within 0.3 s"


def test_a_program_that_does_not_exist_is_errored():
    found = verdict(session(), type="code_judge", command=["no-such-program-here"])
    assert found.outcome == "errored"
    assert "no-such-program-here" in (found.reasoning or "")


def test_stdin_has_exactly_the_keys_of_the_contract():
    payload = seen(PAYLOAD)
    assert payload.keys() == KEYS


def test_stdin_tells_of_the_case_and_the_session(tmp_path):
    case = a_case({"riskLevel": "High"}, expected_outcome="finds the risk")
    context = session(
        call("Read", file_path="a"),
        text="High",
        case=case,
        workspace=tmp_path,
        usage={"input_tokens": 5, "output_tokens": 2},
        cost_usd=0.25,
        duration_ms=12.5,
        workspace_changes={"added": ["x"]},
    )
    payload = seen(PAYLOAD, context, config={"depth": 3})
    assert payload["question"] == "Do it."
    assert payload["expected_outcome"] == "finds the risk"
    assert payload["reference_answer"] == '{"riskLevel":"High"}'
    assert payload["candidate_answer"] == "High"
    assert payload["config"] == {"depth": 3}
    assert payload["workspace_path"] == str(tmp_path)
    assert payload["file_changes"] == {"added": ["x"], "modified": [], "deleted": []}
    assert payload["trace_summary"] == {
        "event_count": 1,
        "tool_names": ["Read"],
        "tool_calls_by_name": {"Read": 1},
        "error_count": 0,
    }
    assert (payload["cost_usd"], payload["duration_ms"]) == (0.25, 12.5)
    usage = payload["token_usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (5, 2)
    [message] = payload["output_messages"]
    assert message["tool_calls"][0]["input"] == {"file_path": "a"}


def test_what_is_not_known_is_null():
    payload = seen(PAYLOAD, session(output_messages=None))
    unknown = [
        "output_messages",
        "trace_summary",
        "workspace_path",
        "file_changes",
        "token_usage",
        "cost_usd",
    ]
    assert [payload[key] for key in (*unknown, "duration_ms", "expected_outcome")] == [None] * 8


def test_text_that_has_no_utf_8_form_reaches_the_judge():
    context = session(call("Bash", command="\udcff"), text="a\ud800")
    assert seen("json.load(sys.stdin)['candidate_answer'] == 'a\\ud800'", context) is True


def test_a_megabyte_on_stdin_need_not_be_read():
    assert judged("print('{\"score\": 1}')", session(text="x" * 5_000_000)).outcome == "passed"


def test_it_runs_beside_the_test_file_in_a_copy_of_its_own_files(suite):
    fields = {"files": ["suite/judges/score.py", "suite/judges/lib.py"]}
    found = verdict(session(files=suite), type="code_judge", command=["python", "judges/score.py"], **fields)
    assert (found.outcome, found.score) == ("passed", 0.9), found.reasoning
    listing = "sorted(os.path.join(d, f) for d, _, fs in os.walk('..') for f in fs)"
    assert seen(listing, session(files=suite), **fields) == [
        "../suite/judges/lib.py",
        "../suite/judges/score.py",
    ]
    assert not str(seen("os.getcwd()", session(files=suite))).startswith(str(suite))


def test_what_a_judge_writes_stays_in_its_copy(suite):
    fields = {"files": ["suite/judges"]}
    assert seen("open('judges/lib.py', 'w').write('SCORE = 0')", session(files=suite), **fields) == 9
    assert (suite / "suite/judges/lib.py").read_text() == "SCORE = 0.9"
    where = seen("[os.getcwd(), os.environ['HOME'], os.environ['TMPDIR']]", session(files=suite), **fields)
    assert not any(Path(str(path)).exists() for path in where)


def test_a_string_is_for_the_shell_and_files_stay_executable(suite):
    fields = {"files": ["suite/run.sh"], "type": "code_judge"}
    assert verdict(session(files=suite), command="./run.sh | cat", **fields).outcome == "passed"
    assert verdict(session(files=suite), command=["./run.sh"], **fields).outcome == "passed"
    found = verdict(session(), type="code_judge", command='python3 -c \'print("{\\"score\\": 1}")\'')
    assert found.outcome == "passed", found.reasoning


def test_cwd_is_under_the_suite_root_and_beside_the_test_file_by_default(suite):
    context = session(files=suite)
    for cwd, name in ((None, "suite"), ("suite/judges", "judges"), (".", "files")):
        assert seen("os.path.basename(os.getcwd())", context, cwd=cwd) == name
    assert judged("pass", context, cwd="..").outcome == "errored"
    assert judged("pass", context, cwd="/tmp").outcome == "errored"


def test_the_cases_files_are_copied_in_and_named_by_absolute_path(suite):
    def message(role: str, name: str) -> Message:
        return Message(role=role, content=[{"type": "file", "value": name}, {"type": "text", "value": "t"}])

    case = a_case(
        input_messages=(message("user", "data/in.txt"), message("user", "data/in.txt")),
        expected_messages=(message("assistant", "data/out.txt"),),
    )
    context = session(files=suite, case=case)
    assert seen("[open(f).read() for f in json.load(sys.stdin)['input_files']]", context) == ["input"]
    assert seen("all(map(os.path.isabs, json.load(sys.stdin)['input_files']))", context) is True
    assert seen("open('../data/out.txt').read()", context) == "output"


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "suite/../../x", "missing.py"])
def test_a_file_outside_the_suite_or_missing_is_errored(suite, name):
    found = judged("pass", session(files=suite), files=[name])
    assert found.outcome == "errored"
    assert name in (found.reasoning or "")


def test_the_environment_is_an_allow_list(monkeypatch):
    monkeypatch.setenv("FARM_BROKER_URL", "redis://:secret@host")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    environment = seen("dict(os.environ)")
    assert {"PATH", "HOME", "TMPDIR", "LANG"} <= environment.keys()
    assert "secret" not in json.dumps(environment)
    assert environment["HOME"] not in (os.environ.get("HOME"), environment["TMPDIR"])


@pytest.mark.parametrize("program", ["python", "python3"])
def test_python_is_the_farms_own_interpreter(program):
    command = [program, "-c", "import json, sys; print(json.dumps({'score': 1, 'reasoning': sys.prefix}))"]
    assert verdict(session(), type="code_judge", command=command).reasoning == sys.prefix
