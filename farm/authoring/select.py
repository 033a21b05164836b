"""Turn a suite into the part of it that was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from farm.errors import UsageError
from farm.model.patterns import glob_matches
from farm.model.suite import Suite


def select_cases(
    suite: Suite, *, ids: Sequence[str] = (), tags: Sequence[str] = (), trials: int | None = None
) -> Suite:
    """Keep the cases with one of the ids (globs) and one of the tags; set how often each is tried."""
    by_id = {pattern: {case.id for case in suite.cases if is_id(pattern, case.id)} for pattern in ids}
    by_tag = {tag: {case.id for case in suite.cases if tag in case.tags} for tag in tags}
    asked = {
        **{f"--case {pattern}": found for pattern, found in by_id.items()},
        **{f"--tag {tag}": found for tag, found in by_tag.items()},
    }
    # Each must match something of its own: beside others, a slip would go unnoticed.
    if futile := [words for words, found in asked.items() if not found]:
        raise UsageError(f"no case matches {' '.join(futile)}; --list-tests shows what there is")
    cases = [
        case
        for case in suite.cases
        if (not ids or any(case.id in found for found in by_id.values()))
        and (not tags or any(case.id in found for found in by_tag.values()))
    ]
    if not cases:
        raise UsageError(f"no case matches {' '.join(asked)}; --list-tests shows what there is")
    if trials is not None:
        cases = [
            case.model_copy(update={"trials": case.trials.model_copy(update={"count": trials})})
            for case in cases
        ]
    return suite.model_copy(update={"cases": tuple(cases)})


def is_id(pattern: str, case_id: str) -> bool:
    """Say whether a case is meant by a pattern: its id, or a glob."""
    return pattern == case_id or glob_matches(pattern, case_id)
