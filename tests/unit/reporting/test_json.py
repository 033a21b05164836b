from __future__ import annotations

import json
from typing import Any

import pytest

from farm.errors import FarmError
from farm.model.report import SuiteReport
from farm.reporting.json import dump_report, is_report_file, parse_report, read_head
from farm.reporting.summarize import summarize_case
from tests.unit.builders import case, suite_report, trial, verdict


def report(**fields: Any) -> SuiteReport:
    done = trial("failed", verdicts=(verdict("failed", score=0.0, misses=("no hello",)),), **fields)
    return suite_report(summarize_case(case(tags=("a",)), [done], agent="scripted", model="m"))


def test_the_report_has_the_shape_that_others_build_on():
    data = json.loads(dump_report(report()))
    assert data["schema"] == "farm.report/1"
    assert {"run_id", "suite", "state", "started_at", "finished_at", "duration_ms"} <= data.keys()
    assert data["totals"].keys() >= {
        "cases", "passed", "failed", "errored", "skipped", "flaky",
        "score", "cost_usd", "input_tokens", "output_tokens",
    }  # fmt: skip
    assert data["engine"].keys() == {"workers", "executions", "retries", "duplicate_executions"}
    (one,) = data["cases"]
    assert one.keys() >= {
        "id", "name", "file", "tags", "agent", "model", "outcome", "flaky", "score", "trials",
    }  # fmt: skip
    (only,) = one["trials"]
    assert only.keys() >= {
        "trial", "attempt", "outcome", "score", "verdicts", "error", "duration_ms", "cost_usd",
        "input_tokens", "output_tokens", "trace_summary", "output", "workspace_changes", "transcript", "worker",
    }  # fmt: skip
    assert only["verdicts"][0].keys() >= {
        "name", "type", "outcome", "score", "weight", "hits", "misses", "reasoning", "details",
    }  # fmt: skip


def test_the_report_is_snake_case_throughout():
    trace = {"event_count": 1, "tool_names": ["Read"], "tool_calls_by_name": {"Read": 1}, "error_count": 0}
    data = json.loads(dump_report(report(trace_summary=trace)))
    assert data["cases"][0]["trials"][0]["trace_summary"] == trace


def test_the_same_results_give_the_same_bytes():
    assert dump_report(report()) == dump_report(report())


def test_a_report_can_be_read_back():
    assert parse_report(dump_report(report(output="naïve ✓"))) == report(output="naïve ✓")


def test_half_a_character_of_an_agent_does_not_break_the_report():
    assert b"before" in dump_report(report(output="before \ud800 after"))


def test_another_file_is_no_report():
    with pytest.raises(FarmError, match="not a report"):
        parse_report(b'{"schema": "something.else/1"}')


@pytest.mark.parametrize("data", [b"garbage", b"\xff", b"[" * 100_000, b'{"schema": "farm.report/1"}'])
def test_what_can_not_be_read_is_told_in_one_sentence(data):
    with pytest.raises(FarmError, match=r"^mine: can't be read: is it of another version of the farm\?$"):
        parse_report(data, "mine")


def test_json_that_is_no_object_is_no_report():
    with pytest.raises(FarmError, match="not a report"):
        parse_report(b"[]")


@pytest.mark.parametrize("read", [read_head, is_report_file])
def test_a_file_that_can_not_be_opened_is_told_in_one_sentence(tmp_path, read):
    with pytest.raises(FarmError, match=r"can't be read: Is a directory$"):
        read(tmp_path)
