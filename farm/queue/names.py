"""The names that submitters and workers must agree on. Tasks are sent by name: neither imports the other."""

from __future__ import annotations

import re

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # also the name of a directory

URL_VARIABLE = "FARM_BROKER_URL"
URL_FILE_VARIABLE = "FARM_BROKER_URL_FILE"
STORE_VARIABLE = "FARM_STORE_URL"
LEASE_VARIABLE = "FARM_LEASE_SECONDS"
KEY_VARIABLE = "FARM_SIGNING_KEY"
KEY_FILE_VARIABLE = "FARM_SIGNING_KEY_FILE"
KEY_DAYS_VARIABLE = "FARM_SIGNING_DAYS"
EMBEDDED_VARIABLE = "FARM_EMBEDDED"  # for a worker's eyes only: the engine that it belongs to is embedded
AGENTS_VARIABLE = "FARM_AGENTS"
CACHE_VARIABLE = "FARM_CACHE_DIR"
GRACE_VARIABLE = "FARM_GRACE_SECONDS"
SECRETS_VARIABLE = "FARM_ALLOWED_SECRETS"
WORKER_NAME_VARIABLE = "FARM_WORKER_NAME"
METRICS_VARIABLE = "FARM_METRICS"
FLOWER_AUTH_VARIABLE = "FARM_FLOWER_AUTH"

CARRY_OUT = "farm.carry_out"
AGGREGATE = "farm.aggregate"

CONTROL_QUEUE = "control"  # what any worker can do


def agent_queue(kind: str) -> str:
    """Name the queue of a kind of agent: only workers that have it listen there."""
    return f"agent.{kind}"
