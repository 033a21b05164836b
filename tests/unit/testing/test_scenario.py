from __future__ import annotations

from pathlib import Path

import pytest

from farm.errors import InputError
from farm.testing import Scenario, load_scenarios

HEAD = "turns:\n  - {say: hello}\n"


@pytest.fixture
def load(tmp_path):
    def load(*texts: str):
        paths = []
        for number, text in enumerate(texts):
            paths.append(tmp_path / f"scenario{number}.yaml")
            paths[-1].write_text(text)
        return load_scenarios(*paths)

    return load


def test_a_scenario_is_named_after_its_file_or_by_its_name(load):
    scenarios = load(HEAD, f"name: greets\n{HEAD}---\nname: greets-again\n{HEAD}")
    assert list(scenarios) == ["scenario0", "greets", "greets-again"]


def test_turns_come_in_order_and_then_no_more_or_the_last_again(load):
    text = "turns:\n  - {tools: [{tool: Read, input: {file_path: a}}]}\n  - {say: done}\n"
    once, for_ever = load(text, f"repeat_last: true\n{text}").values()
    assert [bool(turn and turn.tools) for turn in (once.turn("", 0), once.turn("", 1))] == [True, False]
    assert once.turn("", 2) is None
    assert for_ever.turn("", 7) == for_ever.turns[-1]


def test_a_conversation_that_begins_differently_has_turns_of_its_own(load):
    branch = "branches:\n  - {prompt_contains: COUNT, turns: [{say: three}]}\n"
    (scenario,) = load(HEAD + branch).values()
    assert isinstance(scenario, Scenario)
    assert [scenario.turns_for(prompt)[0].say for prompt in ("go", "please COUNT")] == ["hello", "three"]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("turns: []\n", 1, 8, '"turns" must not be empty'),
        ("turns:\n  - {}\n", 2, 5, 'a turn must "say" something, use "tools", or have a "fault" without a "count"'),
        ("turns:\n  - {say: x, fault: {}}\n", 2, 21, 'a fault has one of "status", "drop_after_events" and "malformed"'),
        ("turns:\n  - {fault: {status: 529, count: 2}}\n", 2, 5, 'a turn must "say"'),
        ("turns:\n  - {say: x, fault: {status: 200}}\n", 2, 30, '"status" must be at least 400'),
        ("turns:\n  - {says: x}\n", 2, 6, 'did you mean "say"?'),
        ("turns:\n  - {say: x, delay_seconds: -1}\n", 2, 29, '"delay_seconds" must be at least 0'),
        ("name: a/b\nturns: [{say: x}]\n", 1, 7, '"name" is wrong'),
        ("- say: x\n", 1, 1, 'must be a mapping with "turns"'),
        ("", 1, 1, "is empty"),
    ],
)  # fmt: skip
def test_a_slip_is_a_problem_with_its_position(load, text, line, column, message):
    with pytest.raises(InputError) as error:
        load(text)
    problems = [problem for problem in error.value.problems if message in problem.message]
    assert [(problem.line, problem.column) for problem in problems] == [(line, column)], error.value


def test_two_scenarios_of_the_same_name_are_a_problem(load):
    with pytest.raises(InputError, match='there is a scenario "same" already'):
        load(f"name: same\n{HEAD}", f"name: same\n{HEAD}")


def test_the_problems_of_all_files_are_told_at_once(load):
    with pytest.raises(InputError) as error:
        load("turn: []\n", "turns: [\n")
    assert {problem.file.rpartition("/")[2] for problem in error.value.problems} == {
        "scenario0.yaml",
        "scenario1.yaml",
    }


def test_the_scenario_of_all_that_one_can_say_is_one(load):
    page = (Path(__file__).parents[3] / "docs/writing-tests.md").read_text()
    block = page.partition("All that a scenario can say")[2].partition("```yaml\n")[2].partition("```")[0]
    (scenario,) = load(block).values()
    assert len(scenario.turns) >= 2
