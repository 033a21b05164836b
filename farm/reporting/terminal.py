"""Turn results into lines for people: a tick or a cross each, with the reason under it.

Everything that came from an agent is hostile: no control character of it reaches the terminal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from textwrap import indent

from farm.model.messages import ToolCall
from farm.model.patterns import text_of
from farm.model.report import CaseReport, SuiteReport, Totals, TrialReport
from farm.model.verdict import Outcome, Verdict

Paint = Callable[[str, str], str]

_MARKS: dict[Outcome, tuple[str, str]] = {
    "passed": ("✓", "green"),
    "failed": ("✗", "red"),
    "errored": ("!", "yellow"),
    "skipped": ("-", "cyan"),
    "cancelled": ("-", "magenta"),
}
# Controls, those among them that turn the direction of text, halves of characters and what is none; and what
# some take for the end of a line.
_HARMFUL = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_MAX_LINE = 500


def plain(text: str, _color: str) -> str:
    """Paint nothing."""
    return text


def safe(text: str) -> str:
    """Show control characters instead of obeying them; lines stay lines."""
    return "\n".join(_safe_line(line) for line in text.split("\n"))


def safe_line(text: str) -> str:
    """Show a text of whatever lines as one."""
    return safe(text).replace("\n", " ")


def _safe_line(line: str) -> str:
    if not line.isprintable():
        line = "".join(char if _harmless(char) else _escape(char) for char in line)
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}… ({len(line)} characters)"


def _harmless(char: str) -> bool:
    return char == "\t" or unicodedata.category(char) not in _HARMFUL


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode()


def tool_call_line(call: ToolCall) -> str:
    """Show one tool call in a line."""
    arguments = text_of(call.input) if call.input else ""
    if isinstance(call.input, dict):
        arguments = ", ".join(
            f"{key}={value!r}" if isinstance(value, str) else f"{key}={text_of(value)}"
            for key, value in call.input.items()
        )
    shown = arguments if len(arguments) <= 120 else arguments[:120] + "…"
    by = "subagent: " if call.parent_id is not None else ""
    return safe_line(f"{by}{call.tool}({shown})" + (" failed" if call.is_error else ""))


def verdict_lines(verdict: Verdict, paint: Paint = plain, *, verbose: bool = False) -> Iterator[str]:
    """Show one verdict: its mark, and under it why it did not pass (and what a judge thought, if verbose)."""
    mark, color = _MARKS[verdict.outcome]
    advisory = "" if verdict.required else " (advisory)"
    score = "" if verdict.score in (None, 0.0, 1.0) else f" (score {verdict.score:.2f})"
    yield f"{paint(mark, color)} {safe(verdict.name)}{score}{advisory}"
    reasons = list(verdict.misses) if verdict.outcome != "passed" else []
    thought = verdict.reasoning
    if thought and (verbose or (verdict.outcome != "passed" and not reasons)):
        reasons += [] if any(thought in reason for reason in reasons) else [thought]
    for reason in reasons:
        yield indent(safe(reason), "    ")


def case_lines(case: CaseReport, paint: Paint = plain, *, verbose: bool = False) -> Iterator[str]:
    """Show one case: its mark, and under it what did not pass (everything, if verbose)."""
    mark, color = _MARKS[case.outcome]
    name = "" if case.name in case.id else f"  {case.name}"
    passed = sum(trial.outcome == "passed" for trial in case.trials)
    trials = f" ({passed}/{len(case.trials)} trials passed)" if len(case.trials) > 1 else ""
    flaky = paint(" flaky", "yellow") if case.flaky else ""
    reason = f": {safe(case.skip_reason)}" if case.outcome == "skipped" and case.skip_reason else ""
    yield f"{paint(mark, color)} {safe(case.id)}{safe(name)}{trials}{flaky}{reason}"
    for trial in case.trials:
        if verbose or trial.outcome in ("failed", "errored"):
            head = f"  trial {trial.trial}" if len(case.trials) > 1 else ""
            if head:
                yield head
            for line in _trial_lines(trial, paint, verbose=verbose):
                yield indent(line, "    ")


def _trial_lines(trial: TrialReport, paint: Paint, *, verbose: bool) -> Iterator[str]:
    yield from earlier_lines(trial, paint)
    if trial.error:
        yield paint(f"{safe(trial.error.kind)}: ", "yellow") + safe(trial.error.message)
    for warning in trial.warnings:
        yield paint("warning: ", "yellow") + safe(warning)
    for verdict in trial.verdicts:
        if verbose or verdict.outcome != "passed":
            yield from verdict_lines(verdict, paint, verbose=verbose)


def earlier_lines(trial: TrialReport, paint: Paint = plain) -> Iterator[str]:
    """Show why there were attempts before the last one."""
    for error in trial.earlier_errors:
        yield paint(f"attempt {error.attempt}: {safe(error.kind)}: ", "yellow") + safe(error.message)


def report_lines(
    head: SuiteReport, cases: Iterable[CaseReport], paint: Paint = plain, *, verbose: bool = False
) -> Iterator[str]:
    """Show a whole run as it was shown while it went on, and its last lines."""
    for case in cases:
        yield from case_lines(case, paint, verbose=verbose)
    yield from suite_results_lines(head, paint)


def change_lines(before: SuiteReport, after: SuiteReport, paint: Paint = plain) -> Iterator[str]:
    """Show which cases of a run have another outcome than they had: `changed: login: failed → passed`."""
    outcomes = {case.id: case.outcome for case in before.cases}
    for case in after.cases:
        earlier = outcomes.get(case.id)
        if earlier is not None and earlier != case.outcome:
            now = paint(case.outcome, _MARKS[case.outcome][1])
            yield f"changed: {safe(case.id)}: {earlier} → {now}"


def clock(seconds: float) -> str:
    """Show a length of time as a clock does: `1:03`, `2:00:15`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def age(seconds: float) -> str:
    """Show how long ago something was, in its largest unit: `3 min`."""
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def outcomes_text(outcomes: Mapping[Outcome, int], paint: Paint = plain) -> str:
    """Show how many ended how: `3 passed, 1 failed`."""
    shown = [(word, color) for word, (_, color) in _MARKS.items() if outcomes.get(word)]
    return ", ".join(paint(f"{outcomes[word]} {word}", color) for word, color in shown)


