from __future__ import annotations

import pytest


@pytest.fixture
def source(tmp_path):
    """An empty directory to fill."""
    directory = tmp_path / "source"
    directory.mkdir()
    return directory
