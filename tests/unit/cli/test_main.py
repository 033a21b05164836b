"""The commands as a whole."""

from __future__ import annotations

import importlib
from inspect import cleandoc

import pytest

from farm.cli import main
from farm.cli.options import Parser


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_has_a_module_and_explains_itself(name):
    module = importlib.import_module(f"farm.cli.{main._MODULES.get(name, name)}")
    parser = Parser(prog=f"farm {name}", description=cleandoc(module.run.__doc__))
    module.add_arguments(parser)
    assert "usage: farm " in parser.format_help()
