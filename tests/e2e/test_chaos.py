"""The short form of `make chaos`, in every run of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import chaos


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lets a process adopt all that it has left behind"
)
def test_a_run_under_fire_ends_with_the_report_of_a_calm_day() -> None:
    # A process of its own: it takes over whatever loses its parent. A new seed each time, which it prints.
    seed = ["--seed", os.environ["SEED"]] if os.environ.get("SEED") else []
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            chaos.__name__,
            "--cases",
            "150",
            "--kills",
            "12",
            "--restarts",
            "1",
            "--freezes",
            "1",
            *seed,
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-20_000:]
