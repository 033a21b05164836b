"""`farm agents`: list the agents that cases can name, and which of them can run here."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from farm.agents.registry import AGENTS
from farm.cli.options import echo, painter
from farm.model.agent import AGENT_SPECS
from farm.settings import find_root, load_settings


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """List the agents that a case can name, every kind and those of farm.yaml, and which can run here."""
    settings = load_settings(find_root([Path.cwd()]))
    kinds = {
        **{kind: kind for kind in AGENT_SPECS},
        **{name: spec.kind for name, spec in settings.agents.items()},
    }
    rows = []
    for name, kind in kinds.items():
        available = AGENTS[kind].availability()
        rows.append(
            {
                "name": name,
                "kind": kind,
                "usable": available.usable,
                "version": available.version,
                "reason": available.reason,
            }
        )
    if arguments.json:
        echo(json.dumps(rows, indent=2))
        return 0
    paint = painter()
    width = max(len(str(row["name"])) for row in rows)
    for row in rows:
        mark = paint("✓", "green") if row["usable"] else paint("✗", "red")
        kind = "" if row["name"] == row["kind"] else f" ({row['kind']})"
        about = row["version"] if row["usable"] else row["reason"]
        echo(f"{mark} {row['name']:<{width}}{kind}  {about or ''}".rstrip())
    return 0
