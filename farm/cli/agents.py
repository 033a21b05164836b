"""`farm agents`: list the agents that cases can name, and which of them can run here."""

from __future__ import annotations

import json
import os
import shutil
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from farm.agents.anthropic_api import sdk_version
from farm.agents.availability import ask_agents
from farm.agents.base import Availability
from farm.agents.cli_program import ask_version
from farm.agents.scripted_api import scenario_file
from farm.cli.options import echo, painter
from farm.model.agent import AGENT_ALIASES, AGENT_SPECS, DEFAULT_AGENT, AgentBase, AnthropicSpec, CommandSpec
from farm.reporting.terminal import safe
from farm.settings import Settings, find_root, load_settings


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """List the agents that a case can name, every kind and those of farm.yaml, and which can run here.

    For one that can't, it says what is missing and what to do; `!` marks one that can, and has no key. An
    asterisk marks the agent of cases that name none.
    """
    settings = load_settings(find_root([Path.cwd()]))
    rows = list(_rows(settings, ask_agents()))
    if arguments.json:
        echo(json.dumps([asdict(row) for row in rows], indent=2))
        return 0
    paint = painter()
    width = max(len(row.shown) for row in rows)
    for row in rows:
        echo(f"{paint(*row.mark)} {row.shown:<{width}}  {safe(row.about)}".rstrip())
    return 0


@dataclass(frozen=True)
class Row:
    """An agent in a line."""

    name: str
    kind: str
    usable: bool
    version: str | None
    reason: str | None  # why it can't run here, and what to do
    model: str | None
    default: bool
    command: str | None = None
    no_key: str | None = None  # where it would look for one

    @property
    def mark(self) -> tuple[str, str]:
        """What stands before it, and in which colour."""
        if not self.usable:
            return "✗", "red"
        return ("!", "yellow") if self.no_key else ("✓", "green")

    @property
    def shown(self) -> str:
        """The name, with the kind if that is another."""
        name = self.name if self.name == self.kind else f"{self.name} ({self.kind})"
        return safe(f"{name} *" if self.default else name)

    @property
    def about(self) -> str:
        """What there is to say of it."""
        if not self.usable:
            return self.reason or ""
        return ", ".join(filter(None, (self.version, self.model, self.command, self.no_key)))


def _rows(settings: Settings, found: Mapping[str, Availability]) -> Iterator[Row]:
    default = settings.agent or DEFAULT_AGENT
    if default not in settings.agents:
        default = AGENT_ALIASES.get(default, default)
    specs: dict[str, AgentBase | None] = dict.fromkeys(AGENT_SPECS)
    specs |= settings.agents  # one of these may have the name of a kind
    for name, spec in specs.items():
        kind = spec.kind if spec is not None else name
        availability = _own_program(spec) or _own_key(spec) or found[kind]
        yield Row(
            name=name,
            kind=kind,
            usable=availability.usable,
            version=availability.version,
            reason=availability.reason,
            model=spec.model if spec is not None else None,
            default=name == default,
            command=spec.command if isinstance(spec, CommandSpec) else None,
            no_key=_no_key(spec or AGENT_SPECS[kind].model_construct(kind=kind)),
        )


def _no_key(spec: AgentBase) -> str | None:
    """Say that an agent has no key, and where it would be; None if it has one, or needs none."""
    names: tuple[str, ...] = getattr(spec, "secrets", ())
    if not names or scenario_file(spec) or any(os.environ.get(name) or spec.env.get(name) for name in names):
        return None
    return f"no key: {' or '.join(names)} is not set"


def _own_key(spec: AgentBase | None) -> Availability | None:
    """Look for the key that an agent of farm.yaml has instead of the usual one; a scripted API needs none."""
    version = sdk_version()
    if not isinstance(spec, AnthropicSpec) or version is None or _no_key(spec):
        return None
    return Availability(usable=True, version=f"SDK {version}")


def _own_program(spec: AgentBase | None) -> Availability | None:
    """Look for the program that an agent of farm.yaml names instead of the usual one."""
    executable: str | None = getattr(spec, "executable", None)
    if executable is None:
        return None
    program = shutil.which(executable)
    if program is None:
        told = f'there is no program "{executable}", which its `executable` in farm.yaml names'
        return Availability(usable=False, reason=told)
    return ask_version(Path(program).absolute())
