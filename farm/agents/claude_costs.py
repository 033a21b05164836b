"""Say what a session of Claude Code cost, by the author's prices or as the CLI says, and when to doubt that.

The CLI knows the prices of the models that were there before it, and takes another's for any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from farm.agents.prices import cost_usd, own_cost_usd
from farm.agents.wire import number, usage_of
from farm.model.prices import Price
from farm.model.transcript import Usage

_DOUBTFUL = 2.0  # times the list price, or the other way: caches that last an hour make less of a difference
_ADVICE = "`prices` in farm.yaml decide"


@dataclass(frozen=True)
class SessionCost:
    """What a session cost, and why the figure may be wrong."""

    usd: float | None
    doubts: tuple[str, ...] = ()


def session_cost(end: Mapping[str, Any], own: Mapping[str, Price]) -> SessionCost:
    """Read it from a session's result; raise WireError if that has figures that are none."""
    total = number(end.get("total_cost_usd"), "total_cost_usd")
    models = end.get("modelUsage")
    doubts = []
    for model, figures in models.items() if isinstance(models, Mapping) else ():
        usage = usage_of(figures, f"modelUsage.{model}") or Usage()
        told = number(figures.get("costUSD"), f"modelUsage.{model}.costUSD") if figures else None
        by_author = own_cost_usd(usage, model, own)
        if by_author is not None:
            total = max((total or 0.0) - (told or 0.0), 0.0) + by_author
        elif told and (doubt := _doubt(model, told, cost_usd(usage, model, own))):
            doubts.append(doubt)
    return SessionCost(total, tuple(doubts))


def _doubt(model: str, told: float, listed: float | None) -> str | None:
    if listed is None:
        return (
            f'the price of the model "{model}" is not known: ${told:.4f} is what Claude Code makes of it, '
            f"and may be a guess; {_ADVICE}"
        )
    if listed / _DOUBTFUL < told < listed * _DOUBTFUL:
        return None
    return f'Claude Code says that "{model}" cost ${told:.4f}; by list prices it is ${listed:.4f}; {_ADVICE}'
