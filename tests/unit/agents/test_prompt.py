"""What a program is asked with, for every shape of input."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.agents.prompt import MAX_INCLUDED_BYTES, prompt_text
from farm.model.messages import Message, ToolCall


def user(content) -> Message:
    return Message(role="user", content=content)


def test_a_single_user_message_is_its_text():
    assert prompt_text([user("  What is tea?\n")], {}) == "  What is tea?\n"


def test_user_messages_follow_one_another():
    assert prompt_text([user("Be brief."), user("What is tea?")], {}) == "Be brief.\n\nWhat is tea?"


def test_structured_content_is_json():
    assert prompt_text([user({"riskLevel": ["high", 1]})], {}) == '{"riskLevel":["high",1]}'


def test_a_conversation_has_its_roles():
    messages = [
        Message(role="system", content="You sell tea."),
        user("Is there any?"),
        Message(
            role="assistant",
            content="I'll look.",
            tool_calls=(ToolCall(tool="Read", input={"file_path": "stock"}, output="tea: 3"),),
        ),
        Message(role="assistant", tool_calls=(ToolCall(tool="Ping"),)),
        Message(role="tool", name="Ping", content={"ok": True}),
        user("And?"),
    ]
    assert (
        prompt_text(messages, {})
        == """\
System:
You sell tea.

User:
Is there any?

Assistant:
I'll look.
[Read {"file_path":"stock"} → tea: 3]

Assistant:
[Ping {}]

Tool (Ping):
{"ok":true}

User:
And?"""
    )


def test_a_file_stands_where_it_is_referred_to(tmp_path: Path):
    path = tmp_path / "order.md"
    path.write_text("# Order\n2 lamps\n")
    parts = [
        {"type": "text", "value": "Is this"},
        {"type": "file", "value": "a/order.md"},
        {"type": "text", "value": "complete?"},
    ]
    assert prompt_text([user(parts)], {"a/order.md": path}) == (
        f'Is this\n<file path="{path}">\n# Order\n2 lamps\n</file>\ncomplete?'
    )


@pytest.mark.parametrize(
    "content", [b"\x89PNG\xff", b"a\0b", b"x" * (MAX_INCLUDED_BYTES + 1), "é".encode() * MAX_INCLUDED_BYTES]
)
def test_of_a_file_that_is_no_text_or_long_only_the_path_is_told(tmp_path: Path, content: bytes):
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    parts = [{"type": "file", "value": "picture.png"}]
    assert prompt_text([user(parts)], {"picture.png": path}) == f'<file path="{path}"/>'
