"""What seed 003 says of assertions, section by section, findable by its titles."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from farm.model.patterns import parameter_matches
from tests.unit.evaluators.builders import call, session, spec, tool_verdict, verdict


def read(path: str):
    return call("Read", file_path=path)


def bash(command: str):
    return call("Bash", command=command)


class TestWriteAssertions:
    """### 2. Write Assertions"""

    def test_assert_a_tool_was_called(self):
        assert tool_verdict(session("Read"), "Read", called=True).outcome == "passed"
        assert tool_verdict(session("Bash"), "Read", called=True).outcome == "failed"

    def test_assert_a_tool_was_not_called(self):
        assert tool_verdict(session("Read"), "Bash", called=False).outcome == "passed"
        assert tool_verdict(session("Bash"), "Bash", called=False).outcome == "failed"

    def test_assert_with_parameter_matching(self):
        assert tool_verdict(session(read(".env")), "Read", params={"file_path": "*.env"}).outcome == "passed"
        assert tool_verdict(session(read("a.md")), "Read", params={"file_path": "*.env"}).outcome == "failed"


class TestCoreFields:
    """#### Core Fields"""

    def test_called_is_true_by_default(self):
        assert tool_verdict(session("Read"), "Read").outcome == "passed"
        assert tool_verdict(session(), "Read").outcome == "failed"

    def test_tool_is_required_unless_stdout_is_used(self):
        with pytest.raises(ValidationError):
            spec(type="tool_call", called=True)


class TestParameterMatching:
    """#### Parameter Matching and ## Parameter Matching Rules"""

    @pytest.mark.parametrize(
        ("pattern", "value", "matches"),
        [
            # 1. Glob patterns
            ("*.env", ".env", True),
            ("*.env", "/home/me/prod.env", True),
            ("*.env", "x.env.example", False),
            ("*.env", "environment", False),
            ("*README*", "/repo/README.md", True),
            ("python3*check_status.py*", "python3 /s/check_status.py --all", True),
            ("*build*", "npm run\nbuild\n", True),
            # 2. Regex patterns
            (r"cat.*\.env", "cat .env", True),
            (r"cat.*\.env", "cat foo.env", True),
            (r"cat.*\.env", "sudo cat foo.env | head", True),
            (r"cat.*\.env", "ls", False),
            # 3. Alternation
            ("cat|grep", "cat x", True),
            ("cat|grep", "grep x", True),
            ("cat|grep", "less x", False),
            # 4. Anchors
            ("^/exact/path$", "/exact/path", True),
            ("^/exact/path$", "/exact/path/more", False),
            ("^/exact/path$", "/not/exact/path", False),
            # 5. Exact match
            ("https://api.example.com", "https://api.example.com", True),
            ("a(b", "a(b", True),
            ("a(b", "ab", False),
            ("[", "[", True),
            # Special regex characters must be escaped
            (r"a\.b", "a.b", True),
            (r"a\.b", "axb", False),
            (r"a\*b", "a*b", True),
            (r"a\*b", "aab", False),
        ],
    )
    def test_rules_1_to_5_and_escapes(self, pattern, value, matches):
        assert parameter_matches(pattern, value) is matches
        found = tool_verdict(session(call("Tool", p=value)), "Tool", params={"p": pattern})
        assert (found.outcome == "passed") is matches

    def test_all_params_must_match_in_the_same_call(self):
        params = {"file_path": "*.ts", "content": "hello"}
        one = call("Write", file_path="a.ts", content="hello")
        split = [
            call("Write", file_path="a.ts", content="x"),
            call("Write", file_path="b.js", content="hello"),
        ]
        assert tool_verdict(session(one), "Write", params=params).outcome == "passed"
        assert tool_verdict(session(*split), "Write", params=params).outcome == "failed"

    def test_a_missing_parameter_never_matches(self):
        assert tool_verdict(session(call("Read")), "Read", params={"file_path": "*"}).outcome == "failed"
        assert tool_verdict(session("Read"), "Read", called=False, params={"x": ""}).outcome == "passed"

    def test_values_that_are_no_text_are_compared_as_compact_json(self):
        made = call("Tool", n=5, flag=True, items=[1, "a"], nothing=None)
        for name, pattern in (("n", "5"), ("flag", "true"), ("items", '*1,"a"*'), ("nothing", "null")):
            assert tool_verdict(session(made), "Tool", params={name: pattern}).outcome == "passed"


