"""Markdown for a pull request: short enough, the worst first, and nothing an agent says is obeyed."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import example, given, settings
from markdown_it import MarkdownIt

from farm.model.report import CaseReport, SuiteReport, TrialReport
from farm.reporting.compare import Comparison, compare, standing_of
from farm.reporting.json import dump_report
from farm.reporting.markdown import code, dump_markdown, write_markdown
from farm.reporting.report_file import ReportFile
from farm.reporting.summarize import summarize_case
from tests.unit.builders import case, suite_report, trial, verdict
from tests.unit.reporting.hostile import hostile_report, hostile_text

GITHUB_TAKES = 65_536
PARSER = MarkdownIt("gfm-like", {"linkify": False})

PASSED = trial("passed", score=1.0)
FAILED = trial(
    "failed", score=0.0, output="go away", verdicts=(verdict("failed", name="greets", misses=("no hello",)),)
)
ERRORED = trial("errored", error={"kind": "timeout", "message": "too slow"})


def report(case_id: str, *trials: TrialReport, **fields: Any) -> CaseReport:
    about = case(id=case_id, name=case_id, trials={"count": len(trials) or 1, "policy": "any"}, **fields)
    return summarize_case(about, trials, agent="scripted", model=None)


def compared(before: SuiteReport, after: SuiteReport) -> Comparison:
    return compare(standing_of(before)[0], standing_of(after)[0])


BEFORE = suite_report(
    report("broke", PASSED),
    report("crashed", PASSED),
    report("gone", PASSED),
    report("mended", FAILED),
    report("old", FAILED),
    run_id="20251231-000000-abcdef",
)
AFTER = suite_report(
    report("added", FAILED),
    report("broke", FAILED),
    report("crashed", ERRORED),
    report("mended", PASSED),
    report("old", FAILED),
    report("wavers", PASSED, trial("failed", 2, score=0.0)),
    duration_ms=63_000.0,
)


def test_a_report_as_markdown_with_the_regressions_first():
    detail = "\n\n  ```text\n      ✗ greets\n          no hello\n      output:\n          go away\n  ```\n\n"
    assert dump_markdown(AFTER, compared(BEFORE, AFTER)).decode() == (
        "## ✗ `demo`: 2 of 6 passed, 3 failed, 1 errored, 1 flaky\n"
        "\n"
        "Compared with run `20251231-000000-abcdef`: 1 regressed, 1 missing, 1 inconclusive, 1 fixed, 2 new, "
        "1 still failing.\n"
        "\n"
        "### Regressed (2)\n"
        "\n"
        f"- `broke` passed → failed{detail}"
        "- `gone` missing: was passed\n"
        "\n"
        "### Failed (2)\n"
        "\n"
        f"- `added`, new{detail}"
        f"- `old`, was failed{detail}"
        "\n"
        "### Errored (1)\n"
        "\n"
        "- `crashed`, was passed\n\n  ```text\n      timeout: too slow\n  ```\n\n"
        "\n"
        "### Flaky (1)\n"
        "\n"
        "- `wavers`, 1 of 2 trials passed, flaky, new\n"
        "\n"
        "### Fixed (1)\n"
        "\n"
        "- `mended` failed → passed\n"
        "\n"
        "| cases | passed | failed | errored | flaky | score | duration |\n"
        "|---|---|---|---|---|---|---|\n"
        "| 6 | 2 | 3 | 1 | 1 | 0.30 | 1:03 |\n"
        "\n"
        "Run `20260101-000000-abcdef`; `report.json` has all of it.\n"
    )


def test_without_a_baseline_the_failures_come_first():
    text = dump_markdown(AFTER).decode()
    titles = [line for line in text.splitlines() if line.startswith("### ")]
    assert titles == ["### Failed (3)", "### Errored (1)", "### Flaky (1)"]
    assert "Compared" not in text


def test_a_good_run_is_short():
    text = dump_markdown(suite_report(report("a", PASSED), report("b", skip="x"))).decode()
    assert text.splitlines()[0] == "## ✓ `demo`: 1 of 2 passed, 1 skipped"
    assert "###" not in text


def test_what_it_cost_is_told_with_what_its_judges_cost():
    totals = suite_report().totals.model_copy(
        update={"cost_usd": 1.25, "input_tokens": 12_000, "output_tokens": 34, "judge_cost_usd": 0.5}
    )
    text = dump_markdown(suite_report(totals=totals)).decode()
    assert "| cases | cost | cost of judges | tokens |" in text
    assert "| 0 | $1.2500 | $0.5000 | 12,000 in, 34 out |" in text


@pytest.mark.parametrize(("count", "are_all_shown"), [(10, True), (300, True), (5_000, False)])
def test_it_always_fits_and_says_what_was_left_out(count, are_all_shown):
    long = trial("failed", output="`\n" * 5_000, verdicts=(verdict("failed", misses=("é" * 400,)),))
    cases = [report(f"case-{number:05}", long) for number in range(count)]
    text = dump_markdown(suite_report(*cases)).decode()
    assert len(text) < GITHUB_TAKES
    assert f"### Failed ({count})" in text
    shown = text.count("- `case-")
    if shown < count:
        assert f"{count - shown} more did not fit here; all are in `report.json` of this run." in text
    assert f"| {count} | {count} |" in text  # the figures come last, and are never left out
    assert (shown == count) == are_all_shown
    assert "éé" in text  # some details are there, however many cases failed


def test_regressions_have_room_before_failures():
    names = [f"case-{number:04}" for number in range(2_000)]
    long = trial("failed", output="word\n" * 2_000)
    before = suite_report(*(report(name, PASSED if name == names[-1] else FAILED) for name in names))
    after = suite_report(*(report(name, long) for name in names))
    text = dump_markdown(after, compared(before, after)).decode()
    assert text.index("`case-1999` passed → failed") < text.index("### Failed (1999)")
    assert "word" in text.split("### Failed")[0]


def test_a_report_that_lies_in_a_file_gives_the_same_bytes(tmp_path):
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(AFTER))
    target = BytesIO()
    write_markdown(ReportFile(path), target, compared(BEFORE, AFTER))
    assert target.getvalue() == dump_markdown(AFTER, compared(BEFORE, AFTER))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "`plain`"),
        ("a`b", "``a`b``"),
        ("`a``", "``` `a`` ```"),
        ("two\nlines", "`two lines`"),
        ("\u202e", r"`\u202e`"),
        ("  ", "(nothing)"),
        ("x" * 300, "`" + "x" * 200 + "…`"),
    ],
)
def test_a_code_span_can_not_be_closed_from_within(text, shown):
    assert code(text) == shown


@settings(max_examples=50, deadline=None)
@given(hostile_text)
@example("```\n</details>\n@octocat #1 <!-- [x](http://evil.example)")
@example("`|`\n| a |\n|---|\n")
def test_what_an_agent_says_is_nothing_but_text(text):
    suite = hostile_report(text)
    page = dump_markdown(suite, compared(hostile_report("x"), suite)).decode()
    assert len(page) < GITHUB_TAKES
    tokens = PARSER.parse(page)
    kinds = {token.type for token in tokens}
    assert not kinds & {
        "html_block",
        "code_block",
        "hr",
        "blockquote_open",
        "lheading_open",
        "ordered_list_open",
    }
    inline = [child for token in tokens for child in token.children or ()]
    # Outside of code spans there are only our own words.
    assert {child.type for child in inline} <= {"text", "code_inline", "softbreak"}
    spoken = "".join(child.content for child in inline if child.type == "text")
    assert not set(spoken) & set("@#<>[]\\`&~")
    assert spoken.isprintable()
    assert not any(char in page for char in "\x00\x1b\u202e\u2066\u200b\r")
    assert [token.markup for token in tokens if token.type == "heading_open"].count("##") == 1
