"""What tests of every kind may need of the machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from farm.sessions.sandbox import sandbox_availability
from tests.unit.sessions.deep_trees import fill_up

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(autouse=True)
def what_was_dug_is_filled_up() -> Iterator[None]:
    """Leave no tree that is deeper than pytest can remove."""
    yield
    fill_up()


@pytest.fixture
def requires_bubblewrap() -> None:
    """Skip where sandboxes do not work, but not in CI: there somebody has to have installed it."""
    found = sandbox_availability(network=False)
    if found.works:
        return
    if os.environ.get("CI"):
        pytest.fail(f"bubblewrap does not work here: {found.reason}")
    pytest.skip(f"bubblewrap does not work here: {found.reason}")


# Where the Makefile installs it; the variable names another version, to try.
CLAUDE = Path(
    os.environ.get("FARM_TEST_CLAUDE_PATH")
    or Path(__file__).parents[1] / ".tools/claude/node_modules/.bin/claude"
)


@pytest.fixture(scope="session")
def claude_cli() -> Path:
    """Give the real Claude Code CLI; skip without it, but not in CI."""
    if not CLAUDE.exists():
        reason = "Claude Code is not installed; `make claude` does it, with npm"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return CLAUDE


@pytest.fixture(scope="module")  # while it is there, no other test could run an event loop
def browser() -> Iterator[Browser]:
    """Give a real Chromium without a screen; skip without it, but not in CI."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        reason = "Chromium is not installed; `make system` does it, as root on Debian"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    quiet = ("no-first-run", "disable-background-networking", "disable-component-update", "disable-sync")
    switches = [f"--{name}" for name in ("no-sandbox", "disable-gpu", "disable-quic", *quiet)]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=switches)
        yield browser
        browser.close()
