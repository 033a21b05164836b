"""What all workers together may do at once."""

from __future__ import annotations

from farm.model.base import Model, PositiveCount


class LimitSpec(Model):
    """The limits of one agent or model."""

    concurrency: PositiveCount | None = None  # sessions at once
    starts_per_minute: PositiveCount | None = None  # sessions that may start in a minute
