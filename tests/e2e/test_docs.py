"""What the documentation shows is true: its test files load, and its commands print what it says.

HTML comments above a code block say what it is:

    <!-- file: NAME -->        it is saved under this name, and the commands below it find it there
    <!-- not a test file -->   it is YAML, but need not load
    <!-- settings -->          it is a farm.yaml
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from farm.authoring.load import load_suite
from farm.settings import load_settings

REPOSITORY = Path(__file__).parents[2]
PAGES = (
    REPOSITORY / "README.md",
    REPOSITORY / "deploy" / "README.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
)

# What the pages' test files refer to.
FILES = {
    "sessions/careless.json": """\
{"output_messages": [
  {"role": "assistant", "tool_calls": [{"tool": "Read", "input": {"file_path": "app/.env"}}]},
  {"role": "assistant", "content": "There is an API_TOKEN."}
]}
""",
    "attachments/order.md": "# Order 1001\n",
    "judges/length.py": "print('{\"score\": 1}')\n",
    "prompts/tone.md": "Is the tone right?\n",
    "schemas/answer.json": '{"type": "object"}\n',
    "workspace/README.md": "# A project\n",
}
CASE_LINES = re.compile(r"^[✓✗!-] .*\n(?:  .*\n)*", re.MULTILINE)
# A block of assertions alone is the end of a test.
BEGINNING = 'name: "In the documentation"\nprompt: "What is this?"\n'


@dataclass(frozen=True)
class Block:
    """A code block, and what the comments above it say."""

    page: Path
    line: int
    language: str
    text: str
    comments: tuple[str, ...]

    @property
    def name(self) -> str:
        """Where it stands."""
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name that it is saved under."""
        names = [comment.removeprefix("file: ") for comment in self.comments if comment.startswith("file: ")]
        return names[0] if names else None

    @property
    def is_test_file(self) -> bool:
        """Whether it must load."""
        return self.language == "yaml" and "not a test file" not in self.comments


@dataclass(frozen=True)
class Command:
    """A line that people type, and what they then see."""

    line: str
    output: str


def blocks_of(page: Path) -> Iterator[Block]:
    comments: list[str] = []
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    for number, line in lines:
        if comment := re.fullmatch(r"<!-- (.*) -->", line):
            comments.append(comment[1])
        elif line.startswith("```"):
            inner = []
            for _, text in lines:
                if text == "```":
                    break
                inner.append(f"{text}\n")
            yield Block(page, number, line[3:], "".join(inner), tuple(comments))
            comments = []
        elif line:
            comments = []


def commands_of(block: Block) -> list[Command]:
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"{block.name}: begins with an output"
    return [Command(line, output) for line, output in zip(parts[1::2], parts[2::2], strict=True)]


def normalized(output: str) -> str:
    """Leave out what differs from run to run."""
    # Cases are shown in the order in which they end.
    cases = iter(sorted(CASE_LINES.findall(output)))
    output = CASE_LINES.sub(lambda _: next(cases), output)
    output = re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "RUN", output)
    output = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "MOMENT", output)
    output = re.sub(r"\b\d+:\d\d  ", "TIME  ", output)
    return re.sub(r"\b[\d,.]+ ms\b", "N ms", output)


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Give a directory with all that the pages' files refer to."""
    scenarios = {block.file: block.text for block in BLOCKS if block.file and "scenarios/" in block.file}
    for name, text in {**FILES, **scenarios}.items():
        write(tmp_path / "project", name, text)
    return tmp_path / "project"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FARM_", "GIT_"))}
    own.pop("FORCE_COLOR", None)
    return {
        **own,
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(tmp_path / "tmp"),
    }


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.is_test_file], ids=lambda block: block.name
)
def test_a_test_file_of_the_documentation_loads(directory, monkeypatch, block):
    monkeypatch.chdir(directory)
    for settings in blocks_of(block.page):
        if settings.file == "farm.yaml" and settings.line < block.line:  # the last of them holds
            write(directory, "farm.yaml", settings.text)
    text = BEGINNING + block.text if block.text.startswith("assertions:") else block.text
    assert load_suite([write(directory, "shown.yaml", text)]).cases


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if "settings" in block.comments], ids=lambda block: block.name
)
def test_a_farm_yaml_of_the_documentation_loads(directory, block):
    write(directory, "farm.yaml", block.text)
    assert load_settings(directory).agents


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_print_what_it_shows(directory, environment, page):
    exit_code = 0
    for block in blocks_of(page):
        if block.file:
            write(directory, block.file, block.text)
        for command in commands_of(block) if block.language == "console" else ():
            program, *arguments = shlex.split(_of_last_run(command.line, directory), comments=True)
            if program == "make":  # it would install the farm
                continue
            if program == "farm":
                result = subprocess.run(
                    [sys.executable, "-m", "farm", *arguments],
                    cwd=directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,  # as on a terminal
                    text=True,
                    encoding="utf-8",
                    timeout=60,
                )
                exit_code, seen = result.returncode, result.stdout
            else:
                assert command.line == "echo $?", f"{block.name}: a command that this test can't run"
                seen = f"{exit_code}\n"
            assert normalized(seen) == normalized(command.output), f"{block.name}: {command.line}"


def _of_last_run(line: str, directory: Path) -> str:
    """Let a command about a run be about the last one."""
    runs = sorted(path.name for path in directory.glob(".farm/runs/*"))
    return re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", runs[-1], line) if runs else line


def test_the_pages_show_test_files_and_commands():
    assert sum(block.is_test_file for block in BLOCKS) > 10
    assert sum(block.language == "console" for block in BLOCKS) > 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_pages_links_lead_somewhere(page):
    broken = [
        target
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_pages_links_within_it_lead_to_a_heading(page):
    text = page.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) - headings == set()