def totals_text(totals: Totals, paint: Paint = plain) -> str:
    """Show how many cases of a run ended how."""
    outcomes: dict[Outcome, int] = {word: getattr(totals, word) for word in _MARKS}
    return outcomes_text(outcomes, paint)


def results_line(passed: int, total: int, paint: Paint = plain, **others: int) -> str:
    """Give the last line of a run: `Results: 3/4 passed, 1 errored`."""
    more = "".join(f", {count} {word}" for word, count in others.items() if count)
    color = "green" if passed == total else "red" if others.get("failed") else "yellow"
    return paint(f"Results: {passed}/{total} passed{more}", color)


def suite_results_lines(report: SuiteReport, paint: Paint = plain) -> Iterator[str]:
    """Give the last lines of a suite's run: its results, and what it cost as far as that is known."""
    yield suite_results_line(report, paint)
    agents, judges = report.totals.cost_usd, report.totals.judge_cost_usd
    costs = [] if agents is None else [f"{dollars(agents)}" + (" for agents" if judges is not None else "")]
    costs += [] if judges is None else [f"{dollars(judges)} for judges"]
    if costs:
        yield f"Cost: {', '.join(costs)}"


def dollars(usd: float) -> str:
    """Show an amount: small ones to a hundredth of a cent, for sessions cost little."""
    return f"${usd:.2f}" if usd >= 100 else f"${usd:.4f}"


def suite_results_line(report: SuiteReport, paint: Paint = plain) -> str:
    """Give the last line of a suite's run."""
    totals = report.totals
    return results_line(
        totals.passed,
        totals.cases,
        paint,
        failed=totals.failed,
        errored=totals.errored,
        skipped=totals.skipped,
        cancelled=totals.cancelled,
        flaky=totals.flaky,
    )
