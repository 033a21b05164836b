"""Turn a case's input messages into the one text that a program is asked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from farm.model.messages import Message, ToolCall, content_text, is_content_part
from farm.model.patterns import text_of

# What is longer is for the program to read itself, from the path that it is told.
MAX_INCLUDED_BYTES = 64 * 2**10


def prompt_text(messages: Sequence[Message], files: Mapping[str, Path]) -> str:
    """Write the messages one after the other; if not all are the user's, each under its role.

    `files` says where each file that they refer to can be read.
    """
    texts = [_text_of_message(message, files) for message in messages]
    if any(message.role != "user" for message in messages):
        texts = [
            f"{_heading(message)}\n{text}".rstrip() for message, text in zip(messages, texts, strict=True)
        ]
    return "\n\n".join(texts)


def _heading(message: Message) -> str:
    return f"{message.role.capitalize()}{f' ({message.name})' if message.name else ''}:"


def _text_of_message(message: Message, files: Mapping[str, Path]) -> str:
    said = _text_of_content(message.content, files)
    return "\n".join([*([said] if said else []), *map(_text_of_call, message.tool_calls)])


def _text_of_content(content: object, files: Mapping[str, Path]) -> str:
    if not isinstance(content, list) or not all(is_content_part(part) for part in content):
        return content_text(content)
    return "\n".join(
        part["value"] if part["type"] == "text" else _text_of_file(files[part["value"]]) for part in content
    )


def _text_of_file(path: Path) -> str:
    """Tell a file's path, and what is in it if that is text of a bearable length."""
    with path.open("rb") as file:
        content = file.read(MAX_INCLUDED_BYTES + 1)
    is_short = len(content) <= MAX_INCLUDED_BYTES
    try:
        lines = content.decode().removesuffix("\n")
    except UnicodeDecodeError:
        lines = "\0"
    if is_short and "\0" not in lines:
        return f'<file path="{path}">\n{lines}\n</file>'
    return f'<file path="{path}"/>'


def _text_of_call(call: ToolCall) -> str:
    output = "" if call.output is None else f" → {text_of(call.output)}"
    return f"[{call.tool} {text_of(call.input or {})}{output}]"
