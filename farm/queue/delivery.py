"""Deliver notices: to webhooks by POST, to commands as input. What fails is tried again, later and later."""

from __future__ import annotations

import http.client
import logging
import os
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.parse import urlsplit

from farm.errors import FarmError
from farm.model.schedule import VARIABLE, NotifySpec
from farm.queue.broker import Broker
from farm.queue.notices import Notices, target_of
from farm.queue.schedules import Schedule
from farm.reporting.notification import one_line
from farm.sessions.process import run_process

_WEBHOOK_SECONDS = 10.0  # of silence
_LONGEST_POST = 2  # times that, however slowly it answers
_COMMAND_SECONDS = 60.0
_PAUSES_SECONDS = (0.5, 2.0)  # between the tries of one delivery
_HOLD_MS = 180_000  # longer than one delivery may take
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 30_000, 3_600_000
_MOST_DELIVERIES = 12  # over about six hours

_log = logging.getLogger(__name__)


class DeliveryError(FarmError):
    """A notice did not arrive. What it says holds no URL: there may be a secret in it."""

    exit_code = 3


class _GoneForGoodError(DeliveryError):
    """It will not arrive the next second either."""


def deliver_notices(
    broker: Broker,
    suite: str,
    schedules: Iterable[Schedule],
    now: Callable[[], datetime],
    environment: Mapping[str, str] = os.environ,
) -> list[str]:
    """Deliver all notices of a suite that are due; give what went wrong."""
    targets = {target_of(spec): (schedule, spec) for schedule in schedules for spec in schedule.spec.notify}
    failed = []
    notices = Notices(broker.client)
    while (notice := notices.take(suite, now(), _HOLD_MS, targets)) is not None:
        run_and_event = notice.id.rpartition(":")[0]
        schedule, spec = targets[notice.target]
        try:
            told = broker.signer.open(notice.record, "notice", *notice.id.split(":"))
            deliver(spec, told, schedule.root, environment)
        except FarmError as error:
            failed.append(f"{run_and_event}: {shown_target(spec)}: {error}")
            _log.error("not delivered (%s): %s", notice.tries, failed[-1])
            if notice.tries >= _MOST_DELIVERIES:
                _log.error("%s: given up", notice.id)
                notices.done(suite, notice)
            else:
                wait_ms = min(_FIRST_WAIT_MS * 2 ** (notice.tries - 1), _LONGEST_WAIT_MS)
                notices.put_off(suite, notice, now(), wait_ms)
        else:
            _log.info("told %s: %s", shown_target(spec), run_and_event)
            notices.done(suite, notice)
    return failed


def deliver(spec: NotifySpec, told: bytes, root: Path, environment: Mapping[str, str]) -> None:
    """Deliver one notification; DeliveryError if it does not arrive."""
    if spec.command is not None:
        _run(spec.command, told, root, environment)
        return
    url = _expanded(spec.webhook or "", environment)
    for pause in (*_PAUSES_SECONDS, None):
        try:
            _post_in_time(url, told)
            return
        except _GoneForGoodError:
            raise
        except DeliveryError:
            if pause is None:
                raise
            time.sleep(pause)


def missing_variables(schedule: Schedule, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Name the variables that a schedule's webhooks need and this environment has not."""
    named = [name for spec in schedule.spec.notify for name in VARIABLE.findall(spec.webhook or "")]
    return [name for name in dict.fromkeys(named) if not environment.get(name)]


def shown_target(spec: NotifySpec) -> str:
    """Name a target in a log: of a URL only the host, for the rest may be a secret."""
    if spec.webhook is None:
        return "command"
    if variable := VARIABLE.match(spec.webhook):
        return f"webhook {variable[0]}"
    return f"webhook {urlsplit(spec.webhook).hostname}"


def _expanded(url: str, environment: Mapping[str, str]) -> str:
    if missing := [name for name in VARIABLE.findall(url) if not environment.get(name)]:
        raise _GoneForGoodError(f"{', '.join(missing)} is not set in this environment")
    expanded = VARIABLE.sub(lambda found: environment[found[1]].strip(), url)
    if not re.match(r"https?://[^\s/]", expanded):  # such as a file://, which could be opened, too
        raise _GoneForGoodError("with its variables it is no URL of http:// or https://")
    return expanded


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is sent elsewhere would arrive there as a GET without what was to be told."""

    def redirect_request(self, *_: object) -> None:
        """Let it be an error."""


def _post_in_time(url: str, told: bytes) -> None:
    """Do not wait for an answer that comes a byte at a time: others are to be told something, too."""
    ended: SimpleQueue[Exception | None] = SimpleQueue()

    def post() -> None:
        try:
            _post(url, told)
        except Exception as error:  # noqa: BLE001 — raised by who waits
            ended.put(error)
        else:
            ended.put(None)

    threading.Thread(target=post, name="farm-webhook", daemon=True).start()
    try:
        error = ended.get(timeout=_LONGEST_POST * _WEBHOOK_SECONDS)
    except Empty:
        raise DeliveryError("its answer does not come to an end") from None
    if error is not None:
        raise error


def _post(url: str, told: bytes) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "farm"}
    try:
        request = urllib.request.Request(url, data=told, headers=headers, method="POST")  # noqa: S310 — looked at
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_WEBHOOK_SECONDS):
            return
    except urllib.error.HTTPError as error:
        error.close()
        kind = DeliveryError if error.code >= 500 or error.code == 429 else _GoneForGoodError
        raise kind(f"it answers with status {error.code}") from None
    except urllib.error.URLError as error:
        raise DeliveryError(f"it can't be reached: {_said(error.reason)}") from None
    except OSError as error:
        raise DeliveryError(f"it can't be reached: {_said(error)}") from None
    except (http.client.InvalidURL, UnicodeError, ValueError):
        raise _GoneForGoodError("with its variables it is no URL") from None
    except http.client.HTTPException as error:
        raise DeliveryError(f"what it answers is no HTTP: {type(error).__name__}") from None


def _said(reason: object) -> str:
    strerror = getattr(reason, "strerror", None)
    return one_line(strerror or str(reason) or type(reason).__name__)


def _run(command: str, told: bytes, root: Path, environment: Mapping[str, str]) -> None:
    # Not the broker's password, nor the key that plans are signed with.
    own = {name: value for name, value in environment.items() if not name.startswith(("FARM_", "CELERY"))}
    try:
        ended = run_process(command, cwd=root, env=own, timeout_seconds=_COMMAND_SECONDS, stdin=told)
    except FarmError as error:
        raise DeliveryError(one_line(str(error))) from None
    if ended.timed_out:
        raise DeliveryError(f"it took longer than {_COMMAND_SECONDS:g} s")
    if ended.exit_code:
        said = one_line(ended.stderr[-500:].decode(errors="replace"))
        raise DeliveryError(f"it ended with exit code {ended.exit_code}" + (f": {said}" if said else ""))
