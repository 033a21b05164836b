from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from farm.authoring.load import load_suite
from farm.errors import InputError, Problem
from farm.model.suite import Case, Suite

Load: TypeAlias = Callable[..., Suite]
LoadCase: TypeAlias = Callable[..., Case]
LoadProblems: TypeAlias = Callable[..., list[Problem]]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, str | bytes]], Path]:
    """Write files by name into an empty suite root, which becomes the current directory."""
    root = tmp_path / "suite"
    root.mkdir()
    (root / "farm.yaml").write_text("{}")  # the root, wherever the temporary directory lies
    monkeypatch.chdir(root)

    def write(files: Mapping[str, str | bytes]) -> Path:
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return write


@pytest.fixture
def load(write) -> Load:
    """Write files and load what the paths lead to: the whole root, if none is given."""

    def load(files: Mapping[str, str | bytes], *paths: str, **options) -> Suite:
        root = write(files)
        return load_suite([root / path for path in paths or (".",)], **options)

    return load


@pytest.fixture
def load_case(load: Load) -> LoadCase:
    """Load the one case of one file."""

    def load_case(text: str, name: str = "case.yaml") -> Case:
        [case] = load({name: text}, name).cases
        return case

    return load_case


@pytest.fixture
def problems_of(load: Load) -> LoadProblems:
    """Load what is wrong, and give all its problems."""

    def problems_of(files: str | Mapping[str, str | bytes], *paths: str, **options) -> list[Problem]:
        if isinstance(files, str):
            files, paths = {"case.yaml": files}, paths or ("case.yaml",)
        with pytest.raises(InputError) as caught:
            load(files, *paths, **options)
        return list(caught.value.problems)

    return problems_of
