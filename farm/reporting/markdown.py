"""Turn a SuiteReport into Markdown that fits into a comment on a pull request: the worst first, then figures.

Everything that came from an agent is hostile: it stands in code spans and fences that it can't close, where
mentions, links, references and HTML are nothing but text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO

from farm.model.report import CaseReport, SuiteReport, Totals
from farm.reporting.changes import change_text, word
from farm.reporting.compare import CaseChange, Comparison, State
from farm.reporting.report_file import ReportFile
from farm.reporting.terminal import case_lines, clock, safe

# GitHub takes 65,536 characters; there is room for a line of whoever posts it.
MAX_CHARACTERS = 64_000
_NOTE_CHARACTERS = 100
_MAX_BLOCK = 2_000
_MAX_NAME = 200


def dump_markdown(report: SuiteReport, comparison: Comparison | None = None) -> bytes:
    """Write a report as Markdown, with what has changed since an earlier run; the same as the same bytes."""
    return _render(report, report.cases, comparison)


def write_markdown(report: ReportFile, target: IO[bytes], comparison: Comparison | None = None) -> None:
    """Write the same of a report that may not fit into memory."""
    target.write(_render(report.head, report.cases(), comparison))


def _render(head: SuiteReport, cases: Iterable[CaseReport], comparison: Comparison | None) -> bytes:
    heading, tail = _heading(head, comparison), _figures(head)
    sections = _gather(cases, comparison)
    titles = {title: f"\n### {title} ({len(items)})\n\n" for title, items in sections.items() if items}
    room = MAX_CHARACTERS - len(heading) - len(tail) - _NOTE_CHARACTERS - sum(map(len, titles.values()))
    items = [item for title in titles for item in sections[title]]
    texts = _fitting(items, room)
    left_out = len(items) - len(texts)
    note = f"\n{left_out} more did not fit here; all are in `report.json` of this run.\n" if left_out else ""
    body = "".join(
        text + "".join(texts.get(item.case_id, "") for item in sections[title])
        for title, text in titles.items()
    )
    return (heading + body + note + tail).encode("utf-8", "replace")


@dataclass(frozen=True)
class _Item:
    """An entry of a list, and what is told under it if there is room."""

    case_id: str
    line: str
    detail: str = ""


def _fitting(items: Sequence[_Item], room: int) -> dict[str, str]:
    """Choose what is told of each case: half of the room is for details of the first, the rest for lines."""
    texts: dict[str, str] = {}
    half = room // 2
    for item in items:
        if len(item.line + item.detail) <= room - half:
            texts[item.case_id] = item.line + item.detail
            room -= len(texts[item.case_id])
    for item in items:
        if item.case_id not in texts and len(item.line) <= room:
            texts[item.case_id] = item.line
            room -= len(item.line)
    for item in items:
        if texts.get(item.case_id) == item.line and len(item.detail) <= room:
            texts[item.case_id] += item.detail
            room -= len(item.detail)
    return texts


def _heading(report: SuiteReport, comparison: Comparison | None) -> str:
    totals = report.totals
    good = totals.passed + totals.skipped == totals.cases and not (comparison and comparison.regressions)
    counts = _counts(totals)
    text = f"## {'✓' if good else '✗'} {code(report.suite)}: {counts}\n"
    if comparison is not None:
        changed = [f"{count} {word(state)}" for state, count in comparison.states.items() if count]
        before = f"run {code(comparison.before.run_id)}"
        text += f"\nCompared with {before}: {', '.join(changed) or 'no cases'}.\n"
    return text


def _counts(totals: Totals) -> str:
    others = (
        (totals.failed, "failed"),
        (totals.errored, "errored"),
        (totals.skipped, "skipped"),
        (totals.cancelled, "cancelled"),
        (totals.flaky, "flaky"),
    )
    more = "".join(f", {count} {name}" for count, name in others if count)
    return f"{totals.passed} of {totals.cases} passed{more}"


# What somebody has to look at, the worst first.
_SECTIONS = ("Regressed", "Failed", "Errored", "Cancelled", "Flaky", "Inconclusive", "Fixed")
_BY_OUTCOME = {"failed": "Failed", "errored": "Errored", "cancelled": "Cancelled"}
_BY_STATE: dict[State, str] = {"inconclusive": "Inconclusive", "fixed": "Fixed"}


def _gather(cases: Iterable[CaseReport], comparison: Comparison | None) -> dict[str, list[_Item]]:
    """Part the cases into sections, each case into one; looks at one case at a time."""
    changes = {change.id: change for change in comparison.cases} if comparison else {}
    sections: dict[str, list[_Item]] = {title: [] for title in _SECTIONS}
    room = dict.fromkeys(_SECTIONS, MAX_CHARACTERS)  # no section can show more than the page holds
    missing = (change for change in changes.values() if change.state == "missing")
    sections["Regressed"] = [_change_item(change, "") for change in missing]
    for case in cases:
        change = changes.get(case.id)
        title = _section(case, change)
        if title is None:
            continue
        detail = _detail(case) if room[title] > 0 and case.outcome in ("failed", "errored") else ""
        room[title] -= len(detail)
        if change is not None and title in ("Regressed", "Inconclusive", "Fixed"):
            sections[title].append(_change_item(change, detail))
        else:
            sections[title].append(_case_item(case, change, detail))
    sections["Regressed"].sort(key=lambda item: item.case_id)
    return sections


def _section(case: CaseReport, change: CaseChange | None) -> str | None:
    if change is not None and change.state == "regressed":
        return "Regressed"
    if case.outcome in _BY_OUTCOME:
        return _BY_OUTCOME[case.outcome]
    if case.flaky:
        return "Flaky"
    return _BY_STATE.get(change.state) if change is not None else None


def _change_item(change: CaseChange, detail: str) -> _Item:
    state = "missing" if change.state == "missing" else ""
    text = f"{state}{change_text(change)}".removeprefix(": ")
    return _Item(change.id, f"- {code(change.id)} {text}\n", detail)


def _case_item(case: CaseReport, change: CaseChange | None, detail: str) -> _Item:
    name = "" if case.name in case.id else f" {code(case.name)}"
    trials = ""
    if len(case.trials) > 1:
        passed = sum(trial.outcome == "passed" for trial in case.trials)
        trials = f", {passed} of {len(case.trials)} trials passed{', flaky' if case.flaky else ''}"
    before = ""
    if change is not None:
        before = f", was {change.before.outcome}" if change.before is not None else ", new"
    return _Item(case.id, f"- {code(case.id)}{name}{trials}{before}\n", detail)


def _detail(case: CaseReport) -> str:
    lines = [*case_lines(case)][1:]
    for trial in case.trials:
        if trial.outcome == "failed" and trial.output:
            which = f" of trial {trial.trial}" if len(case.trials) > 1 else ""
            output = safe(trial.output[: 2 * _MAX_BLOCK])
            lines += [f"    output{which}:", *(f"        {line}" for line in output.split("\n"))]
            break  # one shows what kind of answer it was; report.json has the others
    return _fenced("\n".join(lines)) if lines else ""


def _fenced(text: str) -> str:
    """Put text into a fence longer than any in it, indented as part of a list's item."""
    if len(text) > _MAX_BLOCK:
        text = f"{text[:_MAX_BLOCK]}\n… (cut; report.json has all)"
    fence = "`" * max(3, _longest_run(text) + 1)
    inner = "\n".join(f"  {line}" for line in text.split("\n"))
    return f"\n  {fence}text\n{inner}\n  {fence}\n\n"


