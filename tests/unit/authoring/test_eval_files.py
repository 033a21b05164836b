"""SPEC §2: what an eval file and its cases may say, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.authoring.load import load_suite
from farm.errors import Problem
from farm.model.agent import CallTool, Crash, Say, Sleep
from farm.model.evaluator import CodeJudgeSpec, CompositeSpec, IsJsonSpec, LlmJudgeSpec
from farm.model.suite import Case, Rate, Suite, Trials
from tests.unit.authoring.conftest import Load, LoadCase, LoadProblems

CASE: dict[str, Any] = {"id": "a", "input": "go", "evaluators": [{"type": "contains", "value": "x"}]}


def written(**keys: Any) -> str:
    """Write a document as JSON, which is YAML too."""
    return json.dumps(keys)


def the_case(suite: Suite) -> Case:
    [case] = suite.cases
    return case


def ids(suite: Suite) -> list[str]:
    return [case.id for case in suite.cases]


# Defaults of the suite


@pytest.mark.parametrize(
    ("key", "of_suite", "of_case"),
    [
        ("agent", "codex", "gemini"),
        ("model", "small", "large"),
        ("timeout_seconds", 5, 6.5),
        ("isolation", "process", "bubblewrap"),
        ("network", False, True),
        ("weight", 2, 0),
        ("skip", "not today", "nor tomorrow"),
        ("max_cost_usd", 1.5, 0.5),
        ("max_turns", 7, 8),
    ],
)
def test_a_case_wins_over_its_suite(load: Load, key: str, of_suite: Any, of_case: Any):
    suite = load({"s.yaml": written(**{key: of_suite}, cases=[{**CASE, key: of_case}, {**CASE, "id": "b"}])})
    assert [getattr(case, key) for case in suite.cases] == [of_case, of_suite]


def test_setup_of_the_case_replaces_that_of_the_suite(load: Load):
    cases = [{**CASE, "setup": ["make a", "make b"]}, {**CASE, "id": "b"}]
    suite = load({"s.yaml": written(setup="make all", cases=cases)})
    assert [case.setup for case in suite.cases] == [("make a", "make b"), ("make all",)]


def test_trials_are_a_number_or_a_policy(load: Load):
    cases = [
        {**CASE, "trials": {"count": 5, "policy": {"rate": 0.8}}},
        {**CASE, "id": "b", "trials": {"count": 2, "policy": "any"}},
        {**CASE, "id": "c"},
    ]
    suite = load({"s.yaml": written(trials=3, cases=cases)})
    assert [case.trials for case in suite.cases] == [
        Trials(count=5, policy=Rate(rate=0.8)),
        Trials(count=2, policy="any"),
        Trials(count=3, policy="all"),
    ]


def test_tags_are_united_and_each_is_there_once(load: Load):
    suite = load({"s.yaml": written(tags=["slow", "net"], cases=[{**CASE, "tags": ["net", "mine"]}])})
    assert the_case(suite).tags == ("slow", "net", "mine")
    assert the_case(load({"s.yaml": written(cases=[{**CASE, "tags": "one"}])})).tags == ("one",)


def test_env_is_merged_and_the_case_wins(load: Load):
    suite = load({"s.yaml": written(env={"A": "1", "B": "2"}, cases=[{**CASE, "env": {"B": "3", "C": "4"}}])})
    assert the_case(suite).env == {"A": "1", "B": "3", "C": "4"}


def test_input_of_the_suite_comes_before_that_of_the_case(load: Load):
    suite = load({"s.yaml": written(input=[{"role": "system", "content": "be brief"}], cases=[CASE])})
    messages = the_case(suite).input_messages
    assert [(message.role, message.content) for message in messages] == [
        ("system", "be brief"),
        ("user", "go"),
    ]


def test_input_of_the_suite_may_be_all_that_there_is(load: Load):
    case = {key: value for key, value in CASE.items() if key != "input"}
    assert the_case(load({"s.yaml": written(input="go on", cases=[case])})).question == "go on"


@pytest.mark.parametrize("key", ["evaluators", "assertions", "execution"])
def test_evaluators_of_the_suite_are_added_to_each_case(load: Load, key: str):
    shared: Any = [{"type": "equals", "value": "y"}]
    suite = load(
        {"s.yaml": written(**{key: {"evaluators": shared} if key == "execution" else shared}, cases=[CASE])}
    )
    assert [spec.type for spec in the_case(suite).evaluators] == ["contains", "equals"]


def test_evaluators_of_the_suite_may_be_all_that_there_are(load: Load):
    suite = load({"s.yaml": written(evaluators=["good?"], cases=[{"id": "a", "input": "go"}])})
    assert [spec.type for spec in the_case(suite).evaluators] == ["llm_judge"]


def test_workspace_of_the_suite_is_relative_to_the_suite_s_file(load: Load):
    suite = load(
        {
            "evals/s.yaml": written(workspace="ws", evaluators=["good?"], cases="cases/*.yaml"),
            "evals/cases/a.yaml": written(id="a", input="go"),
            "evals/cases/b.yaml": written(id="b", input="go", workspace="../../other"),
            "evals/ws/file": "",
            "other/file": "",
        }
    )
    assert [case.workspace for case in suite.cases] == ["evals/ws", "other"]


def test_a_case_with_nothing_set_has_the_defaults(load: Load):
    case = the_case(load({"s.yaml": written(cases=[CASE])}))
    assert (case.agent, case.model, case.workspace, case.setup) == ("claude", None, None, ())
    assert (case.timeout_seconds, case.trials, case.tags, case.env) == (None, Trials(), (), {})
    assert (case.weight, case.skip, case.max_cost_usd, case.max_turns) == (1.0, None, None, None)
    assert (case.replay, case.script, case.conversation_id, case.metadata) == (None, None, None, {})
    assert (case.expected_messages, case.expected_outcome, case.files) == ((), None, ())


def test_a_case_keeps_what_is_its_author_s_as_it_is(load: Load):
    metadata = {"riskLevel": "High", "owner_team": [None, 1.5, {"aB": True}]}
    case = the_case(
        load({"s.yaml": written(cases=[{**CASE, "metadata": metadata, "conversation_id": "c1"}])})
    )
    assert (case.metadata, case.conversation_id) == (metadata, "c1")


# Where the cases are


@pytest.mark.parametrize("key", ["evalcases", "tests", "cases"])
def test_cases_have_three_names(load: Load, key: str):
    assert ids(load({"s.yaml": written(**{key: [CASE, {**CASE, "id": "b"}]})})) == ["s::a", "s::b"]


def test_two_names_for_the_cases_are_a_problem(problems_of: LoadProblems):
    problem = Problem("case.yaml", 2, 1, '"tests" says the same as "evalcases": use one of the two')
    text = f"evalcases: [{json.dumps(CASE)}]\ntests: [{json.dumps({**CASE, 'id': 'b'})}]\n"
    assert problems_of(text) == [problem]


@pytest.mark.parametrize("at", ["more.yaml", "./more.yaml", "file://more.yaml"])
def test_cases_may_be_a_path(load: Load, at: str):
    files = {"s.yaml": written(tests=at), "more.yaml": json.dumps([CASE, {**CASE, "id": "b"}])}
    assert ids(load(files)) == ["s::a", "s::b"]


def test_cases_may_be_a_glob(load: Load):
    files = {"s.yaml": written(tests="cases/**/*.yaml")} | {
        f"cases/{name}.yaml": json.dumps({**CASE, "id": name[-1]}) for name in ("a", "deep/b")
    }
    assert ids(load(files)) == ["s::a", "s::b"]


def test_a_glob_may_lead_up_but_not_out_of_the_suite_root(load: Load, problems_of: LoadProblems):
    files = {"sub/s.yaml": written(tests="../cases/*.yaml"), "cases/a.yaml": json.dumps(CASE)}
    assert ids(load(files, "sub/s.yaml")) == ["sub/s::a"]
    Path("../outside").mkdir()
    Path("../outside/a.yaml").write_text(json.dumps(CASE))
    [problem] = problems_of({"s.yaml": "tests: ../outside/*.yaml\n"}, "s.yaml")
    assert (problem.file, problem.line, problem.column) == ("s.yaml", 1, 8)
    assert problem.message.startswith('"../outside/*.yaml" lies outside the suite root')


def test_a_list_of_cases_may_contain_paths(load: Load):
    files = {
        "s.yaml": written(tests=[CASE, "one.yaml", "more/*.jsonl"]),
        "one.yaml": json.dumps({**CASE, "id": "b"}),
        "more/c.jsonl": json.dumps({**CASE, "id": "c"}) + "\n\n" + json.dumps({**CASE, "id": "d"}) + "\n",
    }
    assert ids(load(files)) == ["s::a", "s::b", "s::c", "s::d"]


def test_a_case_file_may_hold_several_documents(load: Load):
    files = {"s.yaml": written(tests="d.yaml"), "d.yaml": f"{json.dumps(CASE)}\n---\n- {{id: b}}\n"}
    files["s.yaml"] = written(tests="d.yaml", input="go", evaluators=["good?"])
    assert ids(load(files)) == ["s::a", "s::b"]


def test_a_case_file_has_the_suite_s_defaults_and_its_own_place(load: Load):
    files = {
        "s.yaml": written(tests="cases/a.yaml", evaluators=["good?"], model="small"),
        "cases/a.yaml": written(
            id="a", input=[{"role": "user", "content": [{"type": "file", "value": "f"}]}]
        ),
        "cases/f": "text",
    }
    case = the_case(load(files))
    assert (case.id, case.model, case.file, case.files) == ("s::a", "small", "cases/a.yaml", ("cases/f",))


def test_a_case_file_read_through_a_suite_is_not_run_a_second_time(load: Load):
    files = {"s.yaml": written(tests="cases/*"), "cases/a.yaml": json.dumps(CASE)}
    suite = load(files)
    assert ids(suite) == ["s::a"]
    assert suite.test_files == ("cases/a.yaml", "s.yaml")


def test_a_case_file_read_through_a_suite_is_not_called_skipped(load: Load):
    files = {
        "s.yaml": written(tests="more.yaml", input="go", evaluators=["good?"]),
        "more.yaml": "- id: a\n- id: b\n",
        "compose.yaml": "services: {}\n",
    }
    suite = load(files)
    assert ids(suite) == ["s::a", "s::b"]
    assert [skipped.file for skipped in suite.skipped_files] == ["compose.yaml"]


def test_problems_of_a_case_file_are_told_once_and_where_they_are(problems_of: LoadProblems):
    files = {
        "one.yaml": written(tests="shared.yaml", evaluators=["good?"]),
        "two.yaml": written(tests="shared.yaml", evaluators=["good?"]),
        "shared.yaml": "id: a\ninput: go\nweigth: 2\n",
    }
    assert problems_of(files) == [
        Problem("shared.yaml", 3, 1, 'unknown key "weigth" in an eval case; did you mean "weight"?')
    ]


@pytest.mark.parametrize(
    ("cases", "column", "message"),
    [
        ('"missing.yaml"', 8, 'no file "missing.yaml" beside this file or above it, up to {root}'),
        ('"missing/*.yaml"', 8, 'no file matches "missing/*.yaml"'),
        ("[]", 8, '"tests" must be a list of cases, a path or a glob'),
        ("5", 8, '"tests" must be a list of cases, a path or a glob'),
        ("{a: b}", 8, '"tests" must be a list of cases, a path or a glob'),
        ("[5]", 9, "a case must be a mapping"),
    ],
)
def test_cases_that_lead_nowhere_are_a_problem(problems_of: LoadProblems, cases, column, message):
    found = problems_of(f"tests: {cases}\n")
    assert found == [Problem("case.yaml", 1, column, message.format(root=Path.cwd()))]


# JSONL


LINES = "".join(json.dumps({**CASE, "id": name}) + "\n" for name in "ab")


def test_every_line_of_a_jsonl_file_is_a_case(load: Load):
    suite = load({"data.jsonl": "\n" + LINES})
    assert ids(suite) == ["data::a", "data::b"]
    assert [case.line for case in suite.cases] == [2, 3]


@pytest.mark.parametrize("ending", ["yaml", "yml"])
@pytest.mark.parametrize("paths", [(), ("data.jsonl",)])
def test_a_yaml_file_beside_a_jsonl_file_says_what_holds_for_all_lines(load: Load, ending: str, paths):
    beside = written(name="my data", agent="codex", evaluators=["good?"], execution={"target": "codex"})
    suite = load({"data.jsonl": '{"id": "a", "input": "go"}\n', f"data.{ending}": beside}, *paths)
    assert (ids(suite), the_case(suite).agent, suite.name) == (["data::a"], "codex", "my data")
    assert [spec.type for spec in the_case(suite).evaluators] == ["llm_judge"]
    assert suite.test_files == ("data.jsonl", f"data.{ending}")


def test_a_yaml_file_beside_a_jsonl_file_may_name_it(load: Load):
    files = {
        "data.jsonl": '{"id": "a", "input": "go"}\n',
        "data.yaml": "tests: data.jsonl\nevaluators: [x]\n",
    }
    assert ids(load(files)) == ["data::a"]


def test_problems_of_both_files_of_a_pair_are_told(problems_of: LoadProblems):
    found = problems_of(
        {
            "data.jsonl": '{"id": "a", "input": "go", "evalutors": ["x"]}\n{"id": "a", "input": "go"}\n',
            "data.yaml": "evaluators: [x]\ntagz: [y]\n",
        }
    )
    assert [(problem.file, problem.line) for problem in found] == [
        ("data.jsonl", 1),
        ("data.jsonl", 2),
        ("data.yaml", 2),
    ]
    assert found[0].message == 'unknown key "evalutors" in an eval case; did you mean "evaluators"?'
    assert found[1].message == 'duplicate id "data::a": it is also at data.jsonl:1'
    assert found[2].message == 'unknown key "tagz" in an eval file; did you mean "tags"?'


def test_every_broken_line_of_a_jsonl_file_is_told(problems_of: LoadProblems):
    found = problems_of({"data.jsonl": LINES + "\n{\n[1,]\n"})
    assert [(problem.line, problem.message[:15]) for problem in found] == [
        (4, "not valid JSON:"),
        (5, "not valid JSON:"),
    ]


# Aliases


@pytest.mark.parametrize("where", ["case", "suite"])
@pytest.mark.parametrize(
    "named", [{"agent": "codex"}, {"target": "codex"}, {"execution": {"target": "codex"}}]
)
def test_an_agent_has_three_names(load: Load, where: str, named: dict[str, Any]):
    keys = {"cases": [{**CASE, **named}]} if where == "case" else {"cases": [CASE], **named}
    assert the_case(load({"s.yaml": written(**keys)})).agent == "codex"


def test_two_agents_at_once_are_a_problem(problems_of: LoadProblems):
    text = "input: x\nevaluators: [x]\nagent: codex\ntarget: gemini\n"
    message = '"agent" and "target" name different agents; use one of the two'
    assert problems_of(text) == [Problem("case.yaml", 1, 1, message)]


@pytest.mark.parametrize(
    ("named", "line", "column"),
    [("agent: claud", 3, 8), ("target: claud", 3, 9), ("execution:\n  target: claud", 4, 11)],
)
@pytest.mark.parametrize(
    "head", ["input: x\nevaluators: [x]\n", "evaluators: [x]\ntests: [{id: a, input: x}]\n"]
)
def test_an_unknown_agent_is_told_where_it_is_named(problems_of: LoadProblems, head, named, line, column):
    message = 'unknown agent "claud"; did you mean "claude"?'
    assert problems_of(head + named) == [Problem("case.yaml", line, column, message)]


@pytest.mark.parametrize("key", ["expected_outcome", "outcome", "criteria"])
def test_an_expected_outcome_has_three_names(load: Load, key: str):
    assert (
        the_case(load({"s.yaml": written(cases=[{**CASE, key: "it works"}])})).expected_outcome == "it works"
    )


def test_two_outcomes_at_once_are_a_problem(problems_of: LoadProblems):
    text = "input: x\nevaluators: [x]\ncriteria: a\noutcome: b\n"
    message = '"criteria" says the same as "outcome": use one of the two'
    assert problems_of(text) == [Problem("case.yaml", 3, 1, message)]


@pytest.mark.parametrize("key", ["evaluators", "assertions", "execution"])
def test_evaluators_have_three_names(load_case: LoadCase, key: str):
    specs: Any = [{"type": "equals", "value": "y"}, {"tool": "Read"}]
    case = load_case(written(input="x", **{key: {"evaluators": specs} if key == "execution" else specs}))
    assert [spec.type for spec in case.evaluators] == ["equals", "tool_call"]


@pytest.mark.parametrize(
    ("second", "line", "column", "message"),
    [
        ("assertions: [y]", 3, 1, '"assertions" says the same as "evaluators": use one of the two'),
        ("execution: {evaluators: [y]}", 3, 25, 'says the same as "evaluators": use one of the two'),
    ],
)
def test_two_lists_of_evaluators_are_a_problem(problems_of: LoadProblems, second, line, column, message):
    text = f"input: x\nevaluators: [x]\n{second}\n"
    assert problems_of(text) == [Problem("case.yaml", line, column, message)]


def test_name_or_dataset_is_the_suite_s_name(load: Load):
    assert load({"s.yaml": written(name="mine", dataset="ours", cases=[CASE])}).name == "mine"
    assert load({"s.yaml": written(dataset="ours", description="d", cases=[CASE])}).name == "ours"
    assert load({"s.yaml": written(cases=[CASE])}).name == "suite"


def test_a_case_s_name_is_its_own_else_its_id_else_its_path(load: Load):
    assert the_case(load({"s.yaml": written(cases=[{**CASE, "name": "A case"}])})).name == "A case"
    assert the_case(load({"s.yaml": written(cases=[CASE])})).name == "a"
    assert the_case(load({"s.yaml": written(input="x", evaluators=["x"])})).name == "s"


# Evaluators


def test_a_bare_string_is_an_llm_judge_s_prompt(load_case: LoadCase):
    [spec] = load_case("input: x\nevaluators: [Is it polite?]\n").evaluators
    assert isinstance(spec, LlmJudgeSpec)
    assert (spec.prompt, spec.rubrics) == ("Is it polite?", ())


def test_rubrics_of_a_case_make_one_llm_judge(load_case: LoadCase):
    case = load_case(
        """\
