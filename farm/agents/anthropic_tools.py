"""Tell the Messages API of the tools that the farm carries out in a workspace."""

from __future__ import annotations

from typing import Any

from farm.agents.workspace_search import OUTPUT_MODES
from farm.model.agent import WORKSPACE_TOOLS, AnthropicSpec

_PATH = "relative to the working directory, or absolute inside it"


def tool_definitions(spec: AnthropicSpec) -> list[dict[str, Any]]:
    """Give the tools that an agent may use, as a request names them."""
    allowed = WORKSPACE_TOOLS if spec.allowed_tools is None else spec.allowed_tools
    return [_DEFINITIONS[name] for name in allowed if name not in spec.disallowed_tools]


def _tool(name: str, about: str, required: dict[str, Any], /, **optional: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": about,
        "input_schema": {
            "type": "object",
            "properties": {**required, **optional},
            "required": list(required),
            "additionalProperties": False,
        },
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _number(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "description": description}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


_FILE_PATH = {"file_path": _text(f"the file, {_PATH}")}

_DEFINITIONS: dict[str, dict[str, Any]] = {
    tool["name"]: tool
    for tool in (
        _tool(
            "Read",
            "Read a text file. Each line comes with its number.",
            _FILE_PATH,
            offset=_number("the first line to read"),
            limit=_number("how many lines to read"),
        ),
        _tool(
            "Write",
            "Write a file, with its directories; one that exists is replaced.",
            {**_FILE_PATH, "content": _text("all that the file is to hold")},
        ),
        _tool(
            "Edit",
            "Replace text in a file. It must stand there exactly once, unless replace_all is set.",
            {
                **_FILE_PATH,
                "old_string": _text("what to replace; empty to create a new file"),
                "new_string": _text("what to put in its place"),
            },
            replace_all=_flag("replace it wherever it stands"),
        ),
        _tool(
            "Bash",
            "Run a shell command in the working directory and give what it printed. It gets no input, and "
            "what it leaves in the background is ended with it.",
            {"command": _text("the command")},
            timeout=_number("the most milliseconds that it may take"),
            description=_text("what it does, in a few words"),
        ),
        _tool(
            "Glob",
            "List files by a pattern such as **/*.py.",
            {"pattern": _text("the pattern; ** spans directories")},
            path=_text(f"the directory to look in, {_PATH}"),
        ),
        _tool(
            "Grep",
            "Search files for a regular expression.",
            {"pattern": _text("the regular expression")},
            path=_text(f"the file or directory to search, {_PATH}"),
            glob=_text("which files to search"),
            output_mode={"type": "string", "enum": list(OUTPUT_MODES)},
            **{"-i": _flag("ignore case"), "-n": _flag("show line numbers with content")},
            head_limit=_number("give no more lines of output than this"),
        ),
    )
}
