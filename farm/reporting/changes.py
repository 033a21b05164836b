"""Turn a comparison into lines for people, and into comparison.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from farm.reporting.compare import COMPARISON_SCHEMA, STATES, CaseChange, Comparison, Side, State
from farm.reporting.terminal import Paint, plain, safe

COMPARISON_FILE = "comparison.json"
_BEGINNING = f'"schema": "{COMPARISON_SCHEMA}"'.encode()

_MARKS: dict[State, tuple[str, str]] = {
    "regressed": ("✗", "red"),
    "missing": ("✗", "red"),
    "inconclusive": ("!", "yellow"),
    "flaky": ("!", "yellow"),
    "fixed": ("✓", "green"),
    "new": ("-", "cyan"),
    "still_failing": ("✗", "red"),
    "still_passing": ("✓", "green"),
    "skipped": ("-", "cyan"),
}
# What is as it was is counted, not listed.
_LISTED: frozenset[State] = frozenset(STATES) - {"still_passing", "skipped"}


def dump_comparison(comparison: Comparison) -> bytes:
    """Write a comparison as JSON; the same one always gives the same bytes."""
    data = {"schema": COMPARISON_SCHEMA, **comparison.model_dump(mode="json")}
    text = json.dumps(data, ensure_ascii=False, indent=2)
    return f"{text}\n".encode("utf-8", "replace")


def is_comparison_file(path: Path) -> bool:
    """Say whether a file is there, and is a comparison of the farm's."""
    try:
        with path.open("rb") as file:
            return _BEGINNING in file.read(200)
    except OSError:
        return False


def comparison_lines(comparison: Comparison, paint: Paint = plain) -> Iterator[str]:
    """Show what has changed, the worst first, and how much has not."""
    for state in STATES:
        if state in _LISTED:
            for change in comparison.cases:
                if change.state == state:
                    yield _change_line(change, paint)
    yield counts_line(comparison, paint)


def _change_line(change: CaseChange, paint: Paint) -> str:
    mark, color = _MARKS[change.state]
    return f"{paint(mark, color)} {_line(change.id)}  {word(change.state)}{change_text(change)}"


def change_text(change: CaseChange) -> str:
    """Say how a case was and is: `: passed → failed`, with the trials that passed and their intervals."""
    sides = [side for side in (change.before, change.after) if side is not None]
    outcomes = " → ".join(side.outcome for side in sides)
    if change.state == "missing":
        outcomes = f"was {outcomes}"
    elif len(sides) == 2 and sides[0].outcome == sides[1].outcome:
        outcomes = sides[1].outcome
    trials = _trials_text(sides)
    doubt = ", uncertain" if change.uncertain else ""
    return f": {outcomes}{trials}{doubt}"


def _trials_text(sides: list[Side]) -> str:
    if not any(side.interval for side in sides):
        return ""
    shares = " → ".join(f"{side.passed}/{side.judged}" for side in sides)
    intervals = " → ".join(_interval_text(side) for side in sides)
    return f", {shares} trials passed ({intervals})"


def _interval_text(side: Side) -> str:
    if side.interval is None:
        return "one trial" if side.judged else "none judged"
    low, high = side.interval
    return f"{low * 100:.0f} to {high * 100:.0f} %"


def counts_line(comparison: Comparison, paint: Paint = plain) -> str:
    """Give the last line of a comparison: `Compared with RUN: 1 regressed, 3 still passing`."""
    counts = [
        paint(f"{comparison.states[state]} {word(state)}", _MARKS[state][1])
        for state in STATES
        if comparison.states[state]
    ]
    if comparison.not_selected:
        counts.append(f"{comparison.not_selected} not selected")
    return f"Compared with {_line(comparison.before.run_id)}: {', '.join(counts) or 'no cases'}"


def word(state: State) -> str:
    """Name a state for people."""
    return state.replace("_", " ")


def _line(text: str) -> str:
    return safe(text).replace("\n", " ")
