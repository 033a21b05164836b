"""Carry out a run in the test's own process, in the place of a worker."""

from __future__ import annotations

import time

from farm.queue.carry_out import WorkPlace, carry_out

PATIENCE_SECONDS = 60.0


def carry_out_all(run_id: str, place: WorkPlace) -> None:
    """Carry out whatever is due or waiting, until the run is closed."""
    ledger = place.broker.ledger
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (status := ledger.status(run_id)) and status.state == "running":
        assert time.monotonic() < deadline
        for job in [*ledger.due(run_id), *ledger.waiting(run_id)]:
            carry_out(job, place)
        time.sleep(0.01)
