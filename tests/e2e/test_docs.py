"""What the documentation shows is true: its test files load, and its commands print what it says.

HTML comments above a code block say what it is:

    <!-- file: NAME -->        it is saved under this name, and the commands below it find it there
    <!-- not a test file -->   it is YAML, but need not load
    <!-- settings -->          it is a farm.yaml
    <!-- needs Claude Code --> its commands are left out where that is not installed
    <!-- with a worker -->     its commands have a broker, and a worker that serves it

In what a command prints, a line with nothing but … stands for any lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import pytest

from farm.authoring.load import load_suite
from farm.cli.main import COMMANDS, load_command
from farm.documents.yaml import parse_yaml
from farm.settings import load_settings
from tests.e2e.fleet import open_fleet

REPOSITORY = Path(__file__).parents[2]
PAGES = (
    REPOSITORY / "README.md",
    REPOSITORY / "deploy" / "README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
)
# These show no commands that could be run anywhere, but they have links.
LINKED = (*PAGES, *(REPOSITORY / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")))
LINKED += tuple(REPOSITORY / name / "README.md" for name in ("bench", "examples"))

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


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


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
        return f"{name_of(self.page)}:{self.line}"

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
    output = re.sub(r"\b\d+/20 trials", "N/20 trials", output)  # those of a coin
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


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "yaml"], ids=lambda block: block.name
)
def test_a_yaml_block_of_the_documentation_can_be_read(block):
    assert parse_yaml(block.text, block.name)


@dataclass
class Shell:
    """Where the commands of a page are typed, one after the other."""

    directory: Path
    environment: Mapping[str, str]
    exit_code: int = 0
    variables: dict[str, str] = field(default_factory=dict)  # of one block

    def type(self, line: str) -> str:
        """Run a line, and give what is seen."""
        program, *arguments = shlex.split(self._of_last_run(line), comments=True)
        if program == "make":  # it would install the farm
            return ""
        if program == "cd":
            self.directory /= arguments[0]
            return ""
        if program == "echo":
            assert arguments == ["$?"], f"a command that this test can't run: {line}"
            return f"{self.exit_code}\n"
        assert program == "farm", f"a command that this test can't run: {line}"
        result = subprocess.run(
            [sys.executable, "-m", "farm", *arguments],
            cwd=self.directory,
            env={**self.environment, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # as on a terminal
            text=True,
            encoding="utf-8",
            timeout=60,
        )
        self.exit_code = result.returncode
        return result.stdout

    def _of_last_run(self, line: str) -> str:
        """Let a command about a run be about the last one."""
        runs = sorted(path.name for path in self.directory.glob(".farm/runs/*"))
        return re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", runs[-1], line) if runs else line


def shows(shown: str, seen: str) -> bool:
    """Say whether a page shows what was seen, but for what it leaves out."""
    parts = re.split(r"^ *…\n", normalized(shown), flags=re.MULTILINE)
    return re.fullmatch("(?:.*\n)*?".join(map(re.escape, parts)), normalized(seen)) is not None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_of_a_page_print_what_it_shows(directory, environment, page, request):
    shell = Shell(directory, environment)
    left_out = []
    with ExitStack() as stack:
        for block in blocks_of(page):
            if block.file:
                write(shell.directory, block.file, block.text)
            if block.language != "console":
                continue
            shell.variables = {}
            if "needs Claude Code" in block.comments:
                try:
                    shell.variables = {"FARM_CLAUDE_PATH": str(request.getfixturevalue("claude_cli"))}
                except pytest.skip.Exception as why:
                    left_out.append(f"{block.name}: {why}")
                    continue
            if "with a worker" in block.comments:
                fleet = stack.enter_context(open_fleet())
                fleet.start_server()
                fleet.start_worker()
                shell.variables = {"FARM_BROKER_URL": fleet.env["FARM_BROKER_URL"]}
            for command in commands_of(block):
                seen = shell.type(command.line)
                if not shows(command.output, seen):
                    assert normalized(seen) == normalized(command.output), f"{block.name}: {command.line}"
    if left_out:
        pytest.skip("; ".join(left_out))


def test_what_a_page_leaves_out_is_no_more_than_it_says():
    assert shows("a\n…\nd\n", "a\nb\nc\nd\n")
    assert not shows("a\n…\nd\n", "a\nb\nc\n")
    assert not shows("a\nd\n", "a\nb\nd\n")


# A command line that is shown, but can't be run here: in a script, or in the file of a CI system.
FARM_LINE = re.compile(r"^(?:\w+=\S+ )*(?:- )?(?:farm (?!.*…)(.+?))(?: \|\| .*)?$")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_command_line_that_is_only_shown_is_one_that_the_farm_takes(directory, monkeypatch, page):
    monkeypatch.chdir(directory)
    (directory / "project").mkdir()
    for block in blocks_of(page):
        for line in block.text.splitlines() if block.language in ("sh", "yaml") else ():
            found = FARM_LINE.match(line.strip())
            if found is None:
                continue
            name, *arguments = shlex.split(found[1], comments=True)
            _, parser = load_command(name)
            parser.parse_intermixed_args(list(takewhile(lambda argument: argument != "--", arguments)))


def test_the_readme_names_every_command():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"| `farm {name}" not in text] == []


def test_the_pages_show_test_files_and_commands():
    assert sum(block.is_test_file for block in BLOCKS) > 10
    assert sum(block.language == "console" for block in BLOCKS) > 5


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_a_pages_links_lead_somewhere(page):
    broken = []
    for target, heading in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
        path = page.parent / target if target else page
        if not path.exists() or (heading and heading not in headings_of(path)):
            broken.append(f"{target}#{heading}")
    assert broken == []


def headings_of(page: Path) -> set[str]:
    """Name the headings of a page as links do."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    }


def test_every_page_is_in_the_index():
    index = (REPOSITORY / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [str(page.relative_to(REPOSITORY / "docs")) for page in PAGES[2:]]
    assert [page for page in pages if page != "README.md" and f"]({page}" not in index] == []
