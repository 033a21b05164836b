"""Turn a list of facts, each of which holds or not, into a Judgement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from farm.evaluators.base import Judgement


class Fact(NamedTuple):
    """One thing that was looked at, and what to say of it."""

    holds: bool
    words: str


def hit(words: str) -> Fact:
    """Something that holds."""
    return Fact(holds=True, words=words)


def miss(words: str) -> Fact:
    """Something that does not hold."""
    return Fact(holds=False, words=words)


def all_must_hold(facts: Iterable[Fact]) -> Judgement:
    """Judge facts of which none may fail."""
    hits, misses = _hits_and_misses(facts)
    return Judgement(score=0.0 if misses else 1.0, hits=tuple(hits), misses=tuple(misses))


def share_that_holds(facts: Iterable[Fact]) -> Judgement:
    """Judge facts by the share that holds."""
    hits, misses = _hits_and_misses(facts)
    return Judgement(len(hits) / (len(hits) + len(misses)), tuple(hits), tuple(misses))


def _hits_and_misses(facts: Iterable[Fact]) -> tuple[list[str], list[str]]:
    hits: list[str] = []
    misses: list[str] = []
    for fact in facts:
        (hits if fact.holds else misses).append(fact.words)
    return hits, misses
