from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import farm


def test_every_public_name_is_there_and_is_its_modules_own():
    for name in farm.__all__:
        assert getattr(farm, name) is not None
    assert farm.load_suite.__module__ == "farm.authoring.load"


def test_type_checkers_see_the_same_names_as_the_program():
    source = Path(farm.__file__).read_text()
    seen = set(re.findall(r"^    from [\w.]+ import (\w+) as \1$", source, re.MULTILINE))
    assert seen == set(farm.__all__) - {"__version__"}


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        farm.nope  # noqa: B018


def test_importing_the_package_alone_imports_nothing_heavy():
    program = "import sys, farm; print(sorted({'pydantic', 'yaml', 're2'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
