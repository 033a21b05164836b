"""No file takes super-linear time, however hostile: four times the text takes about four times as long."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from farm.authoring.load import load_suite
from farm.documents.json_lines import parse_json_lines
from farm.documents.yaml import parse_yaml
from farm.errors import FarmError
from farm.settings import Settings

ENOUGH_SECONDS = 0.02  # below this, noise is all that is measured
TOO_STEEP = 10  # linear is 4, quadratic 16

TEST = "name: n\nprompt: p\nassertions: [{tool: Read}]\n"
CASES = "evaluators: [{type: equals, value: x}]\ncases:\n"


def merges(n: int) -> str:
    return "a0: &a0 {k0: 1}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}, k{i}: 1}}\n" for i in range(1, n))


def small_bombs(n: int) -> str:
    bomb = "input: x\nmetadata: &a0 {x: [1, 1, 1, 1]}\nevaluators:\n"
    bomb += "  - &e0 {type: equals, value: x}\n"
    bomb += "".join(
        f"  - &e{i} {{type: composite, evaluators: [*e{i - 1}, *e{i - 1}, *e{i - 1}]}}\n" for i in range(1, 5)
    )
    return "---\n".join([bomb] * n)


PARSED: dict[str, tuple[int, Callable[[int], str]]] = {
    "many keys": (1000, lambda n: "".join(f"key{i}: {i}\n" for i in range(n))),
    "many int keys": (1000, lambda n: "{" + ", ".join(f"{i * 2**32}: 1" for i in range(n)) + "}"),
    "keys that are nearly the same": (1000, lambda n: "".join(f"{'k' * 50}{i}: x\n" for i in range(n))),
    "many aliases": (3000, lambda n: "a: &a [1]\nb: [" + ", ".join(["*a"] * n) + "]"),
    "many anchors": (1000, lambda n: "".join(f"- &a{i} x\n" for i in range(n))),
    "a chain of merges": (1000, merges),
    "long text": (4_000_000, lambda n: f"a: {'x' * n}\n"),
    "long quoted text": (1_000_000, lambda n: f'a: "{"x" * n}"\n'),
    "text of many lines": (40_000, lambda n: "a: |\n" + "  x\n" * n),
    "a long number": (3_000_000, lambda n: f"a: 1.{'1' * n}\n"),
    "many large numbers": (800, lambda n: "".join(f"- 1{'1' * 18}\n- 0x{'f' * 15}\n" for _ in range(n))),
    "a long flow sequence": (3000, lambda n: "[" + "1, " * n + "]"),
    "a long block sequence": (3000, lambda n: "- 1\n" * n),
    "many documents": (500, lambda n: "--- {a: 1}\n" * n),
    "deep nesting, often": (30, lambda n: ("- " + "[" * 60 + "]" * 60 + "\n") * n),
    "many comments": (200_000, lambda n: "# a comment\n" * n + "a: 1\n"),
    "a broken character at the end": (10_000, lambda n: "a: " + "x\n   " * n + "\x07"),
    "an open quote": (1_000_000, lambda n: 'a: "' + "x" * n),
}

LOADED: dict[str, tuple[int, Callable[[int], str]]] = {
    "many cases": (150, lambda n: CASES + "".join(f"  - {{id: c{i}, input: x}}\n" for i in range(n))),
    "many documents": (60, lambda n: "---\n".join([TEST] * n)),
    "many unknown keys": (150, lambda n: TEST + "".join(f"k{i}: 1\n" for i in range(n))),
    "many wrong evaluators": (150, lambda n: "name: n\nprompt: p\nassertions:\n" + "  - tool: Raed\n" * n),
    "many wrong cases": (
        50,
        lambda n: CASES + "".join(f"  - {{id: c{i}, input: 5, x: 1}}\n" for i in range(n)),
    ),
    "one evaluator with many slips": (
        300,
        lambda n: TEST.replace("{tool: Read}", "{type: field_accuracy, fields: [" + "{path: 5}, " * n + "]}"),
    ),
    "one case many times": (150, lambda n: CASES + "  - &c {id: a, input: x}\n" + "  - *c\n" * n),
    "small bombs": (4, small_bombs),
    "a chain of merges": (1000, merges),
}


def best_of_three(action: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return best


def quietly(action: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        with suppress(FarmError):  # refusing it is fine, and takes time too
            action()

    return run


def assert_linear(size: int, measure: Callable[[int], float]) -> None:
    """Compare a size with four times it, on a machine that has other things to do."""
    while (at_once := measure(size)) < ENOUGH_SECONDS:
        size = int(size * 1.5 * max(1, min(4, ENOUGH_SECONDS / at_once / 1.5)))
    ratios = []
    for _ in range(3):
        ratios.append(measure(4 * size) / at_once)
        if ratios[-1] < TOO_STEEP:
            return
        at_once = measure(size)
    pytest.fail(f"four times the size took {ratios} times as long")


@pytest.mark.parametrize(("size", "make"), PARSED.values(), ids=PARSED)
def test_parsing_takes_linear_time(size: int, make: Callable[[int], str]):
    def measure(n: int) -> float:
        text = make(n)
        return best_of_three(quietly(lambda: parse_yaml(text, "t.yaml")))

    assert_linear(size, measure)


@pytest.mark.parametrize(
    ("size", "make"),
    [
        (2000, lambda n: '{"a": [1, 2.5, "x"]}\n' * n),
        (60_000, lambda n: "[" + "1, " * n + "1]"),
        (10_000, lambda n: "{" + ", ".join(f'"{i}": 1' for i in range(n)) + "}"),
        (500, lambda n: "{\n" * n),
    ],
    ids=["many lines", "a long list", "many keys", "many broken lines"],
)
def test_parsing_json_takes_linear_time(size: int, make: Callable[[int], str]):
    def measure(n: int) -> float:
        text = make(n)
        return best_of_three(quietly(lambda: parse_json_lines(text, "t.jsonl")))

    assert_linear(size, measure)


@pytest.mark.parametrize(("size", "make"), LOADED.values(), ids=LOADED)
def test_loading_takes_linear_time(size: int, make: Callable[[int], str], tmp_path: Path):
    path = tmp_path / "t.yaml"

    def measure(n: int) -> float:
        path.write_text(make(n))
        return best_of_three(quietly(lambda: load_suite([path], settings=Settings())))

    assert_linear(size, measure)


def test_a_position_is_found_in_the_same_time_in_a_large_mapping():
    def measure(n: int) -> float:
        [document] = parse_yaml("".join(f"key{i}: {i}\n" for i in range(n)), "t.yaml")
        keys = [(f"key{i}",) for i in range(n)]
        return best_of_three(lambda: [document.position(key) for _ in range(10) for key in keys])

    assert_linear(500, measure)
