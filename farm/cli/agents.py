"""`farm agents`: list the agents that cases can name, and which of them can run here."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
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
    available = {name: AGENTS[kind].availability() for name, kind in kinds.items()}
    if arguments.json:
        rows = [{"name": name, "kind": kinds[name], **asdict(found)} for name, found in available.items()]
        echo(json.dumps(rows, indent=2))
        return 0
    paint = painter()
    shown = {name: name if name == kind else f"{name} ({kind})" for name, kind in kinds.items()}
    width = max(map(len, shown.values()))
    for name, found in available.items():
        mark = paint("✓", "green") if found.usable else paint("✗", "red")
        about = found.version if found.usable else found.reason
        echo(f"{mark} {shown[name]:<{width}}  {about or ''}".rstrip())
    return 0
