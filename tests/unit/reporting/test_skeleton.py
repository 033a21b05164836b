from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.authoring.load import load_suite
from farm.evaluators.base import EvaluationContext
from farm.evaluators.registry import judge
from farm.model.messages import Message, ToolCall
from farm.model.transcript import Transcript
from farm.reporting.skeleton import skeleton_of

WORKSPACE = Path("/tmp/farm-x/workspace")


def skeleton(*calls: ToolCall, prompt: str = "Do it", said: str = "Done.") -> tuple[str, Transcript]:
    messages = (Message(role="assistant", tool_calls=calls),)
    transcript = Transcript(agent="claude", output_messages=messages, final_text=said)
    return skeleton_of(prompt, "claude", transcript, WORKSPACE), transcript


def call(tool: str, **tool_input: Any) -> ToolCall:
    return ToolCall(tool=tool, input=tool_input)


def test_a_call_is_an_assertion_on_what_is_the_same_in_the_next_session():
    text, _ = skeleton(
        call("Read", file_path=f"{WORKSPACE}/docs/a.md", limit=5),
        call("Read", file_path=f"{WORKSPACE}/docs/a.md", limit=9),
        call("Bash", command="make", description="worded anew"),
        call("Write", file_path="b.md", content="x" * 1000),
        said="Done.\nAnd more.",
    )
    assert text == (
        'name: "Do it"\n'
        'prompt: "Do it"\n'
        "agent: claude\n"
        "assertions:\n"
        "- tool: Read\n"
        "  params:\n"
        '    file_path: "*docs/a.md"\n'
        "- tool: Bash\n"
        "  params:\n"
        "    command: make\n"
        "- tool: Write\n"
        "  params:\n"
        '    file_path: "b.md"\n'
        "- type: contains\n"
        '  value: "Done."\n'
    )


@pytest.mark.parametrize(
    "tool_call",
    [
        call("Read", file_path=f"{WORKSPACE}/app/[id]/what?.md"),
        call("Bash", command=f"cat {WORKSPACE}/*.md | wc -l # {WORKSPACE}"),
        call("Bash", command="echo (unclosed [ class"),
        call("Bash", command="echo 'no'; : yes"),
        call("Bash", command="0o17"),
        call("Bash", command="null"),
        call("Bash", command=""),
        call("Bash", command="multiple\nlines"),
        call("Raed", file_path="a slip of Read by its name"),
        call("a|b(c)*", x="y"),
        call("mcp__x__y", **{"é: [": "😀 ü"}),
        call("Read", file_pth="a slip of file_path by its name"),
        ToolCall(tool="odd", input=["no", "mapping"]),
        ToolCall(tool="none"),
    ],
    ids=lambda tool_call: f"{tool_call.tool}-{tool_call.input}"[:40],
)
def test_the_session_passes_the_test_that_is_made_of_it(tool_call, tmp_path):
    text, transcript = skeleton(
        tool_call, prompt='Say "no"\n\tto: [it] # 😀', said='{"a": 1} # "quoted" \\ é'
    )
    (tmp_path / "farm.yaml").touch()
    (tmp_path / "made.yaml").write_text(text)
    (case,) = load_suite([tmp_path / "made.yaml"]).cases
    context = EvaluationContext(case=case, transcript=transcript, files=tmp_path)
    assert case.question == 'Say "no"\n\tto: [it] # 😀'
    assert [judge(spec, context).outcome for spec in case.evaluators] == ["passed", "passed"]
