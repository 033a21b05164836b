"""Keep the leases of this process's sessions, and tell a session when it has to end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from farm.queue.ledger import Claim, Ledger

StopReason = Literal["lost", "closed", "draining"]

_LONGEST_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Lease:
    """A claim that is being kept while its session runs."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.stop = threading.Event()
        self.reason: StopReason | None = None
        self.note = ""  # what the session did last, for those who watch

    def end(self, reason: StopReason) -> None:
        """Tell the session to end."""
        if self.reason is None:
            self.reason = reason
            self.stop.set()


class Heartbeat:
    """Renews all leases of this process by one thread, which runs while there are any."""

    def __init__(
        self, ledger: Ledger, *, lease_ms: int, is_draining: Callable[[], bool] = lambda: False
    ) -> None:
        self._ledger = ledger
        self._is_draining = is_draining
        self._pause_seconds = min(lease_ms / 3000, _LONGEST_PAUSE_SECONDS)
        self._leases: dict[Claim, Lease] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def hold(self, claim: Claim) -> Iterator[Lease]:
        """Keep a claim for the length of the block."""
        lease = Lease(claim)
        with self._changed:
            self._leases[claim] = lease
            if self._thread is None or not self._thread.is_alive():  # also in a process forked from ours
                self._thread = threading.Thread(target=self._beat, name="farm-heartbeat", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield lease
        finally:
            with self._changed:
                del self._leases[claim]

    def _beat(self) -> None:
        while True:
            with self._changed:
                while not self._leases:
                    self._changed.wait()
            time.sleep(self._pause_seconds)  # first: a lease is good for a while, and most sessions are short
            with self._changed:
                leases = dict(self._leases)
            if self._is_draining():
                for lease in leases.values():
                    lease.end("draining")
            self._renew(leases)

    def _renew(self, leases: dict[Claim, Lease]) -> None:
        if not leases:
            return
        try:
            answers = self._ledger.renew_all({claim: lease.note for claim, lease in leases.items()})
        except Exception as error:  # noqa: BLE001 — this thread is the only one that keeps leases
            # The session goes on: if the server is back in time, nothing was lost; if not, its result is
            # a duplicate, and is counted as one.
            _log.warning("leases could not be renewed: %s", error)
            return
        for claim, answer in answers.items():
            if answer != "held":
                leases[claim].end(answer)
