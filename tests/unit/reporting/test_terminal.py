from __future__ import annotations

from typing import Any

from farm.model.messages import ToolCall
from farm.model.report import CaseReport, TrialReport
from farm.model.verdict import Verdict
from farm.reporting.summarize import summarize_case
from farm.reporting.terminal import (
    case_lines,
    results_line,
    safe,
    suite_results_line,
    suite_results_lines,
    tool_call_line,
    verdict_lines,
)
from tests.unit.builders import case, suite_report, trial, verdict


def failing(**fields: Any) -> Verdict:
    return verdict("failed", score=0.0, misses=("expected hello", "seen: bye"), **fields)


def report(*trials: TrialReport, **fields: Any) -> CaseReport:
    return summarize_case(case(trials={"count": len(trials) or 1}, **fields), trials, agent="a", model=None)


def test_a_verdict_is_a_tick_or_a_cross_with_the_reason_under_it():
    assert list(verdict_lines(verdict("passed", score=1.0))) == ["✓ contains"]
    assert list(verdict_lines(failing())) == ["✗ contains", "    expected hello", "    seen: bye"]
    errored = Verdict(name="cost", type="cost", outcome="errored", reasoning="no cost was recorded")
    assert list(verdict_lines(errored)) == ["! cost", "    no cost was recorded"]


def test_what_a_judge_thought_is_shown_to_who_asks_for_all_and_said_once():
    good = verdict("passed", reasoning="polite enough")
    assert list(verdict_lines(good)) == ["✓ contains"]
    assert list(verdict_lines(good, verbose=True)) == ["✓ contains", "    polite enough"]
    bad = verdict("failed", misses=("3 of 10: rude",), reasoning="rude")
    assert list(verdict_lines(bad, verbose=True)) == ["✗ contains", "    3 of 10: rude"]


def test_a_partial_score_and_an_advisory_verdict_say_so():
    assert list(verdict_lines(verdict("passed", score=0.85))) == ["✓ contains (score 0.85)"]
    assert next(verdict_lines(failing(required=False))) == "✗ contains (advisory)"


def test_a_case_shows_only_what_did_not_pass_unless_asked_for_more():
    done = trial("failed", verdicts=(verdict("passed"), failing(name="greets")))
    assert list(case_lines(report(done))) == [
        "✗ greeting  Greeting",
        "    ✗ greets",
        "        expected hello",
        "        seen: bye",
    ]
    assert "    ✓ contains" in list(case_lines(report(done), verbose=True))


def test_an_errored_case_shows_the_kind_of_error():
    done = trial("errored", error={"kind": "timeout", "message": "took longer than 5 s"})
    assert list(case_lines(report(done))) == ["! greeting  Greeting", "    timeout: took longer than 5 s"]


def test_a_skipped_case_shows_its_reason():
    assert list(case_lines(report(skip="needs a database"))) == ["- greeting  Greeting: needs a database"]


def test_a_flaky_case_shows_how_many_trials_passed():
    lines = list(case_lines(report(trial("passed", 1), trial("failed", 2, verdicts=(failing(),)))))
    assert lines[0] == "✗ greeting  Greeting (1/2 trials passed) flaky"
    assert lines[1] == "  trial 2"


def test_the_last_line_counts():
    assert results_line(3, 4, failed=1) == "Results: 3/4 passed, 1 failed"
    assert results_line(4, 4, failed=0, errored=0) == "Results: 4/4 passed"
    cases = [report(trial("passed")), report(trial("errored")), report(skip="x")]
    assert suite_results_line(suite_report(*cases)) == "Results: 1/3 passed, 1 errored, 1 skipped"


def test_what_a_run_cost_is_shown_and_judges_apart():
    paid = report(trial("passed", cost_usd=1.25, judge_cost_usd=0.03125, judge_input_tokens=7))
    shown = list(suite_results_lines(suite_report(paid)))
    assert shown == ["Results: 1/1 passed", "Cost: $1.2500 for agents, $0.0312 for judges"]
    free = suite_report(report(trial("passed", judge_cost_usd=0.5)))
    assert list(suite_results_lines(free))[1:] == ["Cost: $0.5000 for judges"]
    dear = suite_report(report(trial("passed", cost_usd=123.456)))
    assert list(suite_results_lines(dear))[1:] == ["Cost: $123.46"]
    assert list(suite_results_lines(suite_report(report(trial("passed")))))[1:] == []


def test_nothing_of_an_agent_reaches_the_terminal_as_a_command():
    hostile = "a\x1b[2Jb\x07c\u202ed\x00e\rf\x9bg\ud800h"
    shown = safe(hostile)
    assert shown == r"a\x1b[2Jb\x07c\u202ed\x00e\rf\x9bg\ud800h"
    assert safe("no\u2028other\u2029end") == "no\\u2028other\\u2029end"
    assert safe("two\nlines\tstay ✓ naïve") == "two\nlines\tstay ✓ naïve"
    name = next(verdict_lines(verdict("passed", name="\x1b]0;title\x07")))
    assert "\x1b" not in name
    assert "\x1b" not in "".join(case_lines(report(trial("failed", verdicts=(failing(reasoning="\x1b"),)))))


def test_a_long_line_is_cut_and_says_so():
    assert safe("x" * 10_000).endswith("… (10000 characters)")
    assert len(safe("x" * 10_000)) < 600


def test_a_tool_call_is_one_line():
    call = ToolCall(tool="Bash", input={"command": "cat <<E\nx\nE", "timeout": 5}, is_error=True)
    assert tool_call_line(call) == r"Bash(command='cat <<E\nx\nE', timeout=5) failed"
    assert "\n" not in tool_call_line(ToolCall(tool="X\nY", input={"a": "\x1b" * 500}))
    assert tool_call_line(ToolCall(tool="LS")) == "LS()"
    assert tool_call_line(ToolCall(tool="LS", parent_id="task-1")) == "subagent: LS()"


def test_why_there_were_earlier_attempts_is_told_of_what_is_told_of_at_all():
    earlier = ({"attempt": 1, "kind": "crashed", "message": "dead\x1b[2J"},)
    error = {"kind": "timeout", "message": "too long"}
    errored = report(trial("errored", attempt=2, earlier_errors=earlier, error=error))
    told = ["    attempt 1: crashed: dead\\x1b[2J", "    timeout: too long"]
    assert list(case_lines(errored))[1:] == told
    passed = report(trial("passed", attempt=2, earlier_errors=earlier))
    assert len(list(case_lines(passed))) == 1
    assert told[0] in case_lines(passed, verbose=True)