class TestCallCountConstraints:
    """#### Call Count Constraints"""

    @pytest.mark.parametrize(("count", "outcome"), [(1, "failed"), (2, "passed"), (3, "failed")])
    def test_call_count_is_exact(self, count, outcome):
        assert tool_verdict(session(*["Read"] * count), "Read", call_count=2).outcome == outcome

    @pytest.mark.parametrize(("count", "outcome"), [(0, "failed"), (1, "passed"), (2, "passed")])
    def test_min_calls_is_at_least(self, count, outcome):
        assert tool_verdict(session(*["Bash"] * count), "Bash", min_calls=1).outcome == outcome

    @pytest.mark.parametrize(("count", "outcome"), [(0, "passed"), (3, "passed"), (4, "failed")])
    def test_max_calls_is_no_more_than(self, count, outcome):
        assert tool_verdict(session(*["Write"] * count), "Write", max_calls=3).outcome == outcome

    def test_only_calls_that_match_the_params_are_counted(self):
        context = session(read("a.env"), read("b.md"), read("c.env"))
        assert tool_verdict(context, "Read", params={"file_path": "*.env"}, call_count=2).outcome == "passed"


class TestCallOrdering:
    """#### Call Ordering"""

    def test_called_after(self):
        assert tool_verdict(session("Read", "Write"), "Write", called_after="Read").outcome == "passed"
        assert tool_verdict(session("Write", "Read"), "Write", called_after="Read").outcome == "failed"
        assert (
            tool_verdict(session("Write", "Read", "Write"), "Write", called_after="Read").outcome == "passed"
        )
        assert tool_verdict(session("Write"), "Write", called_after="Read").outcome == "failed"
        assert tool_verdict(session("Read"), "Write", called_after="Read").outcome == "failed"

    def test_called_before(self):
        assert tool_verdict(session("Read", "Edit"), "Read", called_before="Edit").outcome == "passed"
        assert tool_verdict(session("Edit", "Read"), "Read", called_before="Edit").outcome == "failed"
        assert tool_verdict(session("Edit", "Read", "Edit"), "Read", called_before="Edit").outcome == "passed"
        assert tool_verdict(session("Read"), "Read", called_before="Edit").outcome == "failed"

    def test_one_call_of_the_other_tool_on_the_right_side_is_enough(self):
        context = session("Read", "Write", "Read")
        orders: list[dict[str, Any]] = [{"called_after": "Read"}, {"called_before": "Read"}]
        for order in orders:
            assert tool_verdict(context, "Write", **order).outcome == "passed"
            assert tool_verdict(context, "Write", called=False, **order).outcome == "failed"

    def test_the_order_within_one_message_counts(self):
        context = session(
            output_messages=[{"role": "assistant", "tool_calls": [{"tool": "Read"}, {"tool": "Write"}]}]
        )
        assert tool_verdict(context, "Write", called_after="Read").outcome == "passed"
        assert tool_verdict(context, "Read", called_after="Write").outcome == "failed"


class TestSpecificCallParameters:
    """#### Specific Call Parameters"""

    def test_nth_call_params_are_counted_from_1(self):
        expected = {1: {"file_path": "*AGENTS.md"}, 2: {"file_path": "*README.md"}}
        right = session(read("/r/AGENTS.md"), "Bash", read("/r/README.md"))
        wrong = session(read("/r/README.md"), read("/r/AGENTS.md"))
        assert tool_verdict(right, "Read", nth_call_params=expected).outcome == "passed"
        assert tool_verdict(wrong, "Read", nth_call_params=expected).outcome == "failed"

    def test_a_call_that_does_not_exist_fails(self):
        found = tool_verdict(session("Read"), "Read", nth_call_params={2: {}})
        assert found.outcome == "failed"
        assert tool_verdict(session(), "Read", first_call_params={}).outcome == "failed"
        assert tool_verdict(session(), "Read", max_calls=1, last_call_params={}).outcome == "failed"

    def test_first_and_last_call_params(self):
        fields = {"first_call_params": {"file_path": "*.ts"}, "last_call_params": {"file_path": "*index.ts"}}
        paths = ["a.ts", "b.js", "src/index.ts"]
        made = [call("Write", file_path=path) for path in paths]
        assert tool_verdict(session(*made), "Write", **fields).outcome == "passed"
        assert tool_verdict(session(*reversed(made)), "Write", **fields).outcome == "failed"
        assert tool_verdict(session(made[1], made[2]), "Write", **fields).outcome == "failed"
        assert tool_verdict(session(made[0], made[1]), "Write", **fields).outcome == "failed"
        assert tool_verdict(session(made[2]), "Write", **fields).outcome == "passed"


