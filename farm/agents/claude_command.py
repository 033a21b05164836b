"""Turn a session into the command that runs Claude Code on it, with nothing of the host's in it.

Loaded are the project's own CLAUDE.md, settings, skills, agents and hooks; nothing of the user's, no memory,
no MCP server that was not asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from farm.agents.attachments import copy_attachments
from farm.agents.base import Session
from farm.agents.cli_program import CliProgram
from farm.agents.headless import HeadlessCommand, secrets_from_environment
from farm.agents.prompt import prompt_text
from farm.agents.proxies import past_proxies
from farm.errors import SessionError
from farm.model.agent import ClaudeSpec

# Where Claude Code is, if not in PATH.
PROGRAM = CliProgram("claude", "FARM_CLAUDE_PATH", "@anthropic-ai/claude-code")

_SWITCHES = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "DISABLE_AUTOUPDATER": "1",
}
# Linux takes no longer argument than 128 KiB.
_MAX_ARGUMENT_BYTES = 100_000
# Of a session that may only answer: the CLI's own, for one with tools, is long and would be paid for.
_ANSWER_ONLY = "Answer what you are asked. You have no tools to work with."


def config_directory(session: Session) -> Path:
    """Say where the CLI has its settings and its logs."""
    return session.workspace.config / "claude"


def make_command(session: Session, spec: ClaudeSpec, session_id: str) -> HeadlessCommand:
    """Decide how a session is started; writes what the CLI has to read into its config directory."""
    program = PROGRAM.require(spec.executable)
    files = copy_attachments(session, session.workspace.config / "files")
    prompt = prompt_text(session.case.input_messages, files)
    # The CLI would take a leading hyphen for an option.
    fits = not prompt.startswith("-") and "\0" not in prompt
    fits = fits and len(prompt.encode(errors="replace")) <= _MAX_ARGUMENT_BYTES
    return HeadlessCommand(
        # The prompt first: a list option would take it for one more of its values.
        argv=(
            *(str(program), "-p", *([prompt] if fits else [])),
            *("--session-id", session_id),
            *_arguments(session, spec, bool(files)),
        ),
        env=_environment(session, spec),
        stdin=b"" if fits else prompt.encode(errors="replace"),
        program=program,
    )


def _environment(session: Session, spec: ClaudeSpec) -> dict[str, str]:
    config = config_directory(session)
    config.mkdir(exist_ok=True)
    env = {
        **secrets_from_environment(spec.secrets),
        **_SWITCHES,
        "CLAUDE_CONFIG_DIR": str(config),
        "CLAUDE_CODE_TMPDIR": str(session.workspace.tmp),
    }
    if os.geteuid() == 0:
        env["IS_SANDBOX"] = "1"  # as root, the CLI else refuses to bypass permissions
    if spec.api_timeout_seconds is not None:
        env["API_TIMEOUT_MS"] = str(round(spec.api_timeout_seconds * 1000))
    if spec.max_retries is not None:
        env["CLAUDE_CODE_MAX_RETRIES"] = str(spec.max_retries)
    if spec.base_url is not None:
        env["ANTHROPIC_BASE_URL"] = spec.base_url
        env |= past_proxies(spec.base_url)
    return env


def _arguments(session: Session, spec: ClaudeSpec, has_files: bool) -> Iterator[str]:
    yield from ("--output-format", "stream-json", "--verbose", "--strict-mcp-config")
    yield from ("--setting-sources", ",".join(spec.setting_sources))
    options = {
        "--permission-mode": spec.permission_mode,
        "--model": session.model,
        "--max-turns": session.case.max_turns or spec.max_turns,
        "--max-budget-usd": session.case.max_cost_usd or spec.max_budget_usd,
        "--append-system-prompt": spec.append_system_prompt,
        "--system-prompt": None if session.tools else _ANSWER_ONLY,
        "--json-schema": None if session.answer_schema is None else json.dumps(session.answer_schema),
    }
    for name, value in options.items():
        if value is not None:
            yield from (name, str(value))
    yield from spec.extra_args
    if not session.tools:
        yield from ("--tools", "")
        return  # what follows is about tools, and files for them
    lists = {
        "--allowedTools": spec.allowed_tools,
        "--disallowedTools": spec.disallowed_tools,
        "--mcp-config": (_mcp_file(session, spec),) if spec.mcp_config is not None else (),
        # They lie beside the workspace, where not every permission mode lets the agent read.
        "--add-dir": (str(session.workspace.config / "files"),) if has_files else (),
    }
    for name, values in lists.items():
        if values:
            yield from (name, *values)


def _mcp_file(session: Session, spec: ClaudeSpec) -> str:
    if isinstance(spec.mcp_config, str):
        path = session.workspace.directory / spec.mcp_config
        if not path.is_file():
            message = f'the workspace has no file "{spec.mcp_config}", which `mcp_config` names'
            raise SessionError("missing_file", message, retryable=False)
        return str(path)
    path = session.workspace.config / "mcp.json"
    path.write_text(json.dumps(spec.mcp_config), encoding="utf-8")
    return str(path)
