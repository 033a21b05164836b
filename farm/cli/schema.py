"""`farm schema`: print the JSON Schema of test files."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from farm.authoring.schema import test_file_schema
from farm.cli.options import echo


def add_arguments(_parser: ArgumentParser) -> None:
    """Declare the command's arguments: none."""


def run(_arguments: Namespace) -> int:
    """Print the JSON Schema of test files, for completion and checks in editors.

    Save it (farm schema > farm.schema.json) and begin a test file with
    # yaml-language-server: $schema=farm.schema.json
    """
    echo(json.dumps(test_file_schema(), indent=2))
    return 0