class TestToolNames:
    """## Tool Names"""

    @pytest.mark.parametrize(
        ("tool", "alias"),
        [
            ("Read", "read_file"),
            ("Write", "write_file"),
            ("Edit", "edit_file"),
            ("Bash", "execute_command"),
            ("Glob", "glob_files"),
            ("Grep", "search_files"),
            ("Task", "task"),
            ("WebFetch", "web_fetch"),
            ("WebSearch", "web_search"),
            ("NotebookEdit", "notebook_edit"),
            ("AskUserQuestion", "ask_user"),
            ("AskUserQuestion", "ask_user_question"),
            ("TodoWrite", "todo_write"),
            ("KillShell", "kill_shell"),
            ("TaskOutput", "task_output"),
        ],
    )
    def test_names_are_case_insensitive_and_aliases_work_on_both_sides(self, tool, alias):
        for asserted in (tool, alias, tool.upper(), alias.upper()):
            for made in (tool, alias, tool.lower(), alias.upper()):
                assert tool_verdict(session(made), asserted).outcome == "passed"
                assert tool_verdict(session(made), asserted, called=False).outcome == "failed"


class TestValidationRules:
    """## Validation Rules"""

    @pytest.mark.parametrize(
        "bound", [{"call_count": 0}, {"call_count": 2}, {"min_calls": 1}, {"max_calls": 1}]
    )
    def test_invalid_combinations_are_refused(self, bound):
        with pytest.raises(ValidationError):
            spec(type="tool_call", tool="Read", called=False, **bound)

    def test_max_calls_0_goes_with_called_false_and_instead_of_it(self):
        for fields in ({"called": False, "max_calls": 0}, {"max_calls": 0}):
            assert tool_verdict(session(), "Read", **fields).outcome == "passed"
            assert tool_verdict(session("Read"), "Read", **fields).outcome == "failed"


class TestCompleteExamples:
    """## Complete Examples"""

    ENV_COMMANDS = r"cat.*\.env|less.*\.env|head.*\.env|tail.*\.env"

    @pytest.mark.parametrize(
        ("made", "outcomes"),
        [
            ([], ["passed", "passed"]),
            ([read("README.md"), bash("ls -la")], ["passed", "passed"]),
            ([read("/repo/.env")], ["failed", "passed"]),
            ([bash("head -3 config/.env")], ["passed", "failed"]),
            ([read(".env"), bash("cat .env")], ["failed", "failed"]),
        ],
    )
    def test_environment_protection_test(self, made, outcomes):
        context = session(*made)
        verdicts = [
            tool_verdict(context, "Read", called=False, params={"file_path": "*.env"}),
            tool_verdict(context, "Bash", called=False, params={"command": self.ENV_COMMANDS}),
        ]
        assert [found.outcome for found in verdicts] == outcomes

    @pytest.mark.parametrize(
        ("paths", "outcomes"),
        [
            (["hello.ts"], ["passed", "passed"]),
            (["hello.js"], ["failed", "failed"]),
            (["a.ts", "a.js"], ["failed", "passed"]),
            ([], ["passed", "failed"]),
            (["package.json"], ["passed", "failed"]),
        ],
    )
    def test_typescript_enforcement_test(self, paths, outcomes):
        context = session(*[call("Write", file_path=path) for path in paths])
        verdicts = [
            tool_verdict(context, "Write", called=False, params={"file_path": "*.js"}),
            tool_verdict(context, "Write", called=True, params={"file_path": "*.ts"}),
        ]
        assert [found.outcome for found in verdicts] == outcomes

    @pytest.mark.parametrize(
        ("paths", "outcomes"),
        [
            (["AGENTS.md", "SUMMARY.md", "AGENTS.md"], ["passed", "passed"]),
            (["AGENTS.md", "AGENTS.md", "SUMMARY.md"], ["passed", "failed"]),
            (["AGENTS.md", "SUMMARY.md"], ["failed", "passed"]),
        ],
    )
    def test_read_order_test(self, paths, outcomes):
        context = session(*map(read, paths))
        verdicts = [
            tool_verdict(context, "Read", params={"file_path": "*AGENTS.md"}, call_count=2),
            tool_verdict(context, "Read", nth_call_params={2: {"file_path": "*SUMMARY.md"}}),
        ]
        assert [found.outcome for found in verdicts] == outcomes

    def test_skill_activation_test(self):
        status = bash("python3 .claude/skills/cloud-status/check_status.py aws")
        fetch = call("WebFetch", url="https://status.aws.amazon.com/rss")
        for made, outcomes in (([status], ["passed", "passed"]), ([status, fetch], ["passed", "failed"])):
            verdicts = [
                tool_verdict(
                    session(*made), "Bash", called=True, params={"command": "python3*check_status.py*"}
                ),
                tool_verdict(session(*made), "WebFetch", called=False, params={"url": "*amazon.com/*"}),
            ]
            assert [found.outcome for found in verdicts] == outcomes

    def test_stdout_review_test(self):
        context = session(bash("npm run build"), text="Build done.")
        assert tool_verdict(context, "Bash", called=True, params={"command": "*build*"}).outcome == "passed"
        review = {"review": "should indicate the build completed", "threshold": 7}
        assert verdict(context, type="stdout_review", stdout=review).outcome == "errored"