def code(text: str) -> str:
    """Put a line of text into a code span that it can't close."""
    line = safe(text).replace("\n", " ").strip()
    line = line if len(line) <= _MAX_NAME else f"{line[:_MAX_NAME]}…"
    if not line:
        return "(nothing)"
    ticks = "`" * (_longest_run(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _figures(report: SuiteReport) -> str:
    """Show a run in figures, and where all of it is."""
    totals = report.totals
    rows = [("cases", str(totals.cases))]
    for name in ("passed", "failed", "errored", "skipped", "cancelled", "flaky"):
        count = getattr(totals, name)
        rows += [(name, str(count))] if count else []
    if totals.score is not None:
        rows.append(("score", f"{totals.score:.2f}"))
    for name, cost_usd in (("cost", totals.cost_usd), ("cost of judges", totals.judge_cost_usd)):
        rows += [(name, f"${cost_usd:.4f}")] if cost_usd is not None else []
    if totals.input_tokens is not None or totals.output_tokens is not None:
        rows.append(("tokens", f"{totals.input_tokens or 0:,} in, {totals.output_tokens or 0:,} out"))
    if report.duration_ms is not None:
        rows.append(("duration", clock(report.duration_ms / 1000)))
    if report.state != "complete":
        rows.append(("state", report.state.replace("_", " ")))
    return "\n" + _table(rows) + f"\nRun {code(report.run_id)}; `report.json` has all of it.\n"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    names, values = zip(*rows, strict=True)
    return "\n".join((f"| {' | '.join(names)} |", f"|{'---|' * len(names)}", f"| {' | '.join(values)} |", ""))
