"""Turn case plans and trial records into the ledger's rows and back. What is too large is a blob."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import zstandard
from pydantic_core import PydanticSerializationError

from farm.errors import FarmError
from farm.model.job import CasePlan, TrialRecord
from farm.queue.blobs import BlobStore, get_bytes, put_bytes
from farm.queue.compression import compress, decompress

_MAX_PLAN_BYTES = 64 * 2**20
_MAX_ROW_BYTES = 64 * 2**10
_BLOB = b"blob:"


class UnreadableRowError(FarmError):
    """What another version of the farm wrote, and this one can't read."""

    exit_code = 3


def dump_plan(plan: CasePlan) -> bytes:
    """Write a plan: mostly defaults, so a quarter of its size once compressed."""
    # Defaults are written all the same: without its `type` no evaluator could be told from another.
    return compress(plan.model_dump_json().encode())


def parse_plan(row: bytes) -> CasePlan:
    """Read a plan."""
    with _clear_errors():
        return CasePlan.model_validate_json(_decompressed(row))


def agent_kind(row: bytes) -> str:
    """Read of a plan only which kind of agent it needs."""
    with _clear_errors():
        kind: str = json.loads(_decompressed(row))["spec"]["kind"]
    return kind


def dump_record(record: TrialRecord, blobs: BlobStore) -> bytes:
    """Write a record, or a reference to it."""
    try:
        data = record.model_dump_json().encode()
    except PydanticSerializationError:
        # An agent's output may hold half a surrogate pair, which has no UTF-8 form.
        data = json.dumps(record.model_dump(mode="json"), ensure_ascii=False).encode("utf-8", "replace")
    return data if len(data) <= _MAX_ROW_BYTES else _BLOB + put_bytes(blobs, data).encode()


def parse_record(row: bytes, blobs: BlobStore) -> TrialRecord:
    """Read a record, wherever it lies."""
    if row.startswith(_BLOB):
        row = get_bytes(blobs, row[len(_BLOB) :].decode())
    with _clear_errors():
        return TrialRecord.model_validate_json(row)


def _decompressed(row: bytes) -> bytes:
    return decompress(row, max_bytes=_MAX_PLAN_BYTES)


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except (ValueError, LookupError, TypeError, zstandard.ZstdError) as error:
        raise UnreadableRowError(
            f"this version of the farm can't read what another one wrote: {type(error).__name__}"
        ) from error
