"""`farm retry`: carry out again what ended badly."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from farm.cli import reopening
from farm.cli.reopening import AS_SUBMITTED, Reopened, carry_on
from farm.errors import UsageError
from farm.model.verdict import Outcome
from farm.queue.broker import Broker
from farm.queue.reopening import resume_run, retry_run


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    reopening.add_arguments(parser)
    parser.add_argument("--errored", action="store_true", help="the trials that could not be judged")
    parser.add_argument("--failed", action="store_true", help="the trials in which the agent did wrong")


def run(arguments: Namespace) -> int:
    """Carry out again the trials of a run that errored, or failed, and what has no result.

    Their new results take the place of the old. They are carried out as they were submitted: what has changed
    in test files, farm.yaml and the workspace since then counts for a new run. On a fleet they are queued;
    `--wait` follows them to the end. A run of this directory is carried out here.
    """
    outcomes: list[Outcome] = []
    if arguments.errored:
        outcomes.append("errored")
    if arguments.failed:
        outcomes.append("failed")
    if not outcomes:
        raise UsageError("say which trials: --errored, --failed, or both; see farm retry --help")

    def put_back(broker: Broker, alone: bool) -> Reopened:
        count = retry_run(broker, arguments.run, outcomes, budget_usd=arguments.max_cost, alone=alone)
        words = " or ".join(outcomes)
        if not count:
            left = resume_run(broker, arguments.run, budget_usd=arguments.max_cost, alone=alone)
            rest = f"; {left} trial{'s' * (left != 1)} left to be carried out" if left else ""
            return Reopened(left, f"no trial of run {arguments.run} {words}{rest}")
        return Reopened(
            count,
            f"{count} trial{'s' * (count != 1)} of run {arguments.run} that {words}, again{AS_SUBMITTED}",
        )

    return carry_on(arguments, put_back)
