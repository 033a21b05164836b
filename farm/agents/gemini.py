"""The `gemini` agent: the Gemini CLI, headless, with settings of the farm's and a home of the trial's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farm.agents.attachments import copy_attachments
from farm.agents.base import Availability, Session
from farm.agents.cli_program import CliProgram, ask_version
from farm.agents.gemini_stream import GeminiStream
from farm.agents.headless import HeadlessCommand, past_proxies, run_headless, secrets_from_environment
from farm.agents.prompt import prompt_text
from farm.model.agent import GeminiSpec
from farm.model.transcript import Transcript

# Where Gemini is, if not in PATH.
PROGRAM = CliProgram("gemini", "FARM_GEMINI_PATH", "@google/gemini-cli")

_NO_TOOL = "none"  # a list of allowed tools must name something


class GeminiAgent:
    """Runs the Gemini CLI."""

    acts = True

    def availability(self) -> Availability:
        """Say whether the CLI is here and runs."""
        return PROGRAM.availability()

    def run(self, session: Session) -> Transcript:
        """Run the CLI in the workspace; its exit code and its result say whether there is a record."""
        assert isinstance(session.spec, GeminiSpec)
        command = make_command(session, session.spec)
        transcript = run_headless(session, command, GeminiStream())
        return transcript.model_copy(update={"agent_version": ask_version(command.program).version})


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
