"""Put right what went wrong on the way: leases of the dead, messages that were lost, reports not written.

Every worker has a janitor; a lock in the ledger lets one at a time work. Whatever it queues needlessly is
refused when it is claimed, so it may be too eager, but never too late.
"""

from __future__ import annotations

import logging
from collections import Counter
from itertools import islice

from farm.model.job import CaseJob
from farm.queue.broker import Broker
from farm.queue.ledger import RunStatus
from farm.queue.names import CONTROL_QUEUE, agent_queue
from farm.queue.submit import queue_again, with_kinds

_LOCK_MS = 10_000
_QUEUED_AT_ONCE = 2000

_log = logging.getLogger(__name__)


class Janitor:
    """Looks after all runs of a broker."""

    def __init__(self, broker: Broker, owner: str) -> None:
        self._broker = broker
        self._owner = owner
        self._empty_before: frozenset[str] = frozenset()
        self._empty_now: frozenset[str] = frozenset()
        self.queued_again: Counter[str] = Counter()  # trials, by why

    def reconcile(self) -> None:
        """Look after every run once, if no other janitor does."""
        ledger = self._broker.ledger
        if not ledger.take_lock("janitor", self._owner, _LOCK_MS):
            self._empty_now = frozenset()
            return
        statuses = [status for run_id in ledger.active_runs() if (status := ledger.status(run_id))]
        self._look_at_queues(statuses)
        for status in statuses:
            try:
                self._look_after(status)
            except Exception:  # noqa: BLE001 — whatever is wrong with one run, the others are to be recovered
                ledger.time_ms()  # fails too if it is the server that is away
                _log.exception("run %s can't be looked after", status.run_id)

    def _look_after(self, status: RunStatus) -> None:
        if status.state == "running":
            self._look_after_trials(status)
        elif status.state == "aggregating":
            self._look_after_report(status)

    def _look_at_queues(self, statuses: list[RunStatus]) -> None:
        queues = {CONTROL_QUEUE}
        for status in statuses:
            queues.update(agent_queue(kind) for kind in status.kinds)
        self._empty_before = self._empty_now
        self._empty_now = frozenset(queue for queue in queues if not self._broker.queued([queue]))

    def _look_after_trials(self, status: RunStatus) -> None:
        ledger, run_id = self._broker.ledger, status.run_id
        expired = ledger.expire(run_id)
        if expired.again:
            _log.warning("run %s: %s trials lost their worker; queued again", run_id, len(expired.again))
        due = ledger.due(run_id)
        queued = [*expired.again, *due]
        queue_again(self._broker, queued)
        self.queued_again.update({"lost_worker": len(expired.again), "due": len(due)})
        if expired.closed or (status.done == status.total):
            self._broker.publish_aggregation(run_id)
            return
        if status.done + status.leased < status.total:
            self._look_for_lost_messages(status, frozenset(queued))

    def _look_for_lost_messages(self, status: RunStatus, queued: frozenset[CaseJob]) -> None:
        # Only what an empty queue proves to be lost: a message may be waiting for its turn.
        kinds = {kind for kind in status.kinds if self._is_quiet(agent_queue(kind))}
        if not kinds:
            return
        waiting = with_kinds(self._broker, self._broker.ledger.waiting(status.run_id))
        silent = ((job, kind) for job, kind in waiting if kind in kinds and job not in queued)
        lost = list(islice(silent, _QUEUED_AT_ONCE))
        if lost:
            _log.warning("run %s: %s messages were lost; queued again", status.run_id, len(lost))
            self._broker.publish(lost)
            self.queued_again["lost_message"] += len(lost)

    def _look_after_report(self, status: RunStatus) -> None:
        self._broker.ledger.expire(status.run_id)  # the sessions of a cancelled run, if their worker is lost
        if self._is_quiet(CONTROL_QUEUE):
            self._broker.publish_aggregation(status.run_id)

    def _is_quiet(self, queue: str) -> bool:
        """Say whether a queue is empty now and was so at the last look.

        At one look alone a message may just have been taken, and its trial not yet been claimed.
        """
        return queue in self._empty_before and queue in self._empty_now
