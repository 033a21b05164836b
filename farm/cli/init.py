"""`farm init`: start a project with tests that pass."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from farm.cli.options import echo
from farm.errors import UsageError

FILES = {
    "farm.yaml": """\
# Settings for all tests of this project. Its directory is the root that case ids are relative to.
# agent: claude          # for tests that name none
# timeout_seconds: 600   # for each session
# workspace: .           # what each session's own working directory is filled from
""",
    "tests/greeting.yaml": """\
# An assertion test: a prompt, and what must (not) happen.
name: "Writes a greeting and leaves secrets alone"
prompt: "Write a greeting for Ada to greeting.txt"

# The scripted agent does what is written here, for real, in a working directory of its own: no API key
# needed. Remove these lines and the default agent gets the prompt instead.
script:
  - tool: Write
    input: {file_path: greeting.txt, content: "Good morning, Ada!\\n"}
  - say: "I wrote the greeting to greeting.txt."

assertions:
  - tool: Write
    params: {file_path: "*greeting.txt"}
    call_count: 1
  - tool: Read
    called: false
    params: {file_path: "*.env"}
  - type: file_contains
    path: greeting.txt
    value: Ada
""",
    "tests/arithmetic.eval.yaml": """\
# An eval file: many cases with common defaults.
description: Mental arithmetic
evaluators:
  - {type: regex, value: "^[0-9]+$", name: "a bare number"}
tests:
  - id: sum
    input: "What is 2+2? Answer with the number only."
    expected_output: "4"
    script: [{say: "4"}]
    evaluators: [{type: equals, value: "4"}]
  - id: product
    input: "What is 6*7? Answer with the number only."
    expected_output: "42"
    script: [{say: "42"}]
    evaluators: [{type: equals, value: "42"}]
""",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("directory", nargs="?", type=Path, default=Path(), help="where (default: here)")


def run(arguments: Namespace) -> int:
    """Start a project: write a farm.yaml and two test files that pass, and overwrite nothing."""
    directory: Path = arguments.directory
    existing = [name for name in FILES if (directory / name).exists()]
    if existing:
        raise UsageError(f"{directory / existing[0]} exists already; farm init overwrites nothing")
    for name, text in FILES.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: can't be written: {error.strerror}") from None
        echo(f"wrote {path}")
    where = "" if directory == Path() else f"cd {directory} && "
    echo(f"Now: {where}farm submit tests/")
    return 0
