"""The `opencode` agent: the OpenCode CLI, headless, with XDG directories of the trial's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from farm.agents.attachments import copy_attachments
from farm.agents.base import Session
from farm.agents.cli_program import CliProgram
from farm.agents.headless import HeadlessAgent, HeadlessCommand, secrets_from_environment
from farm.agents.opencode_stream import OpencodeStream
from farm.agents.prompt import prompt_text
from farm.agents.proxies import past_proxies
from farm.errors import SessionError
from farm.model.agent import OpencodeSpec

# Where OpenCode is, if not in PATH.
PROGRAM = CliProgram("opencode", "FARM_OPENCODE_PATH", "opencode-ai")

_SWITCHES = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}
_DIRECTORIES = ("config", "data", "state", "cache")


def make_command(session: Session, spec: OpencodeSpec) -> HeadlessCommand:
    """Decide how a session is started."""
    program = PROGRAM.require(spec.executable)
    files = copy_attachments(session, session.workspace.config / "files")
    own = session.workspace.config / "opencode"
    env = {
        **secrets_from_environment(spec.secrets),
        **_SWITCHES,
        **{f"XDG_{name.upper()}_HOME": str(own / name) for name in _DIRECTORIES},
        "OPENCODE_CONFIG_CONTENT": json.dumps(_config(session, spec)),
    }
    if spec.base_url is not None:
        env |= past_proxies(spec.base_url)
    return HeadlessCommand(
        argv=(str(program), "run", *_arguments(session, spec)),
        env=env,
        # On stdin, however it begins and however long it is.
        stdin=prompt_text(session.case.input_messages, files).encode(errors="replace"),
        program=program,
    )


def _arguments(session: Session, spec: OpencodeSpec) -> Iterator[str]:
    yield from ("--format", "json")
    # Else a model is asked for one, and paid.
    yield f"--title={session.case.id[:100]}"
    if session.tools:
        yield "--auto"  # approves what is not denied: there is nobody who could be asked
    if session.model is not None:
        yield from ("--model", session.model)
    yield from spec.extra_args


def _config(session: Session, spec: OpencodeSpec) -> dict[str, Any]:
    config: dict[str, Any] = {"autoupdate": False, "share": "disabled"}
    if not session.tools:
        config |= {"permission": {"*": "deny"}, "tools": {"*": False}}
    if spec.base_url is not None:
        provider, _, model = (session.model or "").partition("/")
        if not model:
            message = "`base_url` is that of a provider: the model must name it, as in `anthropic/some-model`"
            raise SessionError("bad_request", message, retryable=False)
        config["provider"] = {provider: {"options": {"baseURL": spec.base_url}}}
    return config


AGENT = HeadlessAgent(PROGRAM, make_command, OpencodeStream)
