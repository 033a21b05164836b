"""Every slip is told with file, line, column and what to do; all slips of all files at once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from farm.authoring.load import load_suite
from farm.documents.yaml import MAX_BYTES, MAX_DEPTH, parse_yaml
from farm.errors import InputError, Problem, UsageError
from tests.unit.authoring.conftest import Load, LoadCase, LoadProblems

HEAD = "name: n\nprompt: p\n"
GOOD = HEAD + "assertions: [{tool: Read}]\n"
EVAL = "input: x\n"


def assertion(entry: str) -> str:
    """Put a block-style assertion into a test; it begins at line 4, column 5."""
    return HEAD + "assertions:\n  - " + textwrap.indent(textwrap.dedent(entry), " " * 4).lstrip()


TABLE = {
    # not YAML
    "an open bracket": (GOOD + "tags: [a\n", 5, 1, "not valid YAML: while parsing a flow sequence: did not find expected ',' or ']'"),
    "a tab for an indent": ("name: n\n\tprompt: p\n", 2, 1, "not valid YAML: while scanning a plain scalar: found a tab character that violates indentation"),
    "a mapping in a value": ("name: a: b\n", 1, 8, "not valid YAML: mapping values are not allowed in this context"),
    "an unknown alias": ("name: *gone\n", 1, 7, "not valid YAML: found undefined alias"),
    "a control character": ("name: a\nprompt: b\x07c\n", 2, 10, "not valid YAML: control characters are not allowed ('\\x07')"),
    "a duplicate key": (GOOD + "name: again\n", 4, 1, 'duplicate key "name"'),
    "a duplicate inner key": (assertion("tool: Read\nparams:\n  a: x\n  a: y"), 7, 7, 'duplicate key "a"'),
    "a list as a key": (GOOD + "? [a]\n: b\n", 4, 3, "a key must be a single word or text"),
    "a tag": (GOOD + "tags: !!set {a}\n", 4, 7, "has the tag tag:yaml.org,2002:set; only plain data is allowed"),
    "a tag of Python": ("name: !!python/object/apply:os.system [ls]\n", 1, 7, "has the tag tag:yaml.org,2002:python/object/apply:os.system; only plain data is allowed"),
    "a number without end": (GOOD + "max_turns: 99999999999999999999\n", 4, 12, "is too large a number; write it as text, in quotes"),
    "an endless decimal": (GOOD + "weight: 1e999\n", 4, 9, "is too large a number; write it as text, in quotes"),
    "a merge of a text": (GOOD + "<<: text\n", 4, 5, '"<<" merges mappings only'),
    "an alias of its own part": ("name: &a\n  b: *a\n", 1, 7, "is an alias of something that it is itself part of"),
    "a list within itself": ("&a [*a]\n", 1, 1, "is an alias of something that it is itself part of"),
    "nothing": ("", 1, 1, "the file is empty"),
    "only a comment": ("# nothing\n---\n", 1, 1, "the file is empty"),
    # not a test
    "both dialects at once": ("name: n\nprompt: p\ninput: x\nassertions: [{tool: Read}]\n", 2, 1, '"prompt" makes this an assertion test and "input" an eval file; use one of the two'),
    "a text": ("just text\n", 1, 1, "not a test: it is not a mapping"),
    # keys
    "an unknown key": (GOOD + "timeout_second: 5\n", 4, 1, 'unknown key "timeout_second" in an assertion test; did you mean "timeout_seconds"?'),
    "a typo'd key of an assertion": (assertion("tool: Read\nparms: {a: b}"), 5, 5, 'unknown key "parms" in a tool_call evaluator; did you mean "params"?'),
    "an unknown key of a review": (assertion("stdout:\n  review: r\n  treshold: 5"), 6, 7, 'unknown key "treshold" in a stdout_review evaluator; did you mean "threshold"?'),
    "an unknown key of a message": ("evaluators: [x]\ninput:\n  - role: user\n    contents: x\n    content: y\n", 4, 5, 'unknown key "contents" in a message; did you mean "content"?'),
    "an unknown key with no likeness": (assertion("type: equals\nvalue: x\nzzz: 1"), 6, 5, 'unknown key "zzz" in an equals evaluator; known are name, negate, required, type, value, weight'),
    "asserts for assertions": (HEAD + "asserts: [{tool: Read}]\nassertions: [{tool: Read}]\n", 3, 1, 'unknown key "asserts" in an assertion test; did you mean "assertions"?'),
    "execution's unknown key": (EVAL + "evaluators: [x]\nexecution: {targets: claude}\n", 3, 13, 'unknown key "targets" in an eval case; did you mean "target"?'),
    # evaluators
    "an unknown evaluator type": (assertion("type: contain\nvalue: x"), 4, 11, 'unknown evaluator type "contain"; did you mean "contains"?'),
    "a type that is no text": (assertion("type: 5\nvalue: x"), 4, 11, '"type" must be text'),
    "no type at all": (assertion("value: x"), 4, 5, 'an evaluator needs "tool", "stdout" or "type"'),
    "a slip of tool": (assertion("tol: Read"), 4, 5, 'an evaluator needs "tool", "stdout" or "type"; "tol": did you mean "tool"?'),
    "a number for an evaluator": (HEAD + "assertions: [5]\n", 3, 14, "an evaluator must be a mapping, or a text that an LLM judges by"),
    "assertions that are no list": (HEAD + "assertions: {tool: Read}\n", 3, 13, '"assertions" must be a list of evaluators, with at least one'),
    "no assertion": (HEAD + "assertions: []\n", 3, 13, '"assertions" must be a list of evaluators, with at least one'),
    "Raed": (assertion("tool: Raed"), 4, 11, 'unknown tool "Raed"; did you mean "Read"?'),
    "a slip of a tool in an order": (assertion("tool: Read\ncalled_after: Bahs"), 5, 19, 'unknown tool "Bahs"; did you mean "Bash"?'),
    "a slip of a tool in a key": (assertion("type: tool_trajectory\nmode: any_order\nminimums:\n  Wriet: 1"), 7, 7, 'unknown tool "Wriet"; did you mean "Write"?'),
    "a threshold too high": (assertion("stdout:\n  review: r\n  threshold: 11"), 6, 18, '"threshold" must be at most 10'),
    "a threshold too low": (assertion("stdout:\n  review: r\n  threshold: 0"), 6, 18, '"threshold" must be at least 1'),
    "call index 0": (assertion("tool: Read\nnth_call_params:\n  0:\n    a: b"), 6, 7, 'call index "0" must be a whole number from 1'),
    "a call index that is no number": (assertion("tool: Read\nnth_call_params:\n  first: {a: b}"), 6, 7, 'call index "first" must be a whole number from 1'),
    "a call index with a zero": (assertion("tool: Read\nnth_call_params:\n  1: {a: b}\n  01: {a: c}"), 7, 7, 'call index "01" must be a whole number from 1'),
    "a parameter without a pattern": (assertion("tool: Read\ncalled: false\nparams:\n  file_path: # *.env"), 7, 7, '"file_path" is empty; give it a pattern ("null", in quotes, matches a null)'),
    "two tools in one name": (assertion("tool: Bash|Write\ncalled: false"), 4, 11, 'tool "Bash|Write" is no name: patterns go under "params", several tools in several entries'),
    "a permission rule for a tool": (assertion("tool: Bash(rm *)\ncalled: false"), 4, 11, 'tool "Bash(rm *)" is no name: patterns go under "params", several tools in several entries'),
    "a bound that bounds nothing": (assertion("tool: Read\nmin_calls: 0"), 4, 5, '"min_calls: 0" alone always passes'),
    "minimums of nothing": (assertion("type: tool_trajectory\nmode: any_order\nminimums: {A: 0}"), 4, 5, 'mode "any_order" needs "minimums" above 0, or "expected"'),
    "called: false with a count": (assertion("tool: Read\ncalled: false\ncall_count: 1"), 4, 5, '"called: false" can\'t go with "call_count": no call is expected'),
    "bounds that cross": (assertion("tool: Read\nmin_calls: 3\nmax_calls: 2"), 4, 5, "at least 3 calls and at most 2 can't both be"),
    "a count beyond a bound": (assertion("tool: Read\ncall_count: 2\nmax_calls: 1"), 4, 5, "at least 2 calls and at most 1 can't both be"),
    "a judge that is no agent": (assertion("stdout:\n  review: r\n  agent: cluade"), 6, 14, 'unknown agent "cluade"; did you mean "claude"?'),
    "a broken regular expression": (assertion("type: regex\nvalue: '('"), 5, 12, "not a regular expression (RE2): missing ): ("),
    "a mode that there is not": (assertion("type: tool_trajectory\nmode: in-order\nexpected: [{tool: A}]"), 5, 11, "\"mode\" must be 'any_order', 'in_order', 'exact', 'superset' or 'subset', not \"in-order\"; did you mean \"in_order\"?"),
    "an aggregator that there is not": (assertion("type: composite\nevaluators: [{tool: Read}]\naggregator: treshold"), 6, 17, 'unknown aggregator "treshold"; did you mean "threshold"?'),
    "a slip within a composite": (assertion("type: composite\nevaluators:\n  - tool: Raed"), 6, 15, 'unknown tool "Raed"; did you mean "Read"?'),
    "two names for a command": (assertion("type: script\nscript: a\ncommand: b"), 5, 13, '"script" says the same as "command": use one'),
    # values
    "text for a flag": (assertion('tool: Read\ncalled: "yes"'), 5, 13, '"called" must be true or false, not "yes"'),
    "yes for true": (assertion("tool: Read\ncalled: yes"), 5, 13, '"called" must be true or false, not "yes"'),
    "text for a count": (assertion('tool: Read\nmin_calls: "3"'), 5, 16, '"min_calls" must be a whole number, not "3"'),
    "a fraction for a count": (assertion("tool: Read\nmin_calls: 1.5"), 5, 16, '"min_calls" must be a whole number, not the number 1.5'),
    "true for a count": (assertion("tool: Read\nmin_calls: true"), 5, 16, '"min_calls" must be a whole number, not true'),
    "a negative count": (assertion("tool: Read\nmin_calls: -1"), 5, 16, '"min_calls" must be at least 0'),
    "a list for a text": ("name: [n]\nprompt: p\nassertions: [{tool: Read}]\n", 1, 7, '"name" must be text, not a list'),
    "a number for a text": ("name: 5\nprompt: p\nassertions: [{tool: Read}]\n", 1, 7, '"name" must be text, not the number 5'),
    "an empty text": ('name: ""\nprompt: p\nassertions: [{tool: Read}]\n', 1, 7, '"name" must not be empty'),
    "a list for a mapping": (assertion("tool: Read\nparams: [a]"), 5, 13, '"params" must be a mapping, not a list'),
    "a number in an environment": (GOOD + "env: {A: 1}\n", 4, 10, '"A" must be text, not the number 1'),
    "a flag for a reason": (GOOD + "skip: true\n", 4, 7, '"skip" must be text, not true'),
    "no trial": (GOOD + "trials: 0\n", 4, 9, '"trials" must be at least 1'),
    "too many trials": (GOOD + "trials: {count: 1001}\n", 4, 17, '"count" must be at most 1000'),
    "an isolation that there is not": (GOOD + "isolation: docker\n", 4, 12, "\"isolation\" must be 'process', 'bubblewrap' or 'auto', not \"docker\""),
    "text for the network": (GOOD + "network: \"off\"\n", 4, 10, '"network" must be true or false, not "off"'),
    "no time": (GOOD + "timeout_seconds: 0\n", 4, 18, '"timeout_seconds" must be more than 0'),
    "a role that there is not": ("evaluators: [x]\ninput: [{role: usr, content: x}]\n", 2, 16, 'unknown role "usr"; did you mean "user"?'),
    "a message without content": ("evaluators: [x]\ninput: [{role: user}]\n", 2, 9, 'a message needs "content" or "tool_calls"'),
    "a content part of no known type": ("evaluators: [x]\ninput: [{role: user, content: [{type: image, value: x}]}]\n", 2, 32, "a content part must be {type: text|file, value: …}"),
    "a tool call without a tool": (EVAL + "evaluators: [x]\nexpected_output: [{role: assistant, tool_calls: [{input: 1}]}]\n", 3, 50, 'the key "tool" is missing'),
    "tool calls that are no list": (EVAL + "evaluators: [x]\nexpected_output: [{role: assistant, tool_calls: {tool: A}}]\n", 3, 49, '"tool_calls" must be a list, not a mapping'),
    "tool calls without a value": (EVAL + "evaluators: [x]\nexpected_output: [{role: assistant, content: x, tool_calls: }]\n", 3, 49, '"tool_calls" is empty; give it a value or remove it'),
    "text for a duration": (EVAL + "evaluators: [x]\nexpected_output: [{role: assistant, tool_calls: [{tool: A, duration_ms: '5'}]}]\n", 3, 73, '"duration_ms" must be a number, not "5"'),
    "no evaluator": (EVAL, 1, 1, "a case needs at least one evaluator: nothing would be checked"),
    # keys without a value
    "called without a value": (assertion("tool: Read\ncalled:"), 5, 5, '"called" is empty; give it a value or remove it'),
    "null for a value": (assertion("tool: Read\nmax_calls: null"), 5, 5, '"max_calls" is empty; give it a value or remove it'),
    "a slip in a parameter": (assertion('tool: Bash\ncalled: false\nparams: {comand: "rm*"}'), 6, 14, 'unknown parameter "comand" of Bash; did you mean "command"?'),
    "a slip in a certain call": (assertion("tool: read_file\nnth_call_params:\n  2: {file_pth: x}"), 6, 11, 'unknown parameter "file_pth" of Read; did you mean "file_path"?'),
    "look-around": (assertion(r"tool: Read" "\n" r"params: {file_path: '\.env(?!x)'}"), 5, 25, "not a regular expression (RE2): invalid perl operator: (?!; look-around is not part of it"),
    "a passing score of nothing": (assertion("tool: Read\nrequired: 0"), 5, 15, "must be true, false, or the lowest score that passes: above 0, at most 1"),
    "a judge that can't answer": (assertion("type: llm_judge\nprompt: p\nagent: replay"), 6, 12, 'agent "replay" can\'t judge: it answers no questions'),
    "an unknown variable": (assertion("type: llm_judge\nprompt: Was {{qestion}} answered?"), 5, 13, 'the prompt uses an unknown variable "{{qestion}}"; did you mean "question"?'),
    "an unknown variable of a bare text": (HEAD + 'assertions: ["Was {{}} answered?"]\n', 3, 14, 'the prompt uses an unknown variable "{{}}"; known are question, candidate_answer, expected_outcome, reference_answer, input_messages, output_messages, expected_messages, file_changes, results, input, output, answer, criteria, outcome, expected_output'),
    "members' verdicts without members": (assertion("type: llm_judge\nprompt: See {{results}}"), 5, 13, 'only a composite\'s aggregator has "{{results}}": the members\' verdicts'),
    "no sample": (assertion("stdout:\n  review: r\n  samples: 0"), 6, 16, '"samples" must be at least 1'),
    "rubrics without weight": (assertion("type: llm_judge\nrubrics: [{outcome: a, weight: 0}]"), 4, 5, "no rubric has a weight above 0: there would be no score"),
    "a judge by nothing": (assertion("type: llm_judge"), 1, 1, 'an LLM judge needs a "prompt", "rubrics", or an "expected_outcome" on the case'),
    "a tool without a value": (assertion("tool:\ncalled: true"), 4, 5, '"tool" is empty; give it a value or remove it'),
    "assertions without a value": (HEAD + "assertions:\n", 3, 1, '"assertions" is empty; give it a value or remove it'),
    "a prompt without a value": ("name: n\nprompt: ~\nassertions: [{tool: Read}]\n", 2, 1, '"prompt" is empty; give it a value or remove it'),
    "a review's model without a value": (assertion("stdout:\n  review: r\n  model:"), 6, 7, '"model" is empty; give it a value or remove it'),
    "a step's arguments without a value": (assertion("type: tool_trajectory\nmode: exact\nexpected:\n  - tool: A\n    max_duration_ms:"), 8, 9, '"max_duration_ms" is empty; give it a value or remove it'),
    "a rubric's weight without a value": (EVAL + "rubrics:\n  - outcome: good\n    required_min_score:\n", 4, 5, '"required_min_score" is empty; give it a value or remove it'),
    "a target without a value": (EVAL + "evaluators: [x]\nexecution: {target: }\n", 3, 13, '"target" is empty; give it a value or remove it'),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), TABLE.values(), ids=TABLE)
def test_a_slip_is_told_with_its_place_and_nothing_else_is(
    problems_of: LoadProblems, text: str, line: int, column: int, message: str
):
    assert problems_of(text) == [Problem("case.yaml", line, column, message)]


def test_null_is_a_value_in_an_author_s_own_data(load_case: LoadCase):
    case = load_case(EVAL + "evaluators: [{tool: Read}]\nmetadata: {a: , b: [~]}\n")
    assert case.metadata == {"a": None, "b": [None]}


def test_a_problem_reads_file_line_column_and_message(problems_of: LoadProblems):
    [problem] = problems_of({"suites/login.yaml": assertion("type: contain")})
    assert str(problem) == (
        'suites/login.yaml:4:11: unknown evaluator type "contain"; did you mean "contains"?'
    )


def test_all_problems_of_all_files_come_at_once(problems_of: LoadProblems):
    files = {
        "a.yaml": "name: 5\nprompt: p\nassertions:\n  - tool: Raed\n  - tool: Read\n    called: maybe\ncolour: red\n",
        "b.yaml": "prompt: [\n",
        "c.yaml": "evaluators: [{type: contain}]\ncases:\n  - id: a\n    input: 5\n  - input: x\n    tagz: x\n",
        "d.jsonl": '{"id": "a", "input": "x"}\n{"id": "a", "input": "x", "evaluators": [5]}\n',
        "e.yaml": b"\xff\xfe",
        "good.yaml": GOOD,
    }
    found = [(problem.file, problem.line, problem.column) for problem in problems_of(files)]
    assert found == [
        ("a.yaml", 1, 7),
        ("a.yaml", 4, 11),
        ("a.yaml", 6, 13),
        ("a.yaml", 7, 1),
        ("b.yaml", 2, 1),
        ("c.yaml", 1, 21),
        ("c.yaml", 4, 12),
        ("c.yaml", 5, 5),
        ("c.yaml", 6, 5),
        ("d.jsonl", 1, 1),
        ("d.jsonl", 2, 1),
        ("d.jsonl", 2, 1),
        ("e.yaml", 1, 1),
    ]


def test_an_input_error_exits_with_2_and_says_everything(load: Load):
    with pytest.raises(InputError) as caught:
        load({"a.yaml": "prompt: [\n", "b.yaml": "prompt: [\n"})
    assert caught.value.exit_code == 2
    assert str(caught.value).splitlines() == [str(problem) for problem in caught.value.problems]
    assert len(caught.value.problems) == 2


def test_keys_that_are_missing_side_by_side_are_told_one_by_one(problems_of: LoadProblems):
    assert problems_of("assertions: [{tool: Read}]\n") == [
        Problem("case.yaml", 1, 1, 'the key "name" is missing'),
        Problem("case.yaml", 1, 1, 'the key "prompt" is missing'),
    ]


def test_a_duplicate_id_in_a_file_names_the_other(problems_of: LoadProblems):
    text = "evaluators: [x]\ncases:\n  - id: a\n    input: x\n  - id: a\n    input: y\n"
    message = 'duplicate id "case::a": it is also at case.yaml:3'
    [problem] = problems_of(text)
    assert (problem.file, problem.line, problem.message) == ("case.yaml", 5, message)


def test_a_duplicate_id_in_two_files_names_the_other(problems_of: LoadProblems):
    [problem] = problems_of({"x/t.yaml": GOOD, "x/t.yml": "# the same\n" + GOOD})
    assert problem == Problem("x/t.yml", 2, 1, 'duplicate id "x/t": it is also at x/t.yaml:1')


def test_a_binary_file_is_told_its_first_wrong_byte(problems_of: LoadProblems):
    message = "is not UTF-8 text (byte 0x89); is it a binary file?"
    assert problems_of({"a.yaml": b"name: n\nx: \x89PNG\r\n"}) == [Problem("a.yaml", 2, 4, message)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_another_encoding_than_utf_8_is_told(problems_of: LoadProblems, encoding: str):
    [problem] = problems_of({"a.yaml": "name: é\nprompt: p\n".encode(encoding)})
    assert (problem.file, problem.line) == ("a.yaml", 1)
    assert "is it a binary file?" in problem.message or "not valid YAML" in problem.message


def test_a_byte_order_mark_is_no_problem(load: Load):
    suite = load({"a.yaml": b"\xef\xbb\xbf" + GOOD.encode(), "b.jsonl": b'\xef\xbb\xbf{"id": "a", "input": "x", "evaluators": ["x"]}\n'})  # fmt: skip
    assert [case.id for case in suite.cases] == ["a", "b::a"]


def test_a_file_too_large_is_told(problems_of: LoadProblems):
    found = problems_of({"a.yaml": GOOD + "#" * MAX_BYTES})
    assert found == [Problem("a.yaml", 1, 1, "is larger than 16 MiB; split it")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads what it may not")
def test_a_file_that_may_not_be_read_is_told(problems_of: LoadProblems, write):
    path = write({"a.yaml": GOOD}) / "a.yaml"
    path.chmod(0)
    assert problems_of({}) == [Problem("a.yaml", 1, 1, "can't be read: Permission denied")]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file here that nobody can read")
def test_a_file_that_can_t_be_read_is_told(problems_of: LoadProblems, write):
    root = write({"good.yaml": GOOD, "bad.yaml": "prompt: ["})
    (root / "a.yaml").symlink_to("/proc/self/mem")  # its first page is not mapped: reading it fails
    found = problems_of({})
    assert found[0] == Problem("a.yaml", 1, 1, "can't be read: Input/output error")
    assert [problem.file for problem in found] == ["a.yaml", "bad.yaml"]


def test_a_settings_file_that_can_t_be_read_is_told(write):
    root = write({"x/a.yaml": GOOD, "x/farm.yaml/file": ""})
    with pytest.raises(InputError) as caught:
        load_suite([root / "x/a.yaml"])
    assert caught.value.problems == (Problem("x/farm.yaml", 1, 1, "can't be read: Is a directory"),)


def test_a_directory_without_tests_is_an_error(load: Load, write):
    root = write({"x/readme.md": "no test"})
    with pytest.raises(UsageError) as caught:
        load({}, "x")
    assert str(caught.value) == f"no test found in {root / 'x'}"


def test_an_alias_bomb_is_refused(problems_of: LoadProblems):
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    [problem] = problems_of("\n".join(levels))
    assert problem.message == "grows beyond all measure when its aliases are written out"
    assert (problem.line, problem.column) == (5, 5)


def test_a_merge_bomb_is_refused(problems_of: LoadProblems):
    lines = ["a0: &a0 {k0: 1}"]
    lines += [f"a{n}: &a{n} {{<<: *a{n - 1}, k{n}: 1}}" for n in range(1, 20_000)]
    [problem] = problems_of("\n".join(lines))
    assert problem.message == "grows beyond all measure when its aliases are written out"
    assert problem.line > 1


def test_every_small_document_of_a_large_file_is_refused_as_an_alias_bomb(problems_of: LoadProblems):
    bomb = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 5))
    [problem] = problems_of(f"{GOOD}metadata: {'x' * 100_000}\n---\n{bomb}")
    assert (problem.line, problem.column) == (10, 5)


def test_aliases_in_moderation_are_welcome(load_case: LoadCase):
    case = load_case(
        """\
