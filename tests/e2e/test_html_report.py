"""report.html in a real browser: what people do with it, and that nothing an agent wrote runs in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, expect

from farm.reporting.formats import write_beside
from farm.reporting.json import dump_report
from farm.reporting.summarize import summarize_case
from tests.e2e.conftest import Farm
from tests.unit.builders import case, suite_report, trial, verdict

HOSTILE = (
    "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"
    "<!--<script>]]> \u2028 \u202e gnp.exe \x1b[31mred\x1b[0m [x](javascript:window.pwned=3)"
)
SUITE = {
    "farm.yaml": "workspace: workspace\nagent: scripted\n",
    "workspace/notes.txt": "one\ntwo\nthree\n",
    "tests/good.yaml": (
        "name: Good\nprompt: Say hello\ntags: [smoke]\nscript: [{say: hello}]\n"
        "assertions: [{type: contains, value: hello}]\n"
    ),
    "tests/edits.yaml": json.dumps(
        {
            "name": "Edits",
            "prompt": "Make two of it <b>bold</b>",
            "tags": ["files"],
            "script": [
                {"tool": "Read", "input": {"file_path": "notes.txt"}},
                {
                    "tool": "Edit",
                    "input": {"file_path": "notes.txt", "old_string": "two", "new_string": "<i>2</i>"},
                },
                {"tool": "Read", "input": {"file_path": "missing.txt"}},
                {"say": "done"},
            ],
            "assertions": [{"type": "contains", "value": "finished"}, {"tool": "Read", "called": True}],
        }
    ),
    "tests/hostile.yaml": json.dumps(
        {
            "name": "Hostile",
            "prompt": HOSTILE,
            "tags": ["<b>tag</b>"],
            "script": [
                {
                    "tool": "Write",
                    "input": {"file_path": "x<img src=x onerror=alert(1)>", "content": HOSTILE},
                },
                {"say": HOSTILE},
            ],
            "assertions": [{"type": "equals", "value": HOSTILE + "?"}],
        }
    ),
    "tests/crash.yaml": (
        "name: Crash\nprompt: Go\nscript: [{crash: the line went dead}]\nassertions: [{tool: Read}]\n"
    ),
}


@dataclass
class Watched:
    """A page, and all that it did beside showing itself."""

    page: Page
    noises: list[str] = field(default_factory=list)


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """Open a tab in which nothing goes unnoticed."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    watched = Watched(context.new_page())
    page, noises = watched.page, watched.noises

    def dismiss(dialog: Dialog) -> None:
        noises.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def check(request: Request) -> None:
        if not request.url.startswith("file://"):
            noises.append(f"request: {request.url}")

    page.on("console", lambda message: noises.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: noises.append(f"error: {error}"))
    page.on("dialog", dismiss)
    page.on("request", check)
    yield watched
    context.close()
    assert noises == []


def test_a_team_finds_what_failed_and_why(farm: Farm, write, tmp_path, watched):
    for name, text in SUITE.items():
        write(name, text)
    done = farm("submit", "tests", "--out", "out", "--retries", "0")
    assert "Results: 1/4 passed, 2 failed, 1 errored" in done.stdout, done.stderr
    page = watched.page
    page.goto(f"file://{tmp_path}/out/report.html")

    # The overview, failures first.
    expect(page.locator("h1")).to_have_text("1 of 4 passed")
    names = page.locator(".rows .name")
    expect(names).to_have_text(["tests/edits", "tests/hostile", "tests/crash", "tests/good"])
    expect(page.locator(".rows .about").nth(0)).to_contain_text("finished")

    # Search, filters and sorting; the view is in the address.
    page.keyboard.press("/")
    page.keyboard.type("CRASH dead")
    expect(names).to_have_text(["tests/crash"])
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_role("button", name="failed").click()
    expect(names).to_have_text(["tests/edits", "tests/hostile"])
    page.get_by_label("Tag").select_option("files")
    expect(names).to_have_text(["tests/edits"])
    assert "outcome=failed" in page.url
    assert "tag=files" in page.url
    page.reload()
    expect(names).to_have_text(["tests/edits"])
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_role("columnheader", name="Case").get_by_role("button").click()
    expect(names).to_have_text(["tests/crash", "tests/edits", "tests/good", "tests/hostile"])
    page.get_by_role("columnheader", name="Case").get_by_role("button").click()
    expect(names).to_have_text(["tests/hostile", "tests/good", "tests/edits", "tests/crash"])
    page.get_by_label("File").select_option("tests/good.yaml")
    expect(names).to_have_text(["tests/good"])

    # A case, by its link: verdicts, the conversation with its calls, the diff.
    page.goto(f"file://{tmp_path}/out/report.html#case=tests/edits")
    opened = page.locator("#case")
    expect(opened.get_by_role("heading", level=2)).to_have_text("tests/edits")
    expect(opened.locator(".verdict.failed .miss").first).to_contain_text("finished")
    expect(opened.locator(".message.user")).to_contain_text("Make two of it <b>bold</b>")
    calls = opened.locator(".call")
    expect(calls).to_have_count(3)
    expect(calls.nth(2)).to_contain_text("error")
    calls.nth(0).locator("summary").click()
    expect(calls.nth(0)).to_contain_text("three")
    expect(opened.locator(".diff .removed")).to_contain_text("two")
    expect(opened.locator(".diff .added")).to_contain_text("<i>2</i>")

    # On to the next with the keyboard, and back.
    page.keyboard.press("j")
    expect(opened.get_by_role("heading", level=2)).to_have_text("tests/hostile")
    page.get_by_role("button", name="Open all tool calls").click()
    said = opened.locator(".conversation")
    expect(said).to_contain_text("<script>window.pwned = 1</script>")
    for escape in ("\\x1b", "\\u{202e}", "\\u{2028}"):
        expect(said.locator(".escape", has_text=escape).first).to_be_visible()
    expect(opened.locator(".file-changes")).to_contain_text("x<img src=x onerror=alert(1)>")
    page.keyboard.press("j")
    expect(opened.locator(".error-box")).to_contain_text("the line went dead")
    page.keyboard.press("Escape")
    expect(opened).to_be_hidden()
    expect(page.locator(".rows .name:focus")).to_have_text("tests/crash")
    assert page.evaluate("window.pwned") is None


