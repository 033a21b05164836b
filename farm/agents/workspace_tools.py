"""Carry out Read, Write, Edit, Bash, Glob and Grep in a workspace, with Claude Code's parameters.

File tools stay inside the workspace, links included. What a tool can't do is an answer to the agent, never
an exception of ours; only what ends the whole session is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from farm.agents.workspace_search import Search, find_files, search_files
from farm.errors import FarmError, SessionError
from farm.sessions.process import CommandNotStartedError, check_not_stopped, run_process
from farm.sessions.sandbox import Sandbox
from farm.sessions.workspace import Workspace

MAX_OUTPUT_CHARACTERS = 30_000
DEFAULT_BASH_TIMEOUT_SECONDS = 120.0

_MAX_FILE_BYTES = 10 * 2**20
_MAX_LINE_CHARACTERS = 2000  # of a line that Grep finds
_DEFAULT_READ_LINES = 2000


@dataclass(frozen=True)
class ToolResult:
    """What a tool answers."""

    output: str
    is_error: bool = False
    is_partial: bool = False  # there is more, left out because it would not be shown


class ToolError(FarmError):
    """A tool can't do what was asked; its text is the answer to the agent."""


@dataclass(frozen=True)
class ToolUse:
    """One use of a tool: where, with what input, within what time."""

    workspace: Workspace
    input: Mapping[str, object]
    env: Mapping[str, str]
    timeout_seconds: float
    stop: threading.Event = field(default_factory=threading.Event)
    sandbox: Sandbox | None = None
    readable: Path | None = None  # another of the trial's directories that may be read, and not written
    redact: Callable[[str], str] = str  # takes out secrets, before a cut could leave half of one

    def text(self, name: str, default: str | None = None) -> str:
        """Get a text parameter; one without a default is required."""
        value = self.input.get(name, default)
        if not isinstance(value, str):
            raise ToolError(f"{name} must be a string" if name in self.input else f"{name} is missing")
        return value

    def whole_number(self, name: str, default: int) -> int:
        """Get a parameter that must be a whole number from 1."""
        value = self.input.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ToolError(f"{name} must be a whole number from 1")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Get a parameter that must be true or false."""
        value = self.input.get(name, default)
        if not isinstance(value, bool):
            raise ToolError(f"{name} must be true or false")
        return value

    def path(self, name: str, default: str | None = None, *, to_read: bool = False) -> Path:
        """Get a path parameter, its links resolved, which must lie in the workspace.

        Between this and its use nobody can put a link there: what a command leaves running is killed with it.
        """
        given = self.text(name, default)
        allowed = [self.workspace.directory, *([self.readable] if to_read and self.readable else [])]
        # Only what holds the trial's directories is resolved: in their place the agent may have put links.
        root = self.workspace.root.resolve()
        roots = [root / directory.relative_to(self.workspace.root) for directory in allowed]
        try:
            path = (roots[0] / given).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise ToolError(f"{given!r} is no usable path: {error}") from None
        if not any(path.is_relative_to(root) for root in roots):
            raise ToolError(f"{given} is outside the workspace")
        return path


def run_workspace_tool(tool: str, use: ToolUse) -> ToolResult:
    """Carry out one of WORKSPACE_TOOLS."""
    carry_out, parameters = WORKSPACE_TOOLS[tool]
    try:
        if unknown := sorted(use.input.keys() - parameters):
            raise ToolError(f"{tool} has no parameter {', '.join(unknown)}")
        result = carry_out(use)
    except SessionError:
        raise
    except FarmError as error:
        result = ToolResult(str(error), is_error=True)
    # ValueError: text that has no UTF-8 form. The last two: what an agent makes may be deep or large.
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        result = ToolResult(f"{tool} failed: {str(error) or type(error).__name__}", is_error=True)
    output = use.redact(_encodable(result.output))
    return ToolResult(_shorten(output, is_partial=result.is_partial), result.is_error)


def _read(use: ToolUse) -> ToolResult:
    path = use.path("file_path", to_read=True)
    first = use.whole_number("offset", 1)
    lines = _read_text(path).split("\n")
    chosen = lines[first - 1 : first - 1 + use.whole_number("limit", _DEFAULT_READ_LINES)]
    return _join(f"{number}\t{line}" for number, line in enumerate(chosen, first))


def _write(use: ToolUse) -> ToolResult:
    path, content = use.path("file_path"), use.text("content")
    done = "updated" if path.exists() else "created"
    _write_text(path, content)
    return ToolResult(f"File {done} successfully at: {path}")


def _edit(use: ToolUse) -> ToolResult:
    path, old, new = use.path("file_path"), use.text("old_string"), use.text("new_string")
    if old == new:
        raise ToolError("old_string and new_string are the same")
    if not old:
        if path.exists():
            raise ToolError("old_string is empty, and the file exists already")
        _write_text(path, new)
        return ToolResult(f"File created successfully at: {path}")
    text = _read_text(path)
    found = text.count(old)
    if not found:
        raise ToolError("old_string is not in the file")
    if found > 1 and not use.flag("replace_all"):
        raise ToolError(f"old_string is in the file {found} times; make it unique, or set replace_all")
    _check_size(path, _size(text) + found * (_size(new) - _size(old)))  # before it takes up memory
    _write_text(path, text.replace(old, new))
    return ToolResult(f"The file {path} has been updated successfully")


def _bash(use: ToolUse) -> ToolResult:
    asked = use.whole_number("timeout", int(DEFAULT_BASH_TIMEOUT_SECONDS * 1000)) / 1000
    try:
        result = run_process(
            use.text("command"),
            cwd=use.workspace.directory,
            env=use.workspace.environment(use.env),
            timeout_seconds=min(asked, use.timeout_seconds),
            stop=use.stop,
            sandbox=use.sandbox,
        )
    except CommandNotStartedError as error:
        raise ToolError(str(error)) from error
    check_not_stopped(use.stop)
    output = "\n".join(
        text
        for stream in (result.stdout, result.stderr)
        if (text := stream.decode(errors="replace").rstrip("\n"))
    )
    if result.timed_out:
        return ToolResult(
            f"Command timed out after {min(asked, use.timeout_seconds):g} s\n{output}", is_error=True
        )
    if result.exit_code != 0:
        return ToolResult(f"Exit code {result.exit_code}\n{output}", is_error=True)
    return ToolResult(output)


def _glob(use: ToolUse) -> ToolResult:
    directory = use.path("path", ".", to_read=True)
    names = find_files(directory, use.text("pattern"), _time_check(use))
    return _join((str(directory / name) for name in names), otherwise="No files found")


def _grep(use: ToolUse) -> ToolResult:
    search = Search(
        use.text("pattern"),
        glob=use.text("glob", "**"),
        output_mode=use.text("output_mode", "files_with_matches"),
        ignore_case=use.flag("-i"),
        line_numbers=use.flag("-n", default=True),
        show=lambda line: _shorten_line(use.redact(line)),
    )
    found = search_files(use.path("path", ".", to_read=True), search, _time_check(use))
    # More lines would not be shown, for a line has a character.
    limit = min(use.whole_number("head_limit", MAX_OUTPUT_CHARACTERS), MAX_OUTPUT_CHARACTERS)
    return _join(islice(found, limit), otherwise="No matches found")


def _time_check(use: ToolUse) -> Callable[[], None]:
    """Give what ends a search in this process, as a command is ended: when it is stopped, or too long."""
    deadline = time.monotonic() + min(DEFAULT_BASH_TIMEOUT_SECONDS, use.timeout_seconds)

    def check() -> None:
        check_not_stopped(use.stop)
        if time.monotonic() > deadline:
            raise ToolError("the search takes too long; search fewer files")

    return check


# Which parameters each tool has; `description` is for people who watch.
WORKSPACE_TOOLS: dict[str, tuple[Callable[[ToolUse], ToolResult], frozenset[str]]] = {
    "Read": (_read, frozenset({"file_path", "offset", "limit"})),
    "Write": (_write, frozenset({"file_path", "content"})),
    "Edit": (_edit, frozenset({"file_path", "old_string", "new_string", "replace_all"})),
    "Bash": (_bash, frozenset({"command", "timeout", "description"})),
    "Glob": (_glob, frozenset({"pattern", "path"})),
    "Grep": (_grep, frozenset({"pattern", "path", "glob", "output_mode", "-i", "-n", "head_limit"})),
}


def _read_text(path: Path) -> str:
    _require_file(path)
    if path.stat().st_size > _MAX_FILE_BYTES:
        raise ToolError(f"{path} is larger than {_MAX_FILE_BYTES} bytes")
    # Bytes that are no UTF-8 must come back unchanged when an edited file is written.
    return path.read_bytes().decode(errors="surrogateescape")


def _write_text(path: Path, text: str) -> None:
    if path.exists():
        _require_file(path)
    content = text.encode(errors="surrogateescape")
    _check_size(path, len(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))


def _check_size(path: Path, size_bytes: int) -> None:
    if size_bytes > _MAX_FILE_BYTES:
        raise ToolError(
            f"{path} would have {size_bytes} bytes, and no file may have more than {_MAX_FILE_BYTES}"
        )


def _require_file(path: Path) -> None:
    if not path.exists():
        raise ToolError(f"{path} does not exist")
    if not path.is_file():  # to open a pipe would wait for ever
        raise ToolError(f"{path} is not a file")


def _join(lines: Iterable[str], *, otherwise: str = "") -> ToolResult:
    """Give as many lines as can be shown, and the one that goes beyond."""
    taken = []
    room = MAX_OUTPUT_CHARACTERS + 1  # the last line is followed by no other
    for line in lines:
        taken.append(line)
        room -= len(line) + 1
        if room < 0:
            return ToolResult("\n".join(taken), is_partial=True)
    return ToolResult("\n".join(taken) or otherwise)


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _shorten_line(line: str) -> str:
    more = len(line) - _MAX_LINE_CHARACTERS
    return line if more <= 0 else f"{line[:_MAX_LINE_CHARACTERS]}… {more} more characters"


def _shorten(text: str, *, is_partial: bool) -> str:
    more = len(text) - MAX_OUTPUT_CHARACTERS
    if is_partial:
        return f"{text[:MAX_OUTPUT_CHARACTERS]}\n… and more"
    return text if more <= 0 else f"{text[:MAX_OUTPUT_CHARACTERS]}\n… {more} more characters"
