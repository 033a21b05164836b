"""Turn a SuiteReport into report.json and back. The same report always gives the same bytes."""

from __future__ import annotations

import json

from farm.errors import FarmError
from farm.model.report import REPORT_SCHEMA, SuiteReport


def dump_report(report: SuiteReport) -> bytes:
    """Write a report as JSON."""
    data = {"schema": REPORT_SCHEMA, **report.model_dump(mode="json")}
    # Lone surrogates from an agent's output have no UTF-8 form; JSON can escape them.
    text = json.dumps(data, ensure_ascii=False, indent=2)
    return text.encode("utf-8", "replace") + b"\n"


def is_report(data: bytes) -> bool:
    """Say whether these bytes are a report of this farm."""
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(raw, dict) and raw.get("schema") == REPORT_SCHEMA


def parse_report(data: bytes) -> SuiteReport:
    """Read a report that dump_report wrote."""
    raw = json.loads(data)
    if raw.pop("schema", None) != REPORT_SCHEMA:
        raise FarmError(f'not a report of this farm: its "schema" is not {REPORT_SCHEMA}')
    return SuiteReport.model_validate(raw)
