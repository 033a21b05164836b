"""JUnit's XML: valid whatever an agent says, and true to what it says."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from lxml import etree

from farm.model.report import CaseReport, TrialReport
from farm.reporting.json import dump_report
from farm.reporting.junit import dump_junit, write_junit
from farm.reporting.report_file import ReportFile
from farm.reporting.summarize import summarize_case
from tests.unit.builders import case, suite_report, trial, verdict
from tests.unit.reporting.hostile import hostile_report, hostile_text

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit.xsd")))

FAILED = trial(
    "failed",
    output="go away",
    duration_ms=1500.0,
    verdicts=(
        verdict("failed", name='contains "hello"', misses=('does not contain "hello"', "seen: go away")),
    ),
)


def report(case_id: str, *trials: TrialReport, file: str = "tests/a.yaml", **fields: Any) -> CaseReport:
    about = case(id=case_id, name="Greets", file=file, trials={"count": len(trials) or 1}, **fields)
    return summarize_case(about, trials, agent="scripted", model=None)


def parse(data: bytes) -> etree._Element:
    root = etree.fromstring(data)
    SCHEMA.assertValid(root)
    return root


def test_a_report_as_junit():
    suite = suite_report(
        report("tests/bad", FAILED, file="tests/bad.yaml"),
        report(
            "tests/e::crash",
            trial("errored", error={"kind": "timeout", "message": "too slow"}),
            file="tests/e.yaml",
        ),
        report("tests/e::later", skip="not today", file="tests/e.yaml"),
    )
    assert dump_junit(suite).decode() == """\
<?xml version='1.0' encoding='UTF-8'?>
<testsuites name="demo" tests="3" failures="1" errors="1" time="1.500">
  <testsuite name="tests/bad.yaml" tests="1" failures="1" errors="0" time="1.500" skipped="0" timestamp="2026-01-01T00:00:00">
    <properties>
      <property name="run_id" value="20260101-000000-abcdef" />
      <property name="suite" value="demo" />
      <property name="state" value="complete" />
    </properties>
    <testcase classname="tests" name="bad" time="1.500">
      <failure message="contains &quot;hello&quot;: does not contain &quot;hello&quot;" type="contains">✗ tests/bad  Greets
    ✗ contains "hello"
        does not contain "hello"
        seen: go away
output of trial 1:
go away</failure>
      <system-out>id: tests/bad
title: Greets
agent: scripted</system-out>
    </testcase>
  </testsuite>
  <testsuite name="tests/e.yaml" tests="2" failures="0" errors="1" time="0.000" skipped="1" timestamp="2026-01-01T00:00:00">
    <properties>
      <property name="run_id" value="20260101-000000-abcdef" />
      <property name="suite" value="demo" />
      <property name="state" value="complete" />
    </properties>
    <testcase classname="tests/e" name="crash" time="0.000">
      <error message="timeout: too slow" type="timeout">! tests/e::crash  Greets
    timeout: too slow</error>
      <system-out>id: tests/e::crash
title: Greets
agent: scripted</system-out>
    </testcase>
    <testcase classname="tests/e" name="later" time="0.000">
      <skipped message="not today" />
      <system-out>id: tests/e::later
title: Greets
agent: scripted</system-out>
    </testcase>
  </testsuite>
</testsuites>
"""  # fmt: skip


def test_what_was_not_carried_out_is_an_error_and_no_pass():
    root = parse(dump_junit(suite_report(report("a", trial("cancelled")))))
    assert (root.get("errors"), root.get("failures")) == ("1", "0")
    assert root.xpath("//error/@type") == ["cancelled"]


def test_a_judge_that_broke_is_an_error_with_its_reason():
    broken = trial("errored", verdicts=(verdict("errored", type="code_judge", reasoning="no JSON"),))
    root = parse(dump_junit(suite_report(report("a", broken))))
    assert root.xpath("//error/@*") == ["contains: no JSON", "code_judge"]


def test_a_flaky_case_says_so():
    done = report("a", trial("passed", 1, cost_usd=0.25), trial("failed", 2, cost_usd=0.5))
    told = str(parse(dump_junit(suite_report(done))).findtext(".//system-out"))
    assert "trials: 1/2 passed, flaky" in told
    assert "cost_usd: 0.750000" in told


def test_a_case_that_passed_at_a_later_attempt_says_why_it_was_not_the_first():
    earlier = ({"attempt": 1, "kind": "crashed", "message": "the line went dead"},)
    done = report("tests/a", trial("passed", attempt=2, earlier_errors=earlier))
    told = str(parse(dump_junit(suite_report(done))).findtext(".//system-out"))
    assert "trial 1, attempt 1: crashed: the line went dead" in told


def test_cases_of_one_file_are_one_suite_wherever_they_stand():
    cases = [report(name, FAILED, file=file) for name, file in (("a", "x"), ("b", "y"), ("c", "x"))]
    suites = parse(dump_junit(suite_report(*cases))).findall("testsuite")
    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [("x", "2"), ("y", "1")]
    assert [element.get("name") for element in suites[0].findall("testcase")] == ["a", "c"]


def test_a_report_without_cases_is_valid():
    assert parse(dump_junit(suite_report())).get("tests") == "0"


def test_a_large_output_is_cut_and_says_where_all_of_it_is():
    large = trial("failed", output="word " * 100_000)
    data = dump_junit(suite_report(report("a", large)))
    assert len(data) < 200_000
    assert b"report.json has all" in data


def test_a_report_that_lies_in_a_file_gives_the_same_bytes(tmp_path):
    suite = suite_report(report("a", FAILED), report("b", FAILED, file="b"), report("c", skip="x"))
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(suite))
    target = BytesIO()
    write_junit(ReportFile(path), target)
    assert target.getvalue() == dump_junit(suite) == dump_junit(suite)


@settings(max_examples=60, deadline=None)
@given(hostile_text)
@example("]]>\x00\ud800\x1b[0m&#0;\r")
def test_no_text_of_an_agent_breaks_the_xml(text):
    suite = hostile_report(text)
    root = parse(dump_junit(suite))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["5", "2", "2"]
    assert len(root.findall(".//testcase")) == 5
    assert {element.tag for element in root.iter()} <= {
        "testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped", "system-out",
    }  # fmt: skip
