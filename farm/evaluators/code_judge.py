"""Judge by the author's own program, run on a fresh copy of its files that the agent never saw."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import Field, ValidationError

from farm.errors import EvaluatorError
from farm.evaluators.base import EvaluationContext, Judgement
from farm.evaluators.is_json import NotJsonError, parse_json
from farm.evaluators.wording import quoted, shortened
from farm.model.base import JsonValue, Model, Score
from farm.model.evaluator import CodeJudgeSpec
from farm.model.messages import Message, referenced_files
from farm.sessions.owned_directory import make_directory, remove_directory
from farm.sessions.process import ProcessResult, run_process
from farm.sessions.sandbox import Sandbox

Words = Annotated[str, Field(strict=True)]


class JudgeOutput(Model):
    """What the program prints on stdout."""

    score: Score
    hits: tuple[Words, ...] = ()
    misses: tuple[Words, ...] = ()
    reasoning: Words | None = None
    details: dict[str, JsonValue] | None = None


def evaluate(
    spec: CodeJudgeSpec, context: EvaluationContext, results: Mapping[str, JsonValue] | None = None
) -> Judgement:
    """Run the program and take its word; `results` are a composite's members to aggregate."""
    place = make_directory("judge-")
    try:
        copy, home, scratch = place / "files", place / "home", place / "tmp"
        for directory in (copy, home, scratch):
            directory.mkdir()
        _copy_files(_needed_files(spec, context), context.files, copy)
        payload = _payload(spec, context, copy)
        if results is not None:
            payload["results"] = results
        result = run_process(
            _command(spec),
            cwd=_working_directory(spec, context, copy),
            env=_environment(home, scratch),
            timeout_seconds=spec.timeout_seconds,
            stdin=json.dumps(payload).encode(),
            stop=context.stop,
            sandbox=_sandbox(spec, context, place),
        )
    finally:
        remove_directory(place)
    output = _read_output(spec, result)
    return Judgement(output.score, output.hits, output.misses, output.reasoning, output.details)


def _sandbox(spec: CodeJudgeSpec, context: EvaluationContext, place: Path) -> Sandbox | None:
    """Confine the program as the session was: in its own directory, the workspace to be read only."""
    if context.sandbox is None:
        return None
    workspace = () if context.workspace is None else (context.workspace.absolute(),)
    own = replace(context.sandbox, writable=(place,), tmp=place / "tmp", readable=workspace)
    return own.for_command(spec.command)


def _needed_files(spec: CodeJudgeSpec, context: EvaluationContext) -> list[str]:
    case = context.case
    return [*spec.files, *referenced_files((*case.input_messages, *case.expected_messages))]


def _copy_files(names: Iterable[str], source: Path, copy: Path) -> None:
    for name in dict.fromkeys(names):
        original, target = source / name, copy / name
        if PurePosixPath(name).is_absolute() or not _lies_in(target, copy):
            raise EvaluatorError(f"file {quoted(name)} lies outside the suite, so it did not travel with it")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if original.is_dir():
                shutil.copytree(original, target, dirs_exist_ok=True)
            else:
                shutil.copy2(original, target)
        except OSError as error:
            raise EvaluatorError(
                f"file {quoted(name)} of the code judge: {error.strerror or error}"
            ) from None


def _working_directory(spec: CodeJudgeSpec, context: EvaluationContext, copy: Path) -> Path:
    directory = copy / (PurePosixPath(context.case.file).parent if spec.cwd is None else spec.cwd)
    if not _lies_in(directory, copy):
        raise EvaluatorError(f"cwd {quoted(spec.cwd or '.')} lies outside the suite")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _lies_in(path: Path, directory: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(directory)


def _command(spec: CodeJudgeSpec) -> str | tuple[str, ...]:
    if not isinstance(spec.command, str) and spec.command[0] in ("python", "python3"):
        return (sys.executable, *spec.command[1:])  # many machines have no `python`
    return spec.command


def _environment(home: Path, scratch: Path) -> dict[str, str]:
    # An allow-list: the farm's own environment has its secrets.
    own = Path(sys.executable).parent
    return {
        "PATH": f"{own}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
    }


def _payload(spec: CodeJudgeSpec, context: EvaluationContext, copy: Path) -> dict[str, Any]:
    case, transcript = context.case, context.transcript
    summary = transcript.summary()
    return {
        "question": case.question,
        "expected_outcome": case.expected_outcome,
        "expected_messages": _dumped(case.expected_messages),
        "reference_answer": case.reference_answer,
        "candidate_answer": transcript.final_text,
        "output_messages": None
        if transcript.output_messages is None
        else _dumped(transcript.output_messages),
        "input_messages": _dumped(case.input_messages),
        "input_files": [str(copy / name) for name in dict.fromkeys(referenced_files(case.input_messages))],
        "trace_summary": None if summary is None else summary.model_dump(),
        "workspace_path": None if context.workspace is None else str(context.workspace.absolute()),
        "file_changes": _dumped_if_any(transcript.workspace_changes),
        "token_usage": _dumped_if_any(transcript.usage),
        "cost_usd": transcript.cost_usd,
        "duration_ms": transcript.duration_ms,
        "config": spec.config,
    }


def _dumped(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [message.model_dump() for message in messages]


def _dumped_if_any(value: Model | None) -> dict[str, Any] | None:
    return None if value is None else value.model_dump()


def _read_output(spec: CodeJudgeSpec, result: ProcessResult) -> JudgeOutput:
    if result.stopped:
        raise EvaluatorError("the code judge was stopped before its end")
    if result.timed_out:
        raise EvaluatorError(f"the code judge did not end within {spec.timeout_seconds:g} s{_said(result)}")
    if result.exit_code != 0:
        raise EvaluatorError(f"the code judge ended with exit code {result.exit_code}{_said(result)}")
    if result.truncated:
        raise EvaluatorError("the code judge printed too much")
    try:
        printed = parse_json(result.stdout)
        return JudgeOutput.model_validate(printed)
    except NotJsonError as error:
        seen = quoted(result.stdout.decode(errors="replace").strip(), 120)
        raise EvaluatorError(
            f"the code judge printed no JSON: {error}; seen: {seen}{_said(result)}"
        ) from None
    except ValidationError as error:
        raise EvaluatorError(f"the code judge's answer is wrong: {_problems(error)}") from None


def _problems(error: ValidationError) -> str:
    problems = []
    for detail in error.errors(include_url=False, include_input=False):
        place = ".".join(map(str, detail["loc"]))
        what = "is not known" if detail["type"] == "extra_forbidden" else detail["msg"]
        problems.append(shortened(f"{place}: {what}" if place else what))
    return "; ".join(problems)


def _said(result: ProcessResult) -> str:
    words = result.stderr.decode(errors="replace").strip()
    return f"; stderr: {shortened(words, 300)}" if words else ""
