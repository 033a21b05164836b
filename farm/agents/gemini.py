"""The `gemini` agent: the Gemini CLI, headless, with settings of the farm's and a home of the trial's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farm.agents.attachments import copy_attachments
from farm.agents.base import Session
from farm.agents.cli_program import CliProgram
from farm.agents.gemini_stream import GeminiStream
from farm.agents.headless import HeadlessAgent, HeadlessCommand, secrets_from_environment
from farm.agents.prompt import prompt_text
from farm.agents.proxies import past_proxies
from farm.model.agent import GeminiSpec

# Where Gemini is, if not in PATH.
PROGRAM = CliProgram("gemini", "FARM_GEMINI_PATH", "@google/gemini-cli")

_NO_TOOL = "none"  # a list of allowed tools must name something


def make_command(session: Session, spec: GeminiSpec) -> HeadlessCommand:
    """Decide how a session is started; writes what the CLI has to read into its config directory."""
    program = PROGRAM.require(spec.executable)
    attached = session.workspace.config / "files"
    files = copy_attachments(session, attached)
    return HeadlessCommand(
        argv=(str(program), *_arguments(session, spec, attached if files else None)),
        env=_environment(session, spec),
        # On stdin, however it begins and however long it is.
        stdin=prompt_text(session.case.input_messages, files).encode(errors="replace"),
        program=program,
    )


def _arguments(session: Session, spec: GeminiSpec, attached: Path | None) -> Iterator[str]:
    yield from ("--output-format", "stream-json", "--yolo", "--skip-trust")
    if session.model is not None:
        yield from ("--model", session.model)
    if attached is not None:  # they lie beside the workspace, where it would not read
        yield from ("--include-directories", str(attached))
    yield from spec.extra_args


def _environment(session: Session, spec: GeminiSpec) -> dict[str, str]:
    home = session.workspace.config / "gemini"
    settings = home / ".gemini/settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps(_settings(session, spec)), encoding="utf-8")
    env = {
        **secrets_from_environment(spec.secrets),
        # Ours are the user's. As the system's they would win over the project's too, but it reads such only
        # from root and from where nobody else can write.
        "GEMINI_CLI_HOME": str(home),
        # No such files: the machine's own are not for a session.
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(home / "system.json"),
        "GEMINI_CLI_SYSTEM_DEFAULTS_PATH": str(home / "defaults.json"),
        "GEMINI_SANDBOX": "false",
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_NO_RELAUNCH": "true",  # it would start itself again, with more memory
    }
    if spec.base_url is not None:
        env["GOOGLE_GEMINI_BASE_URL"] = spec.base_url
        env |= past_proxies(spec.base_url)
    return env


def _settings(session: Session, spec: GeminiSpec) -> dict[str, Any]:
    env = {**spec.env, **session.case.env}
    uses_vertex = env.get("GOOGLE_GENAI_USE_VERTEXAI", "").casefold() in ("true", "1")
    general: dict[str, Any] = {"enableAutoUpdate": False, "enableAutoUpdateNotification": False}
    if spec.max_retries is not None:
        general["maxAttempts"] = spec.max_retries + 1
    max_turns = session.case.max_turns or spec.max_turns
    return {
        "security": {"auth": {"selectedType": "vertex-ai" if uses_vertex else "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": general,
        **({"model": {"maxSessionTurns": max_turns}} if max_turns is not None else {}),
        **({} if session.tools else {"tools": {"core": [_NO_TOOL]}, "mcp": {"allowed": [_NO_TOOL]}}),
    }


AGENT = HeadlessAgent(PROGRAM, make_command, GeminiStream)