input: x
rubrics:
  - polite
  - id: exact
    outcome: gives the number
    weight: 2
    required: true
  - score_ranges:
      - score_range: [0, 3]
        outcome: bad
"""
    )
    [spec] = case.evaluators
    assert isinstance(spec, LlmJudgeSpec)
    assert [(rubric.id, rubric.outcome, rubric.weight, rubric.required) for rubric in spec.rubrics] == [
        (None, "polite", 1.0, False),
        ("exact", "gives the number", 2.0, True),
        (None, None, 1.0, False),
    ]
    assert spec.rubrics[2].score_ranges[0].score_range == (0, 3)


def test_rubrics_go_beside_evaluators(load_case: LoadCase):
    case = load_case("input: x\nrubrics: [polite]\nevaluators: [{type: equals, value: y}]\n")
    assert [spec.type for spec in case.evaluators] == ["equals", "llm_judge"]


@pytest.mark.parametrize(
    ("written_type", "rest", "kind"),
    [
        ("llm_judge", {"prompt": "Is it polite?"}, "llm_judge"),
        ("llm-judge", {"prompt": "Is it polite?"}, "llm_judge"),
        ("llm_grader", {"prompt": "Is it polite?"}, "llm_judge"),
        ("llm-grader", {"prompt": "Is it polite?"}, "llm_judge"),
        ("rubrics", {"rubrics": ["polite"]}, "llm_judge"),
        ("code_judge", {"command": "true"}, "code_judge"),
        ("code-judge", {"script": ["true"]}, "code_judge"),
        ("code_grader", {"command": ["true"]}, "code_judge"),
        ("code-grader", {"command": "true"}, "code_judge"),
        ("script", {"script": "true"}, "code_judge"),
        ("tool-trajectory", {"mode": "exact", "expected": []}, "tool_trajectory"),
        ("field-accuracy", {"fields": [{"path": "a"}]}, "field_accuracy"),
        ("contains-any", {"value": ["a"]}, "contains_any"),
        ("is-json", {}, "is_json"),
        ("tool_call", {"tool": "Read"}, "tool_call"),
        ("stdout-review", {"stdout": {"review": "r"}}, "stdout_review"),
    ],
)
def test_an_evaluator_type_may_be_spelled(load_case: LoadCase, written_type: str, rest, kind: str):
    [spec] = load_case(written(input="x", evaluators=[{"type": written_type, **rest}])).evaluators
    assert spec.type == kind


def test_a_code_judge_s_other_keys_are_its_configuration(load_case: LoadCase):
    entry = {"type": "code_judge", "command": "true", "config": {"a": 1, "b": 2}, "limit": 3, "b": 0}
    [spec] = load_case(written(input="x", evaluators=[entry])).evaluators
    assert isinstance(spec, CodeJudgeSpec)
    assert spec.config == {"limit": 3, "a": 1, "b": 2}


def test_a_code_judge_s_slip_of_a_key_is_not_taken_for_configuration(problems_of: LoadProblems):
    text = "input: x\nevaluators:\n  - type: code_judge\n    command: 'true'\n    timeout_second: 5\n"
    message = 'unknown key "timeout_second"; did you mean "timeout_seconds"?'
    assert problems_of(text) == [Problem("case.yaml", 5, 5, message)]


def test_a_composite_has_members_and_an_aggregator(load_case: LoadCase):
    entry = {
        "type": "composite",
        "assertions": [{"tool": "Read"}, "polite?"],
        "aggregator": {"type": "threshold", "threshold": 0.5},
    }
    [spec] = load_case(written(input="x", evaluators=[entry])).evaluators
    assert isinstance(spec, CompositeSpec)
    assert [member.type for member in spec.evaluators] == ["tool_call", "llm_judge"]
    assert spec.aggregator.type == "threshold"


# What a case refers to


FILE_PART = [
    {"role": "user", "content": [{"type": "text", "value": "see"}, {"type": "file", "value": "f.md"}]}
]


@pytest.mark.parametrize(
    ("where", "found"),
    [("a/b/f.md", "a/b/f.md"), ("a/f.md", "a/f.md"), ("f.md", "f.md")],
)
def test_a_file_is_searched_beside_the_file_then_upwards_to_the_suite_root(load: Load, where, found):
    suite = load({"a/b/s.yaml": written(cases=[{**CASE, "input": FILE_PART}]), where: "text"})
    case = the_case(suite)
    assert case.files == (found,)
    assert case.input_messages[0].content == [
        {"type": "text", "value": "see"},
        {"type": "file", "value": found},
    ]


def test_the_nearest_file_wins(load: Load):
    files = dict.fromkeys(("f.md", "a/f.md", "a/b/c/f.md"), "text")
    assert the_case(load({"a/b/s.yaml": written(cases=[{**CASE, "input": FILE_PART}]), **files})).files == (
        "a/f.md",
    )


def test_a_file_above_the_suite_root_is_not_found(problems_of: LoadProblems, write):
    root = write({})
    (root.parent / "f.md").write_text("text")
    text = "evaluators: [x]\ninput:\n  - role: user\n    content:\n      - {type: file, value: f.md}\n"
    message = f'no file "f.md" beside this file or above it, up to {root}'
    assert problems_of(text) == [Problem("case.yaml", 5, 29, message)]


def test_a_file_outside_the_suite_root_can_t_travel(problems_of: LoadProblems, write):
    root = write({})
    (root.parent / "f.md").write_text("text")
    text = "evaluators: [x]\ninput:\n  - role: user\n    content: [{type: file, value: ../f.md}]\n"
    message = f'"../f.md" lies outside the suite root {root}; a worker would not have it'
    assert problems_of(text) == [Problem("case.yaml", 4, 35, message)]


def test_all_that_a_case_refers_to_travels_with_it(load: Load):
    case = {
        "id": "a",
        "input": FILE_PART,
        "expected_messages": [{"role": "assistant", "content": [{"type": "file", "value": "answer.txt"}]}],
        "replay": "session.jsonl",
        "evaluators": [
            {"type": "code_judge", "command": ["python3", "judges/check.py"], "files": ["judges/data/*.csv"]},
            {
                "type": "composite",
                "evaluators": [{"type": "script", "script": "sh judges/inner.sh"}],
                "aggregator": {"type": "code_judge", "path": "judges/sum.py"},
            },
        ],
    }
    files = ["f.md", "answer.txt", "session.jsonl", "judges/check.py", "judges/inner.sh", "judges/sum.py"]
    files += ["judges/data/a.csv", "judges/data/b.csv", "judges/unused.py"]
    contents = {f"evals/{file}": '{"type": "x"}\n' for file in files}
    suite = load({"evals/s.yaml": written(cases=[case]), **contents}, "evals/s.yaml")
    assert the_case(suite).files == tuple(sorted(f"evals/{file}" for file in files if "unused" not in file))
    assert the_case(suite).replay == "evals/session.jsonl"


def test_a_judge_s_command_and_directory_are_under_the_suite_root(load: Load):
    entry = {"type": "code_judge", "command": ["python3", "check.py"], "cwd": "judges"}
    suite = load({"e/s.yaml": written(cases=[{**CASE, "evaluators": [entry]}]), "e/judges/check.py": ""})
    [spec] = the_case(suite).evaluators
    assert isinstance(spec, CodeJudgeSpec)
    assert (spec.cwd, spec.files) == ("e/judges", ("e/judges/check.py",))


def test_a_prompt_template_is_read_where_it_is_found(load: Load):
    entries = [{"type": "llm_judge", "prompt": at} for at in ("./p.md", "p.md", "file://p.md")]
    suite = load({"a/s.yaml": written(cases=[{**CASE, "evaluators": entries}]), "p.md": "Grade {answer}."})
    prompts = [spec.prompt for spec in the_case(suite).evaluators if isinstance(spec, LlmJudgeSpec)]
    assert prompts == ["Grade {answer}."] * 3


def test_a_json_schema_may_be_a_file(load: Load):
    entry = {"type": "is_json", "schema": "answer.schema.json"}
    files = {"answer.schema.json": '{"type": "object"}'}
    [spec] = the_case(load({"s.yaml": written(cases=[{**CASE, "evaluators": [entry]}]), **files})).evaluators
    assert isinstance(spec, IsJsonSpec)
    assert spec.json_schema == {"type": "object"}


@pytest.mark.parametrize(
    ("entry", "column", "message"),
    [
        ("replay: gone.jsonl", 9, 'no file "gone.jsonl" beside this file or above it, up to {root}'),
        ("workspace: gone", 12, 'workspace "gone" is not a directory'),
        (
            "assertions: [{type: llm_judge, prompt: ./gone.md}]",
            40,
            'no file "./gone.md" beside this file or above it, up to {root}',
        ),
        (
            "assertions: [{type: is_json, schema: gone.json}]",
            38,
            'no file "gone.json" beside this file or above it, up to {root}',
        ),
        (
            "assertions: [{type: code_judge, command: python3 gone.py}]",
            14,
            'the command names "gone.py", which is not a file beside this file',
        ),
        (
            "assertions: [{type: code_judge, command: x, files: [gone/*]}]",
            14,
            'no file matches "gone/*"',
        ),
        ("assertions: [{type: code_judge, command: x, cwd: gone}]", 14, '"gone" is not a directory'),
    ],
)
def test_a_missing_file_is_a_problem(problems_of: LoadProblems, entry: str, column: int, message: str):
    rest = "" if entry.startswith("assertions") else "evaluators: [x]\n"
    found = problems_of(f"{entry}\ninput: x\n{rest}")
    assert found == [Problem("case.yaml", 1, column, message.format(root=Path.cwd()))]


# Ids


TEST = "name: n\nprompt: p\nassertions: [{tool: Read}]\n"


def test_ids_are_paths_under_the_suite_root(load: Load):
    suite = load(
        {
            "top.yaml": TEST,
            "sub/two.yaml": f"{TEST}---\n{TEST}---\n{TEST}",
            "sub/single.yml": written(input="x", evaluators=["x"]),
            "sub/named.yaml": written(**CASE),
            "sub/list.yaml": json.dumps([CASE]),
            "sub/lines.jsonl": LINES,
            "sub/dotted.name.yaml": written(cases=[CASE]),
        }
    )
    assert ids(suite) == [
        "sub/dotted.name::a",
        "sub/lines::a",
        "sub/lines::b",
        "sub/list::a",
        "sub/named::a",
        "sub/single",
        "sub/two",
        "sub/two#2",
        "sub/two#3",
        "top",
    ]


def test_ids_are_the_same_whichever_part_of_the_suite_is_submitted(
    load: Load, monkeypatch: pytest.MonkeyPatch
):
    files = {"a/b/t.yaml": TEST, "a/b/s.yaml": written(cases=[CASE]), "c/t.yaml": TEST}
    whole = ids(load(files))
    assert whole == ["a/b/s::a", "a/b/t", "c/t"]
    assert ids(load(files, "a")) == ids(load(files, "a/b")) == whole[:2]
    assert ids(load(files, "a/b/t.yaml")) == ["a/b/t"]
    assert ids(load(files, "c", "a/b/s.yaml")) == ["a/b/s::a", "c/t"]
    monkeypatch.chdir("a/b")
    assert ids(load_suite([Path("t.yaml")])) == ["a/b/t"]
    assert ids(load_suite([Path("../../c")])) == ["c/t"]


def test_a_case_file_has_the_same_ids_with_and_without_the_rest_of_the_directory(load: Load):
    files = {"s.yaml": written(tests="cases/*.yaml"), "cases/a.yaml": json.dumps(CASE), "t.yaml": TEST}
    assert ids(load(files, "s.yaml")) == ["s::a"]
    assert ids(load(files)) == ["s::a", "t"]


def test_a_case_knows_its_file_and_line(load: Load):
    suite = load(
        {"sub/s.yaml": "evaluators: [x]\ncases:\n  - id: a\n    input: x\n\n  - id: b\n    input: y\n"}
    )
    assert [(case.file, case.line) for case in suite.cases] == [("sub/s.yaml", 3), ("sub/s.yaml", 6)]


def test_documents_of_both_dialects_may_share_a_file(load: Load):
    suite = load(
        {"m.yaml": f"{TEST}---\n{written(cases=[CASE])}\n---\n{written(input='x', evaluators=['x'])}\n"}
    )
    assert ids(suite) == ["m", "m#2::a", "m#3"]


def test_a_later_document_that_is_no_test_is_a_problem(problems_of: LoadProblems):
    [problem] = problems_of({"m.yaml": f"{TEST}---\nservices: {{}}\n"})
    assert (problem.line, problem.column) == (5, 1)
    assert problem.message.startswith("not a test: it has none of the keys prompt, assertions,")


def test_empty_documents_are_passed_over(load: Load):
    assert ids(load({"m.yaml": f"---\n---\n{TEST}---\n"})) == ["m"]


# The agent that a recording or a script implies


def test_a_replay_implies_its_agent(load: Load):
    suite = load(
        {"s.yaml": written(agent="codex", cases=[{**CASE, "replay": "r.jsonl"}]), "r.jsonl": '{"a": 1}'}
    )
    assert (the_case(suite).agent, the_case(suite).replay) == ("replay", "r.jsonl")


def test_a_script_implies_its_agent(load: Load):
    script = [
        {"tool": "Read", "input": {"file_path": "README.md"}},
        {"say": "done"},
        {"sleep": 2},
        {"crash": "why"},
        {"tool": "WebFetch", "output": "page"},
    ]
    case = the_case(load({"s.yaml": written(agent="codex", cases=[{**CASE, "script": script}])}))
    assert case.agent == "scripted"
    assert case.script == (
        CallTool(tool="Read", input={"file_path": "README.md"}),
        Say(say="done"),
        Sleep(sleep=2),
        Crash(crash="why"),
        CallTool(tool="WebFetch", output="page"),
    )


def test_an_assertion_test_may_have_a_script_too(load_case: LoadCase):
    case = load_case(TEST + "script: [{say: hello}]\n")
    assert (case.agent, case.script) == ("scripted", (Say(say="hello"),))


def test_an_agent_of_farm_yaml_that_replays_is_as_good(load: Load):
    farm = {"farm.yaml": "agents: {tape: {kind: replay}}\n", "r.jsonl": '{"a": 1}'}
    case = {**CASE, "replay": "r.jsonl", "agent": "tape"}
    assert the_case(load({"s.yaml": written(cases=[case]), **farm})).agent == "tape"


OTHER = '"{key}" is for another agent than "{agent}"; remove one of the two'


@pytest.mark.parametrize(
    ("keys", "line", "column", "message"),
    [
        ("agent: codex\nscript: [{say: x}]", 4, 9, OTHER.format(key="script", agent="codex")),
        ("agent: claude\nreplay: case.yaml", 4, 9, OTHER.format(key="replay", agent="claude")),
        ("replay: case.yaml\nscript: [{say: x}]", 4, 9, OTHER.format(key="script", agent="replay")),
        ("agent: scripted", 1, 1, 'agent "scripted" needs "script" on the case'),
        ("agent: replay", 1, 1, 'agent "replay" needs "replay" on the case'),
        ("script: say hello", 3, 9, '"script" must be a list of steps'),
        ("script: [{shout: x}]", 3, 10, "a step has exactly one of tool, say, sleep, crash"),
        (
            "script: [{sya: x}]",
            3,
            10,
            'a step has exactly one of tool, say, sleep, crash; did you mean "say"?',
        ),
        ("script: [{say: x, sleep: 1}]", 3, 10, "a step has exactly one of tool, say, sleep, crash"),
        ("script: [{tool: Raed}]", 3, 17, 'unknown tool "Raed"; did you mean "Read"?'),
        (
            "script: [{tool: Read, output: x}]",
            3,
            31,
            "Read is carried out for real and has an output of its own; remove this one",
        ),
        ("script: [{sleep: -1}]", 3, 18, '"sleep" must be at least 0'),
    ],
)
def test_a_recording_or_script_that_does_not_fit_is_a_problem(
    problems_of: LoadProblems, keys: str, line: int, column: int, message: str
):
    found = problems_of(f"input: x\nevaluators: [x]\n{keys}\n")
    assert found == [Problem("case.yaml", line, column, message)]


# What a case can't do without


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("input: x\n    evaluators: [x]", 'the key "id" is missing'),
        ("id: a\n    evaluators: [x]", 'the key "input" is missing'),
        ("id: a\n    input: x", "a case needs at least one evaluator: nothing would be checked"),
    ],
)
def test_a_listed_case_needs_an_id_an_input_and_an_evaluator(problems_of: LoadProblems, case, message):
    assert problems_of(f"cases:\n  - {case}\n") == [Problem("case.yaml", 2, 5, message)]


def test_the_evaluators_of_one_line_do_not_judge_the_others(problems_of: LoadProblems):
    judged = json.dumps({"id": "a", "input": "go", "evaluators": ["good?"]})
    [problem] = problems_of({"data.jsonl": f'{judged}\n{{"id": "b", "input": "go"}}\n'})
    assert str(problem) == "data.jsonl:2:1: a case needs at least one evaluator: nothing would be checked"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("none.yaml", "none.yaml:1:1: the file is empty"),
        ("none.jsonl", "none.jsonl:1:1: the file is empty"),
        ("list.yaml", "list.yaml:1:1: the list of cases is empty"),
        ("dir*", 's.yaml:3:5: "dir*" matches directories only, and no file'),
    ],
)
def test_a_case_file_without_cases_is_a_problem(problems_of: LoadProblems, pattern: str, problem: str):
    files = {
        "s.yaml": f"evaluators: [x]\ntests:\n  - {pattern}\n  - one.yaml\n",
        "one.yaml": "{id: a, input: go}",
        "none.yaml": "# nothing\n",
        "none.jsonl": "\n",
        "list.yaml": "[]",
        "directory/x": "",
    }
    [found] = problems_of(files, "s.yaml")
    assert str(found) == problem


def test_a_duplicate_id_is_told_where_it_stands(problems_of: LoadProblems):
    case = "\n\nid: a\ninput: go\n"
    files = {"s.yaml": "tests: [c/a.yaml, c/b.yaml]\nevaluators: [x]\n", "c/a.yaml": case, "c/b.yaml": case}
    [problem] = problems_of(files)
    assert str(problem) == 'c/b.yaml:3:1: duplicate id "s::a": it is also at c/a.yaml:3'
