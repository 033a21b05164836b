"""What tests of every kind may need of the machine."""

from __future__ import annotations

import os

import pytest

from farm.sessions.sandbox import sandbox_availability


@pytest.fixture
def requires_bubblewrap() -> None:
    """Skip where sandboxes do not work, but not in CI: there somebody has to have installed it."""
    found = sandbox_availability(network=False)
    if found.works:
        return
    if os.environ.get("CI"):
        pytest.fail(f"bubblewrap does not work here: {found.reason}")
    pytest.skip(f"bubblewrap does not work here: {found.reason}")
