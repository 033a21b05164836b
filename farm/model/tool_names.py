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
        slips = 1 if len(known) <= 5 else 2
        if abs(len(known) - len(spelling)) <= slips and _edits(spelling, known) <= slips:
            return canonical
    return None


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
