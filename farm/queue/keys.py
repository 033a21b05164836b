"""How runs and trials are called on the ledger's server; its scripts know the same names."""

from __future__ import annotations

from farm.model.job import CaseJob

# Without braces around the id, which would keep a run together on a cluster: limits are shared by all runs,
# so all keys must be on one server anyway.
PREFIX = "farm:run:"
TODO, LEASES, NOTES, DELAYS = ":todo", ":leases", ":notes", ":delays"
RESULTS, LOG, CASES = ":results", ":log", ":cases"
_OTHERS = (":claims", ":attempts", ":losses", ":errors")
SUFFIXES = ("", TODO, LEASES, NOTES, DELAYS, RESULTS, LOG, CASES, *_OTHERS)
ACTIVE, RUNS = "farm:active", "farm:runs"

CREATION_SECONDS = 3600  # what a submitter prepared and never used is gone after that
WORD_BYTES = 8  # before every result: which write it came by


def key_of(run_id: str, suffix: str = "") -> str:
    """Name one of a run's keys."""
    return f"{PREFIX}{run_id}{suffix}"


def name_of(job: CaseJob) -> str:
    """Name a trial within its run."""
    return f"{job.trial}:{job.case_id}"


def job_of(run_id: str, name: bytes) -> CaseJob:
    """Give the trial of a name."""
    trial, _, case_id = name.decode().partition(":")
    return CaseJob(run_id=run_id, case_id=case_id, trial=int(trial))
