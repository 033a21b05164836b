"""Turn any spelling of a tool's name into the one name used everywhere."""

from __future__ import annotations

from functools import lru_cache

ALIASES: dict[str, tuple[str, ...]] = {
    "Read": ("read_file",),
    "Write": ("write_file",),
    "Edit": ("edit_file",),
    "Bash": ("execute_command",),
    "Glob": ("glob_files",),
    "Grep": ("search_files",),
    "Task": ("Agent",),  # Claude Code lists it as Task and calls it Agent
    "WebFetch": ("web_fetch",),
    "WebSearch": ("web_search",),
    "NotebookEdit": ("notebook_edit",),
    "AskUserQuestion": ("ask_user", "ask_user_question"),
    "TodoWrite": ("todo_write",),
    "KillShell": ("kill_shell",),
    "TaskOutput": ("task_output",),
    "Skill": (),
}

# Real tools without aliases. Listed so that nobody is told "did you mean TaskOutput?" for BashOutput.
OTHER_TOOLS = (
    "BashOutput",
    "ExitPlanMode",
    "EnterPlanMode",
    "KillBash",
    "LS",
    "MultiEdit",
    "NotebookRead",
    "SlashCommand",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskStop",
    "TaskUpdate",
    "TodoRead",
    "ToolSearch",
)

# The parameters of Claude Code's own tools. Other agents may have others: only a slip of one is suspicious.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "Read": ("file_path", "offset", "limit", "pages"),
    "Write": ("file_path", "content"),
    "Edit": ("file_path", "old_string", "new_string", "replace_all"),
    "Bash": ("command", "timeout", "description", "run_in_background"),
    "Glob": ("pattern", "path"),
    "Grep": ("pattern", "path", "glob", "output_mode", "type", "multiline", "head_limit"),
    "Task": ("description", "prompt", "subagent_type", "model"),
    "WebFetch": ("url", "prompt"),
    "WebSearch": ("query", "allowed_domains", "blocked_domains"),
    "Skill": ("skill", "args", "command"),
}

_CANONICAL = {
    spelling.casefold(): name
    for name, aliases in (*ALIASES.items(), *((other, ()) for other in OTHER_TOOLS))
    for spelling in (name, *aliases)
}


def canonical_tool_name(name: str) -> str:
    """Give the tool's own name for a known tool in any case or alias; any other name as it is.

    An author writes `=Edits` for a tool that is really called so, and is no slip of Edit.
    """
    name = name.removeprefix("=")
    return _CANONICAL.get(name.casefold(), name)


@lru_cache(maxsize=4096)  # bounded: an agent can make up names without end
def tool_key(name: str) -> str:
    """What two spellings of the same tool have in common; tool names are case-insensitive."""
    return canonical_tool_name(name).casefold()


def nearly_known_tool(name: str) -> str | None:
    """Name the known tool that an unknown name is most likely a slip of, if there is one."""
    spelling = name.casefold()
    if spelling in _CANONICAL or len(spelling) < 4 or spelling.startswith("="):
        return None
    for known, canonical in _CANONICAL.items():
        if _is_slip(spelling, known):
            return canonical
    return None


def nearly_known_parameter(tool: str, name: str) -> str | None:
    """Name the parameter of a known tool that an unknown one is most likely a slip of, if there is one."""
    known = PARAMETERS.get(canonical_tool_name(tool), ())
    # `filePath` is how other agents spell it, and no slip.
    if name in known or any(_plain(name) == _plain(other) for other in known):
        return None
    for other in known:
        if len(name) >= 3 and _is_slip(name.casefold(), other):
            return other
    return None


def _is_slip(word: str, known: str) -> bool:
    slips = 1 if len(known) <= 5 else 2
    return abs(len(known) - len(word)) <= slips and _edits(word, known) <= slips


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


def _edits(a: str, b: str) -> int:
    """Count the insertions, deletions, replacements and swaps of neighbours between two words."""
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, char in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (char != other))
            if i > 1 and j > 1 and char == b[j - 2] and a[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]
