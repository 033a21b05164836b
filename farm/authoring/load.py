"""Turn the paths of a submission into a Suite, or into every problem of every file at once."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farm.authoring.assertion_tests import read_assertion_test
from farm.authoring.discover import Candidate, discover
from farm.authoring.fields import CASE_LISTS, MARKS
from farm.authoring.sources import Source
from farm.documents.checking import Problems, did_you_mean
from farm.documents.yaml import Document, parse_yaml
from farm.errors import InputError, Problem, UsageError
from farm.model.suite import Case, SkippedFile, Suite
from farm.settings import FARM_FILE, Settings, find_root, load_settings

if TYPE_CHECKING:
    from farm.authoring.eval_files import EvalFileReader

# Keys so much our own that a slip of one marks a test file too; others look for `test` or `inputs`.
_TELLING_MARKS = ("prompt", "assertions", "evalcases", "input_messages")


def load_suite(
    paths: Sequence[Path],
    *,
    pattern: str | None = None,
    recursive: bool = True,
    settings: Settings | None = None,
    root: Path | None = None,
) -> Suite:
    """Load everything that the paths lead to; raise one InputError with all problems of all files.

    `root` is for those who know the suite root: the paths may be only some of the suite's, and lie deeper.
    """
    root = root or find_root(paths)
    settings = settings or load_settings(root)
    candidates = discover(paths, pattern, recursive=recursive)
    with _no_garbage_collection():
        sources, skipped = _read_all(candidates, root, settings)
    consumed = {path for source in sources for path in source.consumed}
    # Files that were read as another's case files: on their own, their cases would run twice.
    sources = [source for source in sources if source.path not in consumed]
    _check_ids(sources)
    problems = Problems()
    for source in sources:
        problems.extend(source.problems)
    problems.raise_if_any()
    cases = sorted((case for source in sources for case in source.cases), key=lambda case: case.id)
    if not cases:
        raise UsageError(_nothing_found(paths, pattern, len(skipped)))
    return Suite.model_construct(  # of parts that were checked, as in farm.authoring.cases
        name=settings.name or (sources[0].title if len(sources) == 1 else None) or root.name or "suite",
        root=str(root),
        cases=tuple(cases),
        test_files=tuple(sorted(_test_files(sources))),
        skipped_files=tuple(file for path, file in skipped if path not in consumed),
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Build many small objects that all stay: looking for garbage among them takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read_all(
    candidates: list[Candidate], root: Path, settings: Settings
) -> tuple[list[Source], list[tuple[Path, SkippedFile]]]:
    sources, skipped = [], []
    data_files = {candidate.path for candidate in candidates if candidate.path.suffix == ".jsonl"}
    farm_file = root / FARM_FILE
    for candidate in candidates:
        if candidate.path == farm_file and not candidate.named:
            continue
        source = Source(candidate.path, root, settings)
        reason = _read(source, candidate, data_files)
        if reason is None:
            sources.append(source)
        else:
            skipped.append((source.path, SkippedFile(file=source.shown, reason=reason)))
    return sources, skipped


def _read(source: Source, candidate: Candidate, data_files: set[Path]) -> str | None:
    """Read one candidate; if it is no test file, say why."""
    try:
        if source.path.name == FARM_FILE and not candidate.named:
            return f"its settings hold only where it is the suite root; here that is {source.root}"
        if source.path.suffix == ".jsonl":
            return _read_json_lines(source, candidate)
        return _read_yaml(source, candidate, data_files)
    except InputError as error:
        source.problems.extend(error.problems)
        return None


def _read_yaml(source: Source, candidate: Candidate, data_files: set[Path]) -> str | None:
    documents = [
        document for document in parse_yaml(source.read_text(), source.shown) if document.data is not None
    ]
    if not documents:
        raise InputError([Problem(source.shown, 1, 1, "the file is empty")])
    if data_files and source.path.with_suffix(".jsonl") in data_files and _is_sidecar(documents):
        return f"it belongs to {source.path.stem}.jsonl"
    for number, document in enumerate(documents, 1):
        stem = source.stem if number == 1 else f"{source.stem}#{number}"
        reason = _read_document(source, document, stem)
        if reason is None:
            continue
        if candidate.named or number > 1 or any(map(_is_marked, documents)):
            source.problems.add(document, (), f"not a test: {reason}")
        else:
            return reason
    return None


def _read_document(source: Source, document: Document, stem: str) -> str | None:
    data = document.data
    if isinstance(data, list) and _is_marked(document):
        _eval_file(source, document, stem).read_list()
        return None
    if not isinstance(data, dict):
        return "it is not a mapping"
    marks = _marks(data)
    if "prompt" in data and len(marks) > len({"prompt", "assertions"}.intersection(marks)):
        other = next(mark for mark in marks if mark not in ("prompt", "assertions"))
        message = f'"prompt" makes this an assertion test and "{other}" an eval file; use one of the two'
        source.problems.add(document, ("prompt",), message, of_key=True)
        return None
    if not marks:
        for key in data:
            if meant := did_you_mean(key, _TELLING_MARKS, nearness=0.9):
                source.problems.add(document, (key,), f'unknown key "{key}"; {meant}', of_key=True)
                return None
        return f"it has none of the keys {', '.join(MARKS)}"
    if any(key in data for key in CASE_LISTS):
        _eval_file(source, document, stem).read_suite()
    elif "input" in data or "input_messages" in data:
        _eval_file(source, document, stem).read_single()
    else:
        read_assertion_test(source, document, stem)
    return None


def _eval_file(source: Source, document: Document, stem: str) -> EvalFileReader:
    from farm.authoring.eval_files import EvalFileReader  # not at the top: its models take long to build

    return EvalFileReader(source, document, stem)


def _read_json_lines(source: Source, candidate: Candidate) -> str | None:
    from farm.documents.json_lines import parse_json_lines  # not at the top: YAML files do without JSON

    text = source.read_text()
    blank = len(text) - len(text.lstrip())
    if blank == len(text):
        raise InputError([Problem(source.shown, 1, 1, "the file is empty")])
    sidecar = _sidecar(source)
    # Recorded sessions are JSONL too: the first line tells. Later lines of a recording may be cut off.
    head = parse_json_lines(text[:blank] + text[blank:].split("\n", 1)[0], source.shown)[0].data
    if not (sidecar or candidate.named or (isinstance(head, dict) and _marks(head))):
        return f"its first line has none of the keys {', '.join(MARKS)}"
    lines = parse_json_lines(text, source.shown)
    if sidecar is None:
        _eval_file(source, lines[0], source.stem).read_lines(lines)
        return None
    beside, document = sidecar
    reader = _eval_file(beside, document, source.stem)
    reader.read_defaults()
    reader.read_lines(lines, source)
    source.title = beside.title
    source.consumed.append(beside.path)
    return None


def _sidecar(source: Source) -> tuple[Source, Document] | None:
    """Find the same-named YAML file that says what holds for all lines of a JSONL file."""
    for ending in (".yaml", ".yml"):
        path = source.path.with_suffix(ending)
        if path.is_file():
            # It shares the source's cases and problems: both files are one suite.
            beside = replace(source, path=path)
            documents = parse_yaml(beside.read_text(), beside.shown)
            if _is_sidecar(documents):
                return beside, documents[0]
    return None


def _is_sidecar(documents: list[Document]) -> bool:
    own_cases = ("prompt", *CASE_LISTS)
    return (
        len(documents) == 1
        and isinstance(documents[0].data, dict)
        and not any(key in documents[0].data for key in own_cases)
    )


def _is_marked(document: Document) -> bool:
    """Say whether a document, or an item of a list, has a key that makes it a test."""
    items = document.data if isinstance(document.data, list) else [document.data]
    return any(isinstance(item, dict) and _marks(item) for item in items)


def _marks(data: dict[str, Any]) -> list[str]:
    return [key for key in MARKS if key in data]


def _check_ids(sources: Iterable[Source]) -> None:
    """Two cases with one id could not be told apart in any report."""
    seen: dict[str, Case] = {}
    for source in sources:
        for case in source.cases:
            other = seen.setdefault(case.id, case)
            if other is not case:
                message = f'duplicate id "{case.id}": it is also at {other.file}:{other.line}'
                # A case file's case is not in the file that named it.
                shown = source.shown if case.file == source.name else os.path.relpath(source.root / case.file)
                source.problems.extend([Problem(shown, case.line, 1, message)])


def _test_files(sources: Iterable[Source]) -> set[str]:
    """Name the files that hold the tests and what judges by them: an agent must not read its own exam."""
    files: set[str] = set()
    for source in sources:
        files |= {source.name, *source.exam}
        files.update(os.path.relpath(path, source.root) for path in source.consumed)
    return files


def _nothing_found(paths: Sequence[Path], pattern: str | None, skipped: int) -> str:
    where = ", ".join(str(path) for path in paths)
    how = f" matching {pattern}" if pattern else ""
    looked = f"; {skipped} files are not tests, see --list-tests" if skipped else ""
    return f"no test found in {where}{how}{looked}"
