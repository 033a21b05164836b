"""Match each of several wants with a distinct thing that fits it, as many as possible."""

from __future__ import annotations

from collections.abc import Sequence


def match_distinct(fitting: Sequence[Sequence[int]]) -> dict[int, int]:
    """Give each want (by position) one of its fitting things, no thing twice.

    The largest such matching: first come, first served would let `Read` take the only call that
    `Read(file_path=a)` could have had. A want that is matched stays so, whatever comes after it.
    """
    holder: dict[int, int] = {}
    held: dict[int, int] = {}
    for want in range(len(fitting)):
        _augment(want, fitting, holder, held)
    return held


def _augment(
    want: int, fitting: Sequence[Sequence[int]], holder: dict[int, int], held: dict[int, int]
) -> None:
    """Find a thing for `want`, moving earlier wants to other things where that sets one free."""
    asked_by: dict[int, int] = {}
    asking = [want]
    for asker in asking:  # breadth first; grows while it is read
        for thing in fitting[asker]:
            if thing in asked_by:
                continue
            asked_by[thing] = asker
            if thing in holder:
                asking.append(holder[thing])
                continue
            free: int | None = thing
            while free is not None:
                taker = asked_by[free]
                holder[free] = taker
                held[taker], free = free, held.get(taker)
            return
