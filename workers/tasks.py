"""The tasks: each unpacks its message and calls the library."""

from __future__ import annotations

from farm.model.job import CaseJob
from farm.queue.carry_out import carry_out
from farm.queue.collect import aggregate
from farm.queue.names import AGGREGATE, CARRY_OUT
from workers.app import app, broker
from workers.place import work_place


@app.task(name=CARRY_OUT)
def carry_out_trial(run_id: str, case_id: str, trial: int) -> None:
    """Carry out one trial of a case."""
    carry_out(CaseJob(run_id=run_id, case_id=case_id, trial=trial), work_place())


@app.task(name=AGGREGATE)
def aggregate_run(run_id: str) -> None:
    """Write the report of a run that is done."""
    aggregate(run_id, broker)
