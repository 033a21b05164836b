"""The tasks: each unpacks its message and calls the library."""

from __future__ import annotations

import logging

from pydantic import ValidationError

from farm.model.job import CaseJob
from farm.queue.carry_out import carry_out
from farm.queue.collect import aggregate
from farm.queue.names import AGGREGATE, CARRY_OUT, RUN_ID
from workers.app import app, broker
from workers.place import note, work_place
from workers.states import EXPECTED, Dropped, TrialRequest, show
from workers.transport import deliver_only

_log = logging.getLogger(__name__)


@app.task(name=CARRY_OUT, throws=EXPECTED, Request=TrialRequest)
def carry_out_trial(*_: object, **message: object) -> str | None:
    """Carry out one trial of a case."""
    try:
        job = CaseJob.model_validate(message, strict=True)
    except ValidationError as error:
        # Not what it quotes: that may be anything.
        _log.warning("refused a message that names no trial: %s problems", error.error_count())
        raise Dropped("names no trial") from None
    if not RUN_ID.fullmatch(job.run_id):
        _log.warning("refused a message that names no run")
        raise Dropped("names no run")
    ended = carry_out(job, work_place())
    note(ended)
    return None if broker.is_embedded else show(ended)  # of an embedded engine nobody sees the tasks


@app.task(name=AGGREGATE)
def aggregate_run(*_: object, run_id: object = None, **_more: object) -> None:
    """Write the report of a run that is done."""
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        _log.warning("refused a message that names no run")
        return
    aggregate(run_id, broker)


deliver_only(app.tasks, frozenset(queue.name for queue in app.conf.task_queues))
