"""`farm resume`: carry out what a run has left undone."""

from __future__ import annotations

from argparse import Namespace

from farm.cli.reopening import AS_SUBMITTED, Reopened, add_arguments, carry_on
from farm.queue.broker import Broker
from farm.queue.reopening import resume_run

__all__ = ["add_arguments", "run"]


def run(arguments: Namespace) -> int:
    """Carry out the trials of a run that have no result: it was cancelled, interrupted, or its budget ended.

    They are carried out as they were submitted: what has changed in test files, farm.yaml and the workspace
    since then counts for a new run. On a fleet they are queued; `--wait` follows them to the end. A run of
    this directory is carried out here.
    """

    def put_back(broker: Broker, alone: bool) -> Reopened:
        left = resume_run(broker, arguments.run, budget_usd=arguments.max_cost, alone=alone)
        if not left:
            return Reopened(0, f"nothing is left to do in run {arguments.run}")
        return Reopened(
            left,
            f"{left} trial{'s' * (left != 1)} of run {arguments.run} left to be carried out{AS_SUBMITTED}",
        )

    return carry_on(arguments, put_back)
