from __future__ import annotations

import pytest

from farm.model.tool_names import (
    ALIASES,
    OTHER_TOOLS,
    PARAMETERS,
    canonical_tool_name,
    nearly_known_parameter,
    nearly_known_tool,
    tool_key,
)

KNOWN = [*ALIASES, *OTHER_TOOLS, *(alias for aliases in ALIASES.values() for alias in aliases)]


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("read", "Read"),
        ("READ_FILE", "Read"),
        ("agent", "Task"),
        ("skill", "Skill"),
        ("ask_user", "AskUserQuestion"),
        ("mcp__github__create_issue", "mcp__github__create_issue"),
        ("semanticSearch", "semanticSearch"),
    ],
)
def test_a_known_tool_has_one_name_and_any_other_its_own(name, canonical):
    assert canonical_tool_name(name) == canonical


def test_unknown_tools_are_compared_without_case_too():
    assert tool_key("semanticSearch") == tool_key("SEMANTICSEARCH")
    assert tool_key("Agent") == tool_key("task")
    assert tool_key("Read") != tool_key("Edit")


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_name_is_never_taken_for_a_slip(name):
    assert nearly_known_tool(name) is None
    assert nearly_known_tool(name.upper()) is None


@pytest.mark.parametrize(
    ("slip", "meant"), [("Raed", "Read"), ("Reed", "Read"), ("Wriet", "Write"), ("web_fech", "WebFetch")]
)
def test_a_slip_is_told_what_was_meant(slip, meant):
    assert nearly_known_tool(slip) == meant


@pytest.mark.parametrize(
    "name", ["A", "toolA", "semanticSearch", "mcp__x__read", "verify", "searchDocs", "LSP"]
)
def test_other_names_are_left_alone(name):
    assert nearly_known_tool(name) is None


def test_an_equals_sign_says_that_a_tool_is_really_called_so():
    assert nearly_known_tool("Edits") == "Edit"
    assert nearly_known_tool("=Edits") is None
    assert canonical_tool_name("=Edits") == "Edits"
    assert tool_key("=Edits") == tool_key("Edits") != tool_key("Edit")


def test_an_equals_sign_works_for_long_names_and_hides_no_alias():
    assert nearly_known_tool("=TaskOutputs") is None
    assert nearly_known_tool("=read_file") is None
    assert tool_key("=read_file") == tool_key("read_file")  # else no call could ever be meant


def test_a_slip_of_a_parameter_is_told_and_another_agents_spelling_is_not():
    assert nearly_known_parameter("execute_command", "comand") == "command"
    assert nearly_known_parameter("Read", "file_paht") == "file_path"
    assert nearly_known_parameter("Read", "filePath") is None
    assert nearly_known_parameter("Read", "absolute_path") is None
    assert nearly_known_parameter("mcp__files__read", "file_pth") is None
    for tool, parameters in PARAMETERS.items():
        assert [nearly_known_parameter(tool, name) for name in parameters] == [None] * len(parameters)
