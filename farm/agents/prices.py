"""Say what tokens cost: the list prices of Anthropic's models, and those that farm.yaml adds or changes.

A price that is not known is None, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from farm.model.prices import Price
from farm.model.transcript import Usage

_OPUS = Price(input=5.0, output=25.0, cache_write=6.25, cache_read=0.5)
_OPUS_5_5 = Price(input=4.0, output=20.0, cache_write=5.0, cache_read=0.2)
_SONNET_5 = Price(input=2.0, output=10.0, cache_write=2.5, cache_read=0.2)
_SONNET_5_5 = Price(input=2.0, output=10.0, cache_write=2.5, cache_read=0.1)
_SONNET_4 = Price(input=3.0, output=15.0, cache_write=3.75, cache_read=0.3)
_HAIKU_4 = Price(input=1.0, output=5.0, cache_write=1.25, cache_read=0.1)
_HAIKU_5_5 = Price(input=0.1, output=0.5, cache_write=0.125, cache_read=0.01)
_FABLE_5 = Price(input=10.0, output=50.0, cache_write=12.5, cache_read=1.0)
_FABLE_5_1 = Price(input=10.0, output=50.0, cache_write=12.5, cache_read=0.25)

# For caches of five minutes, as known to this version: they may change, and farm.yaml's `prices` win.
LIST_PRICES: Mapping[str, Price] = {
    "claude-fable-5": _FABLE_5,
    "claude-fable-5-1": _FABLE_5_1,
    "claude-mythos-5": _FABLE_5,
    "claude-mythos-5-1": _FABLE_5_1,
    "claude-opus-4-5": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-7": _OPUS,
    "claude-opus-4-8": _OPUS,
    "claude-opus-5": _OPUS,
    "claude-opus-5-5": _OPUS_5_5,
    "claude-sonnet-4-5": _SONNET_4,
    "claude-sonnet-4-6": _SONNET_4,
    "claude-sonnet-5": _SONNET_5,
    "claude-sonnet-5-5": _SONNET_5_5,
    "claude-haiku-4-5": _HAIKU_4,
    "claude-haiku-5-5": _HAIKU_5_5,
}
# Requests that the model reads more than so many tokens for cost so many times as much, all of them.
_LONG_PROMPTS = {"claude-haiku-5-5": (100_000, 5.0)}

# What may follow a family's name: the day or the edition of a model of it. Not another number: the price of
# claude-opus-6-1 is not known from that of claude-opus-6.
_EDITION = re.compile(r"(?:[-@](?:\d{8}|latest))?(?:-v\d+(?::\d+)?)?(?:\[1m\])?")
# How others name the same models: `us.anthropic.claude-…`, `anthropic/claude-…`.
_PROVIDER = re.compile(r"^(?:[a-z]+\.)?anthropic[./]")


def cost_usd(usage: Usage, model: str, own: Mapping[str, Price]) -> float | None:
    """Give what one request cost; None if the model's price is not known."""
    if (by_author := own_cost_usd(usage, model, own)) is not None:
        return by_author
    family = _family(_PROVIDER.sub("", model), LIST_PRICES)
    if family is None:
        return None
    longest, times = _LONG_PROMPTS.get(family, (0, 1.0))
    factor = times if usage.total_input_tokens > longest else 1.0
    return factor * _cost_usd(usage, LIST_PRICES[family])


def own_cost_usd(usage: Usage, model: str, own: Mapping[str, Price]) -> float | None:
    """Give what a request or a session cost by the author's prices; None if they don't name the model."""
    price = _own_price(model, own)
    return None if price is None else _cost_usd(usage, price)


def _cost_usd(usage: Usage, price: Price) -> float:
    write = 1.25 * price.input if price.cache_write is None else price.cache_write
    read = 0.1 * price.input if price.cache_read is None else price.cache_read
    total = usage.input_tokens * price.input + usage.output_tokens * price.output
    total += usage.cache_creation_tokens * write + usage.cache_read_tokens * read
    return total / 1e6


def is_priced(model: str, own: Mapping[str, Price]) -> bool:
    """Say whether a model's price is known."""
    return cost_usd(Usage(), model, own) is not None


def _own_price(model: str, own: Mapping[str, Price]) -> Price | None:
    """Find the author's price: of the model or its family, else of the longest `name*` that fits it."""
    family = _family(model, own)
    if family is None:
        begins = [name for name in own if name.endswith("*") and model.startswith(name[:-1])]
        family = max(begins, key=len, default=None)
    return None if family is None else own[family]


def _family(model: str, prices: Mapping[str, Price]) -> str | None:
    names = (name for name in prices if model.startswith(name) and _EDITION.fullmatch(model[len(name) :]))
    return max(names, key=len, default=None)
