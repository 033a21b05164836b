"""Assemble report.html: one file with its style, its script and its data, in which nothing else can run."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from farm.model.report import SuiteReport
from farm.reporting.html.embedding import embed
from farm.reporting.json import dump_report
from farm.reporting.report_file import ReportFile

# One script, in this order: each part uses what stands above it.
_SCRIPTS = ("elements.js", "data.js", "table.js", "conversation.js", "changes.js", "details.js", "main.js")
_DATA = "{{data}}"


def write_page(report: ReportFile, target: IO[bytes]) -> None:
    """Write the page of a report that lies beside its transcripts."""
    before, after = _template()
    target.write(before)
    embed(report, target)
    target.write(after)


def render_page(report: SuiteReport) -> bytes:
    """Give the page of a report without any transcripts."""
    with TemporaryDirectory(prefix="farm-page-") as name:
        path = Path(name) / "report.json"
        path.write_bytes(dump_report(report))
        target = BytesIO()
        write_page(ReportFile(path), target)
        return target.getvalue()


@cache
def _template() -> tuple[bytes, bytes]:
    """Give what stands before and after the data."""
    parts = files(__package__)
    style = parts.joinpath("page.css").read_text(encoding="utf-8")
    code = "\n".join(parts.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'(() => {{\n"use strict";\n{code}}})();\n'
    page = parts.joinpath("page.html").read_text(encoding="utf-8")
    filled = (
        page.replace("{{style_hash}}", _hash(style))
        .replace("{{script_hash}}", _hash(script))
        .replace("{{style}}", style)
        .replace("{{script}}", script)
    )
    before, _, after = filled.partition(_DATA)
    return before.encode(), after.encode()


def _hash(text: str) -> str:
    """Name what a Content-Security-Policy lets through, by what it is."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
