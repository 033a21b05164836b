"""What crosses the queue: which trial of which case of which run. Never a command, never a path."""

from __future__ import annotations

from farm.model.base import Model, NonEmptyText, PositiveCount


class CaseJob(Model):
    """One trial to be carried out."""

    run_id: NonEmptyText
    case_id: NonEmptyText
    trial: PositiveCount = 1
