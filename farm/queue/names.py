"""The names that submitters and workers must agree on. Tasks are sent by name: neither imports the other."""

from __future__ import annotations

import re

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # also the name of a directory

URL_VARIABLE = "FARM_BROKER_URL"  # where the broker is; without it everything happens on this machine
URL_FILE_VARIABLE = "FARM_BROKER_URL_FILE"  # a file that holds the broker's URL, in place of FARM_BROKER_URL
STORE_VARIABLE = "FARM_STORE_URL"  # where bundles, transcripts and reports are kept; else in the broker
LEASE_VARIABLE = "FARM_LEASE_SECONDS"  # how long a worker may be silent before others do its trials (30)
KEY_VARIABLE = "FARM_SIGNING_KEY"  # the key that runs are signed with, of at least 32 characters
KEY_FILE_VARIABLE = "FARM_SIGNING_KEY_FILE"  # a file that holds the key, in place of FARM_SIGNING_KEY
KEY_DAYS_VARIABLE = "FARM_SIGNING_DAYS"  # how old a signature may be of what a worker carries out (7)
EMBEDDED_VARIABLE = "FARM_EMBEDDED"  # set by the farm: the worker's engine is embedded
AGENTS_VARIABLE = "FARM_AGENTS"  # the kinds of agents that a worker serves; `farm worker --agents` sets it
CACHE_VARIABLE = "FARM_CACHE_DIR"  # where a worker keeps unpacked workspaces
GRACE_VARIABLE = "FARM_GRACE_SECONDS"  # how long sessions may go on when a worker has to end (30); `--grace`
SECRETS_VARIABLE = "FARM_ALLOWED_SECRETS"  # what else of a worker's environment agents may have; `--secrets`
WORKER_NAME_VARIABLE = "FARM_WORKER_NAME"  # what a worker is called in `farm status`; `--name`
METRICS_VARIABLE = "FARM_METRICS"  # where a worker serves figures, such as 9100 or 0.0.0.0:9100; `--metrics`
FLOWER_AUTH_VARIABLE = "FARM_FLOWER_AUTH"  # who may look at `farm flower`: user:password

CARRY_OUT = "farm.carry_out"
AGGREGATE = "farm.aggregate"

CONTROL_QUEUE = "control"  # what any worker can do


def agent_queue(kind: str) -> str:
    """Name the queue of a kind of agent: only workers that have it listen there."""
    return f"agent.{kind}"
