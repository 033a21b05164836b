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
    cases = [
        case
        for case in suite.cases
        if (not ids or any(glob_matches(pattern, case.id) for pattern in ids))
        and (not tags or set(tags) & set(case.tags))
    ]
    if not cases:
        asked = [*(f"--case {pattern}" for pattern in ids), *(f"--tag {tag}" for tag in tags)]
        raise UsageError(f"no case matches {' '.join(asked)}; --list-tests shows what there is")
    if trials is not None:
        cases = [
            case.model_copy(update={"trials": case.trials.model_copy(update={"count": trials})})
            for case in cases
        ]
    return suite.model_copy(update={"cases": tuple(cases)})