name: n
prompt: p
assertions:
  - &read
    tool: Read
    params: &params {file_path: "*.env"}
    called: false
  - {<<: *read, tool: Edit}
  - {tool: Bash, params: *params}
  - {<<: [{max_calls: 2}, {max_calls: 3, min_calls: 1}], tool: Grep}
"""
    )
    dumped = [spec.model_dump(exclude_defaults=True) for spec in case.evaluators]
    assert dumped == [
        {"tool": "Read", "params": {"file_path": "*.env"}, "called": False},
        {"tool": "Edit", "params": {"file_path": "*.env"}, "called": False},
        {"tool": "Bash", "params": {"file_path": "*.env"}},
        {"tool": "Grep", "max_calls": 2, "min_calls": 1},
    ]


def test_a_slip_that_was_merged_is_told_where_it_is_written(problems_of: LoadProblems):
    text = HEAD + "assertions:\n  - &a\n    tool: Raed\n  - <<: *a\n    called: true\n"
    assert problems_of(text) == [
        Problem("case.yaml", 5, 11, 'unknown tool "Raed"; did you mean "Read"?'),
    ]


def test_a_slip_at_the_end_of_thousands_of_merges_is_told(problems_of: LoadProblems):
    chain = ["    - &m0 {tool: Raed}"] + [f"    - &m{n} {{<<: *m{n - 1}}}" for n in range(1, 3000)]
    padding = f"# {'x' * 1_000_000}\n"  # aliases may add up to more in a longer file
    text = EVAL + padding + "metadata:\n  m:\n" + "\n".join(chain) + "\nevaluators: [*m2999]\n"
    assert problems_of(text) == [Problem("case.yaml", 5, 18, 'unknown tool "Raed"; did you mean "Read"?')]


def nested(depth: int) -> str:
    return f"{EVAL}evaluators: [x]\nmetadata: {{a: {'[' * depth}{']' * depth}}}\n"


def test_nesting_is_allowed_up_to_a_limit(load_case: LoadCase):
    assert load_case(nested(MAX_DEPTH - 3)).metadata["a"] != []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (nested(MAX_DEPTH), 3),
        ("[" * 50_000, 1),
        ("{a: " * 50_000, 1),
        ("- " * 50_000, 1),
        ("input: x\nmetadata:\n" + "".join(" " * n + "a:\n" for n in range(1, 200)), MAX_DEPTH),
    ],
    ids=["just too deep", "brackets", "braces", "dashes", "lines"],
)
def test_deeper_nesting_is_refused(problems_of: LoadProblems, text: str, line: int):
    [problem] = problems_of(text)
    assert problem.message == f"is nested deeper than {MAX_DEPTH} levels"
    assert (problem.file, problem.column) == ("case.yaml", 1)
    assert abs(problem.line - line) <= 2


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deeper_nesting_is_refused_in_json_too(problems_of: LoadProblems, opening: str):
    [problem] = problems_of({"a.jsonl": "\n" + opening * 50_000 + "\n"})
    assert problem == Problem("a.jsonl", 2, 1, f"is nested deeper than {MAX_DEPTH} levels")


def test_fifty_thousand_brackets_do_not_crash_the_process(tmp_path: Path):
    path = tmp_path / "deep.yaml"
    path.write_text("prompt: " + "[" * 50_000)
    code = "import sys; from pathlib import Path; from farm.authoring.load import load_suite\n"
    code += "try: load_suite([Path(sys.argv[1])])\nexcept Exception as error: print(type(error).__name__)"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "InputError\n")


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ('{"a": 1, "a": 2}', 1, 'duplicate key "a"'),
        ('{"a": NaN}', 1, "NaN is not valid JSON"),
        ('{"a": -Infinity}', 1, "-Infinity is not valid JSON"),
        ('{"a": 1e999}', 1, "is too large a number; write it as text, in quotes"),
        ('{"a": 99999999999999999999}', 1, "is too large a number; write it as text, in quotes"),
        ('{"a": "\\ud800"}', 1, "holds half of a surrogate pair, such as \\ud800"),
        ('{"a": }', 7, "not valid JSON: Expecting value"),
        ('{"a": 1} x', 10, "not valid JSON: Extra data"),
        ('["text"]', 1, "a case must be a mapping"),
    ],
)
def test_a_broken_line_of_json_is_told(problems_of: LoadProblems, line: str, column: int, message: str):
    assert problems_of({"a.jsonl": f"\n\n{line}\n"}, "a.jsonl") == [Problem("a.jsonl", 3, column, message)]


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        # YAML 1.1 would make False, True, 90, a date and 420 of these.
        ("no", "no"),
        ("No", "No"),
        ("off", "off"),
        ("on", "on"),
        ("yes", "yes"),
        ("y", "y"),
        ("1:30", "1:30"),
        ("2025-01-01", "2025-01-01"),
        ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("0644", 644),
        ("0o644", 420),
        ("0x1F", 31),
        ("-17", -17),
        ("+3", 3),
        ("3.50", 3.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("Null", None),
        ("", None),
        ('"5"', "5"),
        ("'true'", "true"),
        ("!!str 5", "5"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
    ],
)
def test_scalars_follow_yaml_1_2(scalar: str, value: object):
    [document] = parse_yaml(f"a: {scalar}\n", "a.yaml")
    assert document.data == {"a": value}
    assert type(document.data["a"]) is type(value)


def test_keys_are_text_as_they_are_written():
    [document] = parse_yaml("no: 1\n1: 2\n1.0: 3\ntrue: 4\n~: 5\n2025-01-01: 6\n", "a.yaml")
    assert document.data == {"no": 1, "1": 2, "1.0": 3, "true": 4, "~": 5, "2025-01-01": 6}
