"""Turn a session into the first request to the Messages API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farm.agents.anthropic_tools import tool_definitions
from farm.agents.attachments import copy_attachments
from farm.agents.base import Session
from farm.agents.prompt import prompt_text
from farm.model.agent import AnthropicSpec

_SYSTEM = (
    "You work in the directory {directory}, with the tools that you are given. Do what the user asks; once "
    "it is done, answer without a tool."
)


def attachments_directory(session: Session) -> Path:
    """Say where the files lie that the input refers to: beside the workspace."""
    return session.workspace.config / "files"


def make_request(session: Session, spec: AnthropicSpec, model: str) -> dict[str, Any]:
    """Write the request that begins a session; lays out the files that it refers to."""
    tools = tool_definitions(spec) if session.tools else []
    system, messages = _conversation(session)
    if spec.system is not None:
        system.insert(0, spec.system)
    elif tools:
        system.insert(0, _SYSTEM.format(directory=session.workspace.directory))
    request: dict[str, Any] = {"model": model, "max_tokens": spec.max_tokens, "messages": messages}
    if system:
        request["system"] = "\n\n".join(system)
    if tools:
        # Every turn sends the whole conversation once more.
        request |= {"tools": tools, "cache_control": {"type": "ephemeral"}}
    if session.answer_schema is not None:
        from anthropic import transform_schema

        schema = transform_schema(dict(session.answer_schema))
        request["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return request


def _conversation(session: Session) -> tuple[list[str], list[dict[str, Any]]]:
    """Give the case's input as system texts and messages; what the API has no form for is one text."""
    given = session.case.input_messages
    files = copy_attachments(session, attachments_directory(session))
    count = next((index for index, message in enumerate(given) if message.role != "system"), len(given))
    rest = given[count:]
    is_plain = all(message.role in ("user", "assistant") and not message.tool_calls for message in rest)
    # One that ends with the assistant's words asks to go on with them, which models no longer do.
    if not rest or not is_plain or rest[0].role != "user" or rest[-1].role != "user":
        return [], [{"role": "user", "content": prompt_text(given, files)}]
    texts = [prompt_text([message.model_copy(update={"role": "user"})], files) for message in given]
    return texts[:count], [
        {"role": message.role, "content": text} for message, text in zip(rest, texts[count:], strict=True)
    ]
