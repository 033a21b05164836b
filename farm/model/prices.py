"""What a model's tokens cost."""

from __future__ import annotations

from farm.model.base import Model, NonNegativeNumber


class Price(Model):
    """What a million tokens cost, in US dollars."""

    input: NonNegativeNumber  # of what is sent
    output: NonNegativeNumber  # of what is answered
    cache_write: NonNegativeNumber | None = None  # 1.25 times the input's if absent
    cache_read: NonNegativeNumber | None = None  # a tenth of the input's if absent
