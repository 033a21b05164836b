"""SPEC §1: which files are tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farm.authoring.discover import NEVER_ENTERED, discover
from farm.authoring.load import load_suite
from farm.errors import InputError, Problem, UsageError
from farm.model.suite import Suite
from tests.unit.authoring.conftest import Load, LoadProblems

TEST = "name: n\nprompt: p\nassertions: [{tool: Read}]\n"
LINE = '{"id": "a", "input": "x", "evaluators": ["good?"]}\n'
NO_TEST = "services: {web: {image: x}}\n"


def ids(suite: Suite) -> list[str]:
    return [case.id for case in suite.cases]


def test_a_file_is_taken_as_it_is_whatever_its_ending(load: Load):
    assert ids(load({"test.txt": TEST, "other.yaml": TEST}, "test.txt")) == ["test"]


def test_a_directory_is_searched_for_three_endings(load: Load):
    files = {
        "a.yaml": TEST,
        "b.yml": TEST,
        "c.jsonl": LINE,
        "d.txt": TEST,
        "e.json": TEST,
        "f.yaml.bak": TEST,
    }
    assert ids(load(files)) == ["a", "b", "c::a"]


def test_a_directory_is_searched_recursively(load: Load):
    assert ids(load({"a.yaml": TEST, "x/b.yaml": TEST, "x/y/z/c.yaml": TEST})) == ["a", "x/b", "x/y/z/c"]


def test_without_recursion_only_the_directory_itself_is_searched(load: Load):
    assert ids(load({"a.yaml": TEST, "x/b.yaml": TEST}, recursive=False)) == ["a"]


@pytest.mark.parametrize("name", [".git", "node_modules", "target", ".venv", "__pycache__", ".farm"])
def test_some_directories_are_never_entered(load: Load, name: str):
    assert ids(load({f"{name}/a.yaml": TEST, f"x/{name}/b.yaml": TEST, "c.yaml": TEST})) == ["c"]


def test_the_directories_that_are_never_entered_are_those_of_the_contract():
    assert {".git", "node_modules", "target", ".venv", "__pycache__", ".farm"} == NEVER_ENTERED


def test_other_hidden_directories_are_entered(load: Load):
    assert ids(load({".github/a.yaml": TEST, "targets/b.yaml": TEST})) == [".github/a", "targets/b"]


def test_a_directory_that_is_never_entered_may_still_be_named(load: Load):
    assert ids(load({"target/a.yaml": TEST}, "target")) == ["target/a"]


def test_a_directory_may_be_named_like_a_file(load: Load):
    assert ids(load({"x.yaml/a.yaml": TEST})) == ["x.yaml/a"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.aptitude.yaml", ["a.aptitude", "x/b.aptitude"]),
        ("*.{yaml,yml}", ["a.aptitude", "c", "d", "x/b.aptitude", "x/e"]),
        ("{c,d,e}.y*ml", ["c", "d", "x/e"]),
        ("x/*.yaml", ["x/b.aptitude", "x/e"]),
        ("?.yaml", ["c", "x/e"]),
        ("[cd].y*", ["c", "d"]),
        ("*.txt", ["f"]),
    ],
)
def test_a_pattern_selects_by_name_or_path(load: Load, pattern: str, found: list[str]):
    names = ["a.aptitude.yaml", "x/b.aptitude.yaml", "c.yaml", "d.yml", "x/e.yaml", "f.txt"]
    assert ids(load(dict.fromkeys(names, TEST), pattern=pattern)) == found


def test_a_pattern_does_not_concern_files_that_are_named(load: Load):
    assert ids(load({"a.yaml": TEST, "b.yaml": TEST}, "a.yaml", pattern="b*")) == ["a"]


def test_a_pattern_with_too_many_alternatives_is_refused(load: Load):
    with pytest.raises(UsageError, match="--pattern has too many alternatives"):
        load({"a.yaml": TEST}, pattern="{a,b}" * 40)


@pytest.mark.parametrize(
    "text",
    [
        "prompt: p\nname: n\nassertions: [{tool: Read}]\n",
        "tests: [{id: a, input: x}]\nevaluators: [x]\n",
        "evalcases: [{id: a, input: x}]\nevaluators: [x]\n",
        "cases: [{id: a, input: x}]\nevaluators: [x]\n",
        "input: x\nevaluators: [x]\n",
        "input_messages: [{role: user, content: x}]\nevaluators: [x]\n",
        "- input: x\n  id: a\n  evaluators: [x]\n",
    ],
)
def test_a_file_with_a_marking_key_is_a_test(load: Load, text: str):
    suite = load({"a.yaml": text})
    assert len(suite.cases) == 1
    assert suite.skipped_files == ()


def test_a_file_with_only_assertions_is_a_test_with_a_problem(problems_of: LoadProblems):
    found = problems_of({"a.yaml": "assertions: [{tool: Read}]\n", "b.yaml": TEST})
    assert [problem.message for problem in found] == [
        'the key "name" is missing',
        'the key "prompt" is missing',
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            NO_TEST,
            "it has none of the keys prompt, assertions, evalcases, tests, cases, input, input_messages",
        ),
        ("- a\n- b\n", "it is not a mapping"),
        ("just text\n", "it is not a mapping"),
        ("- {a: b}\n", "it is not a mapping"),
    ],
)
def test_another_yaml_file_in_a_directory_is_skipped_and_listed(load: Load, text: str, reason: str):
    suite = load({"a.yaml": TEST, "x/other.yaml": text})
    assert ids(suite) == ["a"]
    assert [(skipped.file, skipped.reason) for skipped in suite.skipped_files] == [("x/other.yaml", reason)]
    assert suite.test_files == ("a.yaml",)


def test_another_yaml_file_that_is_named_is_a_problem(problems_of: LoadProblems):
    keys = "prompt, assertions, evalcases, tests, cases, input, input_messages"
    message = f"not a test: it has none of the keys {keys}"
    assert problems_of({"a.yaml": "# a comment\n" + NO_TEST}, "a.yaml") == [Problem("a.yaml", 2, 1, message)]


def test_naming_a_file_beside_its_directory_makes_it_a_test_too(problems_of: LoadProblems):
    for paths in ((".", "b.yaml"), ("b.yaml", ".")):
        [problem] = problems_of({"a.yaml": TEST, "b.yaml": NO_TEST}, *paths)
        assert (problem.file, problem.message[:11]) == ("b.yaml", "not a test:")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("promt", "prompt"),
        ("assertion", "assertions"),
        ("evalcase", "evalcases"),
        ("inputmessages", "input_messages"),
    ],
)
def test_a_slip_of_a_marking_key_does_not_hide_a_test(problems_of: LoadProblems, key: str, meant: str):
    found = problems_of({"a.yaml": TEST, "b.yaml": f"name: n\n{key}: p\n"})
    assert found == [Problem("b.yaml", 2, 1, f'unknown key "{key}"; did you mean "{meant}"?')]


def test_recorded_sessions_in_a_directory_are_skipped(load: Load):
    recorded = '{"type": "user", "message": {}}\n{"type": "assist'
    suite = load({"a.yaml": TEST, "session.jsonl": recorded})
    assert ids(suite) == ["a"]
    [skipped] = suite.skipped_files
    assert skipped.file == "session.jsonl"
    assert skipped.reason.startswith("its first line has none of the keys prompt,")


def test_a_recorded_session_that_is_named_is_a_problem(problems_of: LoadProblems):
    found = problems_of({"session.jsonl": '{"type": "user"}\n'}, "session.jsonl")
    assert found[0].file == "session.jsonl"
    assert any(problem.message.startswith('unknown key "type"') for problem in found)


def test_the_farm_s_own_settings_are_no_test(load: Load):
    suite = load({"a.yaml": TEST, "farm.yaml": "agent: codex\n"})
    assert ids(suite) == ["a"]
    assert suite.skipped_files == ()


def test_settings_that_do_not_hold_here_are_listed_as_skipped(load: Load):
    suite = load({"a.yaml": TEST, "x/farm.yaml": "agent: codex\n", "x/b.yaml": TEST})
    assert [(case.id, case.agent) for case in suite.cases] == [("a", "claude"), ("x/b", "claude")]
    [skipped] = suite.skipped_files
    assert skipped.file == "x/farm.yaml"
    assert skipped.reason.startswith("its settings hold only where it is the suite root")


def test_settings_that_are_named_are_a_problem(problems_of: LoadProblems):
    [problem] = problems_of({"farm.yaml": "agent: codex\n"}, "farm.yaml")
    assert (problem.file, problem.message[:11]) == ("farm.yaml", "not a test:")


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({"readme.md": "x"}, {}, "no test found in {root}"),
        ({"x/y/.keep": ""}, {}, "no test found in {root}"),
        ({"a.yaml": NO_TEST}, {}, "no test found in {root}; 1 files are not tests, see --list-tests"),
        ({"a.yaml": TEST}, {"pattern": "*.test.yaml"}, "no test found in {root} matching *.test.yaml"),
        ({"x/a.yaml": TEST}, {"recursive": False}, "no test found in {root}"),
    ],
)
def test_no_test_found_is_an_error(load: Load, write, files, options, message: str):
    root = write({})
    with pytest.raises(UsageError) as caught:
        load(files, **options)
    assert str(caught.value) == message.format(root=root)
    assert caught.value.exit_code == 2


def test_a_path_that_does_not_exist_is_an_error(load: Load, write):
    root = write({})
    with pytest.raises(UsageError) as caught:
        load({"a.yaml": TEST}, "a.yaml", "b.yaml")
    assert str(caught.value) == f"{root / 'b.yaml'}: no such file or directory"


def test_a_dangling_link_that_is_named_is_an_error(load: Load, write):
    (write({"a.yaml": TEST}) / "link.yaml").symlink_to("gone.yaml")
    with pytest.raises(UsageError, match="no such file or directory"):
        load({}, "link.yaml")


def test_links_that_lead_in_a_circle_are_an_error(load: Load, write):
    (write({"a.yaml": TEST}) / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(UsageError, match=r"loop\.yaml"):
        load({}, "loop.yaml")


def test_a_path_too_long_for_a_file_is_an_error(load: Load):
    with pytest.raises(UsageError, match="aaaa"):
        load({"a.yaml": TEST}, "a" * 5000)


def test_links_to_directories_are_not_followed(load: Load, write):
    root = write({"x/a.yaml": TEST})
    (root / "x/again").symlink_to(root)
    assert ids(load({})) == ["x/a"]


def test_links_to_files_are_followed(load: Load, write):
    root = write({"real.txt": TEST})
    (root / "link.yaml").symlink_to("real.txt")
    assert ids(load({})) == ["link"]


def test_a_file_that_is_found_twice_is_one(load: Load):
    files = {"x/a.yaml": TEST, "b.yaml": TEST}
    assert ids(load(files, ".", "x", "x/a.yaml", "x/../b.yaml")) == ["b", "x/a"]


def test_candidates_come_in_order(write):
    root = write(dict.fromkeys(["b.yaml", "a.yaml", "z/c.yaml", "y/d.yaml", "y/a/e.yaml"], TEST))
    found = [os.path.relpath(candidate.path, root) for candidate in discover([root], "?.yaml")]
    assert found == ["a.yaml", "b.yaml", "y/d.yaml", "y/a/e.yaml", "z/c.yaml"]


def test_only_a_file_given_by_its_path_is_named(write):
    root = write({"a.yaml": TEST, "x/b.yaml": TEST})
    found = {candidate.path.name: candidate.named for candidate in discover([root / "a.yaml", root / "x"])}
    assert found == {"a.yaml": True, "b.yaml": False}


def test_a_path_is_relative_to_the_current_directory(write, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(write({"x/a.yaml": TEST}) / "x")
    assert ids(load_suite([Path("a.yaml")])) == ["x/a"]
    Path("b.yaml").write_text("prompt: 5\nname: n\nassertions: [{tool: Read}]\n")
    with pytest.raises(InputError) as caught:
        load_suite([Path(".")])
    assert caught.value.problems == (Problem("b.yaml", 1, 9, '"prompt" must be text, not the number 5'),)


def test_files_elsewhere_are_named_by_the_way_to_them(write, monkeypatch: pytest.MonkeyPatch):
    wrong = "prompt: 5\nname: n\nassertions: [{tool: Read}]\n"
    root = write({"a.yaml": wrong, "x/b.yaml": wrong, "x/c.yaml": wrong, "y/d.yaml": wrong})
    for directory, names in (
        (root / "x", ["../a.yaml", "../y/d.yaml", "b.yaml", "c.yaml"]),
        (root / "y", ["../a.yaml", "../x/b.yaml", "../x/c.yaml", "d.yaml"]),
    ):
        monkeypatch.chdir(directory)
        with pytest.raises(InputError) as caught:
            load_suite([root])
        assert [problem.file for problem in caught.value.problems] == names


def test_a_test_behind_a_document_that_is_none_is_not_left_out(problems_of: LoadProblems):
    [problem] = problems_of({"a.yaml": f"title: x\n---\n{TEST}", "b.yaml": TEST})
    assert str(problem).startswith("a.yaml:1:1: not a test: it has none of the keys")


def test_a_list_of_cases_whose_first_has_a_slip_is_not_left_out(problems_of: LoadProblems):
    problems = problems_of(
        {"a.yaml": f'[{{"id": "z", "inptu": "x", "evaluators": ["?"]}}, {LINE}]', "b.yaml": TEST}
    )
    assert any('unknown key "inptu"' in str(problem) for problem in problems)


@pytest.mark.parametrize("target", ["nowhere.yaml", "link.yaml"], ids=["nowhere", "in a circle"])
def test_a_link_that_leads_nowhere_is_a_problem(write, target: str):
    root = write({"a.yaml": TEST})
    (root / "link.yaml").symlink_to(target)
    (root / ".#a.yaml").symlink_to("editor@host.123")  # the lock of an editor is none of ours
    with pytest.raises(InputError) as caught:
        load_suite([root])
    [problem] = caught.value.problems
    assert str(problem).startswith("link.yaml:1:1: can't be read: ")
