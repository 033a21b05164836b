"""Text as a hostile agent would write it, and reports that are full of it."""

from __future__ import annotations

from hypothesis import strategies as st

from farm.model.report import CaseReport, SuiteReport
from farm.reporting.summarize import summarize_case
from tests.unit.builders import case, suite_report, trial, verdict

_WORDS = (
    "\x00", "\x08", "\x1b[31m", "\x1b]0;x\x07", "\r", "\r\n", "\n", "\n\n", "\t", "\x85", "\u2028", "\ufffe", "\uffff",
    "\ud800", "\udfff", "\u202e", "\u2066", "\u200b", "\U000e0041", "]]>", "<![CDATA[", "<!--", "-->", "<b>", "</testcase>",
    "<script>alert(1)</script>", "&amp;", "&#0;", "<?xml ?>", "`", "``", "```", "````````", "~~~", "|", "\\|", "@octocat",
    "#123", "GH-1", "[x](http://evil.example)", "![x](http://evil.example/x.png)", "http://evil.example", "- [ ] ", "# ",
    "> ", "***", "\n---\n", "</details>", "<!-- x -->", "$$x$$", ":tada:", "\\", "    ", '"', "'", "é", "✓", "x" * 600,
)  # fmt: skip

# Mostly what means something to somebody; sometimes anything at all.
hostile_text = st.lists(
    st.sampled_from(_WORDS) | st.text(st.characters(), max_size=5), min_size=1, max_size=12
).map("".join)


def hostile_report(text: str) -> SuiteReport:
    """A report in which an agent, or a case's author, has had a say wherever it can have one."""
    broken = {"kind": text, "message": text}
    earlier = ({"attempt": 1, "worker": text, **broken},)
    failed = trial(
        "failed", 1, output=text, verdicts=(verdict("failed", name=text, type=text, misses=(text, text)),)
    )
    judged = trial("errored", 1, output=text, verdicts=(verdict("errored", name=text, reasoning=text),))
    return suite_report(
        _case("a", text, failed),
        _case("b", text, trial("errored", 1, error=broken, attempt=2, earlier_errors=earlier)),
        _case("c", text, judged),
        _case(
            "d", text, trial("passed", 1, attempt=2, earlier_errors=earlier), trial("failed", 2, output=text)
        ),
        _case("e", text, skip=text),
        suite=text,
        run_id=text,
        started_at=text,
    )


def _case(case_id: str, text: str, *trials: object, **fields: object) -> CaseReport:
    about = case(
        id=f"{case_id}{text}",
        name=text,
        file=text,
        tags=(text,),
        trials={"count": len(trials) or 1},
        **fields,
    )
    return summarize_case(about, trials, agent=text, model=text)  # type: ignore[arg-type]
