"""The `codex` agent: the Codex CLI, headless, with a CODEX_HOME of the trial's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from farm.agents.attachments import copy_attachments
from farm.agents.base import Session
from farm.agents.cli_program import CliProgram
from farm.agents.codex_stream import CodexStream
from farm.agents.headless import HeadlessAgent, HeadlessCommand, secrets_from_environment
from farm.agents.prompt import prompt_text
from farm.agents.proxies import past_proxies
from farm.model.agent import CodexSpec

# Where Codex is, if not in PATH.
PROGRAM = CliProgram("codex", "FARM_CODEX_PATH", "@openai/codex")

_KEY = "CODEX_API_KEY"  # the one that it reads without a login
# Nothing that is not the task: no statistics, no look for updates, no memory of other sessions.
_SETTINGS = ("analytics.enabled=false", "check_for_update_on_startup=false", 'history.persistence="none"')
_TOOLS = ("shell_tool", "unified_exec", "multi_agent", "goals", "image_generation", "view_image")


def make_command(session: Session, spec: CodexSpec) -> HeadlessCommand:
    """Decide how a session is started; writes what the CLI has to read into its config directory."""
    program = PROGRAM.require(spec.executable)
    files = copy_attachments(session, session.workspace.config / "files")
    home = session.workspace.config / "codex"
    home.mkdir(exist_ok=True)
    env = {**secrets_from_environment(spec.secrets), "CODEX_HOME": str(home)}
    effective = {**env, **spec.env, **session.case.env}
    key = next((name for name in spec.secrets if name in effective), None)
    if spec.base_url is not None:
        env |= past_proxies(spec.base_url)
    elif key is not None:
        env[_KEY] = effective[key]
    return HeadlessCommand(
        # A hyphen: the prompt comes on stdin, however it begins and however long it is.
        argv=(str(program), "exec", *_arguments(session, spec, key), "-"),
        env=env,
        stdin=prompt_text(session.case.input_messages, files).encode(errors="replace"),
        program=program,
        needed=_packages(program),
    )


def _packages(program: Path) -> tuple[Path, ...]:
    """Give where npm put it: what it starts is another package, beside its own."""
    return tuple(path for path in program.resolve().parents if path.name == "node_modules")[:1]


def _arguments(session: Session, spec: CodexSpec, key: str | None) -> Iterator[str]:
    yield from ("--json", "--skip-git-repo-check", "--color", "never")
    if session.tools:
        # What confines the session is the farm's own sandbox; there is nobody who could approve anything.
        yield "--dangerously-bypass-approvals-and-sandbox"
    else:
        yield from ("--sandbox", "read-only", "-c", 'web_search="disabled"')
        for feature in _TOOLS:
            yield from ("--disable", feature)
    if session.model is not None:
        yield from ("--model", session.model)
    if session.answer_schema is not None:
        path = session.workspace.config / "answer.schema.json"
        path.write_text(json.dumps(session.answer_schema), encoding="utf-8")
        yield from ("--output-schema", str(path))
    for setting in (*_SETTINGS, *_provider(spec, key)):
        yield from ("-c", setting)
    yield from spec.extra_args


def _provider(spec: CodexSpec, key: str | None) -> Iterator[str]:
    """Name another provider than its own: only that of such a one can be told, and it needs no login."""
    if spec.base_url is None:
        return
    provider: Mapping[str, str] = {
        "name": "farm",
        "base_url": spec.base_url,
        "wire_api": "responses",
        **({"env_key": key} if key is not None else {}),
    }
    # TOML, in which a string is written as in JSON.
    yield 'model_provider="farm"'
    yield from (f"model_providers.farm.{name}={json.dumps(value)}" for name, value in provider.items())


AGENT = HeadlessAgent(PROGRAM, make_command, CodexStream)
