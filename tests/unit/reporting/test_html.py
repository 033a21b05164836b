"""The page of a report: what it holds, and that nothing an agent wrote can leave its place in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
import zlib
from fnmatch import fnmatch
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from lxml import html

from farm.model.report import CaseReport, SuiteReport
from farm.reporting.html import embedding
from farm.reporting.html.page import render_page, write_page
from farm.reporting.json import dump_report
from farm.reporting.report_file import ReportFile
from farm.reporting.summarize import summarize_case
from tests.unit.builders import case, suite_report, trial, verdict
from tests.unit.reporting.hostile import hostile_report, hostile_text

REPOSITORY = Path(__file__).parents[3]


def one_case(case_id: str, outcome: str = "passed", **fields: Any) -> CaseReport:
    return summarize_case(case(id=case_id), [trial(outcome, **fields)], agent="scripted", model=None)


def page_beside(directory: Path, report: SuiteReport, **transcripts: bytes) -> bytes:
    """Give the page of a report that lies in a directory with some transcripts."""
    (directory / "transcripts").mkdir(exist_ok=True)
    for name, content in transcripts.items():
        (directory / "transcripts" / f"{name}.json").write_bytes(content)
    (directory / "report.json").write_bytes(dump_report(report))
    target = BytesIO()
    write_page(ReportFile(directory / "report.json"), target)
    return target.getvalue()


class Page:
    """What a browser finds in a page."""

    root: Any

    def __init__(self, data: bytes) -> None:
        root: Any = html.fromstring(data.decode())
        self.root = root
        scripts = root.xpath("//script")
        self.program = [script.text for script in scripts if script.get("type") is None]
        self.data = {script.get("id"): script.text for script in scripts if script.get("type")}
        self.run = json.loads(self.data["run"])
        self.rows = json.loads(self.data["rows"])

    def details(self, case_id: str) -> list[Any] | None:
        """Give a case and its transcripts, as the page unpacks them."""
        (row,) = (row for row in self.rows if row[0] == case_id)
        if row[-2] < 0:
            return None
        part = zlib.decompress(base64.b64decode(self.data[f"part-{row[-2]}"]))
        lines = part.decode().split("\n")
        return [json.loads(line) for line in lines[row[-1] : row[-1] + 1 + len(row[9])]]


@cache
def harmless_page() -> Page:
    return Page(render_page(hostile_report("x")))


def test_the_same_report_gives_the_same_bytes(tmp_path):
    report = suite_report(one_case("a"), one_case("b", "failed", transcript="transcripts/00001.json"))
    first = page_beside(tmp_path, report, **{"00001": b'{"final_text": "x"}\n'})
    assert page_beside(tmp_path, report) == first


@settings(max_examples=40, deadline=None)
@given(hostile_text)
@example("</script><script>alert(1)</script><!--<script>]]>\u2028\ud800\x00")
def test_no_text_leaves_the_element_that_it_is_in(text):
    report = hostile_report(text)
    found = Page(render_page(report))
    plain = harmless_page()
    assert [element.tag for element in found.root.iter()] == [element.tag for element in plain.root.iter()]
    assert found.program == plain.program
    # And all of it is there, as it was written: half characters only as far as report.json has them.
    written = json.loads(dump_report(report))
    assert found.run["suite"] == written["suite"]
    for shown in written["cases"]:
        details = found.details(shown["id"])
        assert details is not None
        assert details[0] == shown


def test_the_policy_lets_through_the_pages_own_style_and_script_and_nothing_else():
    page = Page(render_page(suite_report(one_case("a"))))
    (policy,) = page.root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    (style,) = page.root.xpath("//style/text()")
    (script,) = page.program
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_the_page_refers_to_nothing_elsewhere_and_reads_no_text_as_html():
    text = render_page(suite_report()).decode()
    assert not re.findall(r"https?:|//cdn|@import|url\(|\ssrc=", text)
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser", text
    )


def test_a_long_answer_is_cut_and_the_page_says_how_much_is_missing_and_where_it_is(tmp_path):
    long = "x" * 20_000_000
    told = {"output_messages": [{"role": "assistant", "content": f"begin{long}end"}], "final_text": long}
    report = suite_report(one_case("a", output=long, transcript="transcripts/00001.json"))
    data = page_beside(tmp_path, report, **{"00001": json.dumps(told).encode()})
    assert len(data) < 200_000
    details = Page(data).details("a")
    assert details is not None
    shown, transcript = details
    assert "all of it is in report.json" in shown["trials"][0]["output"]
    said = transcript["output_messages"][0]["content"]
    assert said.startswith("beginxxx")
    assert said.endswith("xxxend")
    assert "[… 19,983,624 characters are left out here; all of it is in transcripts/00001.json …]" in said


def test_a_long_session_loses_its_middle(tmp_path):
    messages = [{"role": "assistant", "content": f"{number} " + "x" * 1500} for number in range(9000)]
    report = suite_report(one_case("a", transcript="transcripts/00001.json"))
    data = page_beside(tmp_path, report, **{"00001": json.dumps({"output_messages": messages}).encode()})
    details = Page(data).details("a")
    assert details is not None
    shown = details[1]["output_messages"]
    assert len(shown) == 401
    assert (shown[0], shown[-1]) == (messages[0], messages[-1])
    assert "8,600 more are left out here" in shown[200]["content"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("transcripts/00001.json", b'{"cost": NaN,\n "x": -Infinity}', {"cost": None, "x": None}),
        ("transcripts/gone.json", b"", {"left_out": "the file is not there"}),
        ("../outside.json", b"", {"left_out": "the file is not there"}),
        ("/etc/hostname", b"", {"left_out": "the file is not there"}),
        ("transcripts/00001.json", b"NaN" + b"[" * 100_000, {"left_out": "it can not be read"}),
        (None, b"", None),
    ],
)
def test_a_transcript_that_can_not_be_shown_says_so(tmp_path, name, content, expected):
    (tmp_path / "outside.json").write_text('{"secret": 1}')
    directory = tmp_path / "run"
    directory.mkdir()
    page = Page(page_beside(directory, suite_report(one_case("a", transcript=name)), **{"00001": content}))
    details = page.details("a")
    assert details is not None
    assert details[1] == expected


def test_a_transcript_that_is_too_large_to_be_read_is_named_with_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "MAX_TRANSCRIPT_BYTES", 10)
    report = suite_report(one_case("a", transcript="transcripts/00001.json"))
    details = Page(page_beside(tmp_path, report, **{"00001": b'{"final_text": "hello"}'})).details("a")
    assert details is not None
    assert details[1] == {"left_out": "it has 23 bytes"}


def test_a_full_page_shows_what_failed_and_leaves_out_what_passed(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "_PART_BYTES", 1)
    monkeypatch.setattr(embedding, "MAX_PAGE_BYTES", 1)
    report = suite_report(
        one_case("a", transcript="transcripts/00001.json"),
        one_case("b", "failed", transcript="transcripts/00002.json"),
    )
    transcripts = {"00001": b'{"final_text": "good"}', "00002": b'{"final_text": "bad"}'}
    page = Page(page_beside(tmp_path, report, **transcripts))
    passed, failed = page.details("a"), page.details("b")
    assert passed is not None
    assert failed is not None
    assert failed[1] == {"final_text": "bad"}
    assert passed[1] == {"left_out": "the page is full"}
    monkeypatch.setattr(embedding, "_MAX_PAGE_BYTES_WITHOUT_TRANSCRIPTS", 1)
    page = Page(page_beside(tmp_path, report, **transcripts))
    assert page.details("a") is None
    assert page.details("b") == failed
    assert [row[0] for row in page.rows] == ["a", "b"]


def test_a_row_tells_the_first_thing_to_know():
    judged = verdict("failed", name="greets", misses=("no hello", "seen: bye"))
    advice = verdict("failed", name="polite", misses=("rude",), required=False)
    broken = {"kind": "timeout", "message": "took 9 s"}
    rows = Page(
        render_page(
            suite_report(
                one_case("a", "failed", verdicts=(advice, judged)),
                one_case("b", "errored", error=broken),
                one_case("c", cost_usd=0.5, input_tokens=3, output_tokens=4, duration_ms=10.0),
                summarize_case(case(id="d", skip="not now"), [], agent="scripted", model=None),
            )
        )
    ).rows
    assert [row[13] for row in rows] == ["greets: no hello", "timeout: took 9 s", "", "not now"]
    assert rows[2][10:13] == [10.0, 0.5, 7]


def test_what_the_page_is_made_of_is_installed_with_the_farm():
    data = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    patterns = data["tool"]["setuptools"]["package-data"]["farm"]
    files = [
        path
        for path in (REPOSITORY / "farm/reporting/html").iterdir()
        if path.suffix in (".html", ".css", ".js")
    ]
    assert files
    for path in files:
        assert any(fnmatch(str(path.relative_to(REPOSITORY / "farm")), pattern) for pattern in patterns), path
