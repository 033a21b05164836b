from __future__ import annotations

from farm.model.messages import Message, ToolCall
from farm.model.transcript import PermissionDenial, Transcript, Usage, WorkspaceChanges
from farm.reporting.session_text import session_lines


def shown(*calls: ToolCall, **fields: object) -> str:
    messages = (Message(role="assistant", tool_calls=calls),)
    transcript = Transcript.model_validate({"agent": "claude", "output_messages": messages, **fields})
    return "\n".join(session_lines(transcript))


def test_a_session_is_shown_with_all_that_an_author_asserts_on():
    text = shown(
        ToolCall(tool="Read", input={"file_path": "a.md"}, output="one\ntwo\n", duration_ms=1234),
        ToolCall(tool="Bash", input={"command": "exit 1", "timeout": 5}, output="no", is_error=True),
        ToolCall(tool="LS", parent_id="1"),
        final_text="All done.\n\nBye.",
        workspace_changes=WorkspaceChanges(added=("b.md",), deleted=("c.md",)),
        permission_denials=(PermissionDenial(tool="Write", input={"file_path": "x"}),),
        agent_version="2.1",
        model="m-1",
        num_turns=1,
        usage=Usage(input_tokens=10, output_tokens=5),
        cost_usd=0.0125,
        duration_ms=2500,
    )
    assert text == (
        "Tool calls: 3\n"
        "  1. Read  1.23 s\n"
        "       file_path: a.md\n"
        "       → one\n"
        "         two\n"
        "  2. Bash\n"
        "       command: exit 1\n"
        "       timeout: 5\n"
        "       ✗ no\n"
        "  3. LS (subagent)\n"
        "Final text:\n"
        "  All done.\n"
        "  \n"
        "  Bye.\n"
        "Changed files:\n"
        "  + b.md\n"
        "  - c.md\n"
        'Denied: Write({"file_path":"x"})\n'
        "claude 2.1, m-1, 1 turn, 10 tokens in, 5 out, $0.0125, 2.5 s"
    )


def test_a_session_that_did_nothing_is_shown_too():
    assert shown(workspace_changes=WorkspaceChanges()) == (
        "Tool calls: 0\nFinal text: none\nChanged files: none\nclaude"
    )


def test_nothing_of_an_agent_reaches_the_terminal_as_it_is():
    hostile = "\x1b]0;x\x07\nfake"
    text = shown(
        ToolCall(tool=hostile, input={hostile: hostile}, output=hostile),
        ToolCall(tool="X", input=[hostile]),
        final_text=hostile,
        model=hostile,
        workspace_changes=WorkspaceChanges(added=(hostile,)),
        permission_denials=(PermissionDenial(tool=hostile, input=hostile),),
    )
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\nfake" not in text  # what has several lines is below something of ours, further in


def test_a_long_output_is_cut():
    text = shown(ToolCall(tool="Bash", output="\n".join(map(str, range(100)))))
    assert "         9\n         … 90 more lines\n" in text
    assert "\n         10\n" not in text