def many_cases(directory: Path, count: int) -> Path:
    """Write the report of a run of many cases; give its page."""
    reports = []
    for number in range(count):
        outcome = "failed" if number % 10 == 0 else "passed"
        judged = verdict(
            outcome, score=float(outcome == "passed"), misses=("no hello",) * (outcome == "failed")
        )
        trials = [trial(outcome, verdicts=(judged,), duration_ms=float(number), output=f"answer {number}")]
        reports.append(
            summarize_case(case(id=f"many::case-{number:04}"), trials, agent="scripted", model=None)
        )
    path = directory / "report.json"
    path.write_bytes(dump_report(suite_report(*reports)))
    write_beside(path)
    return directory / "report.html"


def test_of_two_thousand_cases_only_those_that_can_be_seen_are_drawn(tmp_path, watched):
    page = watched.page
    page.goto(f"file://{many_cases(tmp_path, 2000)}")
    rows = page.locator(".rows .row")
    expect(page.locator(".count")).to_have_text("2,000 cases")
    assert 0 < rows.count() < 60
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(page.locator(".rows .name").last).to_have_text("many::case-1999")
    assert rows.count() < 60
    page.locator("#search").fill("case-1234")
    expect(page.locator(".rows .name")).to_have_text(["many::case-1234"])
    page.goto(f"file://{tmp_path}/report.html#many%3A%3Acase-1990")
    expect(page.locator("#case")).to_contain_text("answer 1990")
    assert rows.count() < 60


def test_why_a_trial_was_attempted_more_than_once_and_where_its_logs_are_is_told_in_its_case(
    tmp_path, watched
):
    earlier = (
        {"attempt": 1, "kind": "crashed", "message": HOSTILE, "worker": HOSTILE, "duration_ms": 1500.0},
        {"attempt": 2, "kind": "worker_lost", "message": "its worker was lost"},
    )
    logs = ("transcripts/00001.stream.jsonl", "https://evil.example/x.jsonl", "../x.jsonl")
    done = trial("passed", attempt=3, earlier_errors=earlier, logs=logs)
    path = tmp_path / "report.json"
    path.write_bytes(dump_report(suite_report(summarize_case(case(), [done], agent="a", model=None))))
    write_beside(path)
    page = watched.page
    page.goto(f"file://{tmp_path}/report.html#case=greeting")
    boxes = page.locator(".earlier .error-box")
    expect(boxes).to_have_count(2)
    expect(boxes.nth(0)).to_contain_text("Attempt 1")
    expect(boxes.nth(0)).to_contain_text("<script>window.pwned = 1</script>")
    expect(boxes.nth(0)).to_contain_text("1.5 s")
    expect(boxes.nth(1)).to_contain_text("its worker was lost")
    expect(page.locator("#case .source a")).to_have_text([logs[0]])  # nothing but what lies beside the page
    assert page.evaluate("window.pwned") is None


def test_colours_follow_the_system_until_somebody_chooses(tmp_path, watched):
    page = watched.page
    page.goto(f"file://{many_cases(tmp_path, 3)}")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    assert dark != light
    switch = page.locator("#theme")
    switch.click()
    expect(switch).to_have_attribute("aria-label", "Colours: light")
    assert page.evaluate(ground) == light
    page.keyboard.press("d")
    page.emulate_media(color_scheme="light")
    assert page.evaluate(ground) == dark
    page.reload()
    assert page.evaluate(ground) == dark


def test_a_narrow_screen_shows_the_list_or_the_case_and_nothing_runs_over(tmp_path, watched):
    page = watched.page
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(f"file://{many_cases(tmp_path, 30)}")
    width = "document.documentElement.scrollWidth"
    assert page.evaluate(width) == 400
    page.locator(".rows .name").first.click()
    expect(page.locator("#case h2")).to_be_visible()
    expect(page.locator("#cases")).to_be_hidden()
    assert page.evaluate(width) == 400
    page.get_by_role("link", name="All cases").click()
    expect(page.locator("#cases")).to_be_visible()


def test_on_paper_every_case_has_its_row(tmp_path, watched):
    page = watched.page
    page.goto(f"file://{many_cases(tmp_path, 80)}")
    count = "document.querySelectorAll('.rows .row').length"
    page.evaluate(f"window.addEventListener('beforeprint', () => {{ window.printed = {count}; }})")
    page.pdf()
    assert page.evaluate("window.printed") == 80
    assert page.evaluate(count) < 60
