"""`farm analyze`: judge a recorded session by a test, without running an agent."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from farm.agents.session_files import read_session
from farm.authoring.load import load_suite
from farm.authoring.select import select_cases
from farm.cli.options import add_case_option, echo, existing_directory, given_path, painter
from farm.errors import UsageError
from farm.evaluators.base import EvaluationContext
from farm.evaluators.registry import judge
from farm.judging import Judges
from farm.model.suite import Case
from farm.model.transcript import Transcript
from farm.model.verdict import Verdict, mean_score, outcome_of
from farm.reporting.terminal import results_line, safe, verdict_lines
from farm.resolving import resolve_judges
from farm.settings import Settings, load_settings


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("test", type=given_path, metavar="TEST", help="a test file")
    parser.add_argument("session", type=given_path, metavar="SESSION", help="a recorded session")
    add_case_option(parser)
    parser.add_argument(
        "-w",
        "--workspace",
        type=existing_directory,
        metavar="DIR",
        help="the directory that the session worked in, for evaluators of files",
    )
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def run(arguments: Namespace) -> int:
    """Judge a recorded session by the cases of a test file; no agent runs.

    SESSION is a Claude session log, the stream of JSON that an agent's CLI printed (Claude Code, Codex,
    Gemini, OpenCode), a transcript of the farm, or the output of a command agent. The exit code is that of a
    run: 0 all passed, 1 some failed, 3 some could not be judged.
    """
    if arguments.test.suffix == ".jsonl" and arguments.session.suffix in (".yaml", ".yml"):
        raise UsageError(f"TEST comes first: farm analyze {arguments.session} {arguments.test}")
    suite = select_cases(load_suite([arguments.test]), ids=arguments.case)
    settings = load_settings(Path(suite.root))
    judged = []
    for case in suite.cases:
        transcript = read_session(arguments.session, case_id=case.id)
        judged.append((case, _judge(case, transcript, settings, Path(suite.root), arguments.workspace)))
    if arguments.json:
        echo(json.dumps([_as_json(case, verdicts) for case, verdicts in judged], indent=2))
    else:
        _show(judged)
    outcomes = {outcome_of(verdicts) for _, verdicts in judged}
    return 1 if "failed" in outcomes else 3 if "errored" in outcomes else 0


def _judge(
    case: Case, transcript: Transcript, settings: Settings, root: Path, workspace: Path | None
) -> tuple[Verdict, ...]:
    spec = settings.agent_spec(case.agent)
    assert spec is not None  # the loader has seen to it
    model = case.model or spec.model or settings.model
    plans = resolve_judges(case, case.agent, spec, model, settings)
    judges = Judges(case.id, plans, files=root, hidden=(root.resolve(),), prices=settings.prices)
    context = EvaluationContext(
        case=case, transcript=transcript, files=root, workspace=workspace, ask=judges.ask
    )
    return tuple(judge(spec, context) for spec in case.evaluators)


def _as_json(case: Case, verdicts: tuple[Verdict, ...]) -> dict[str, object]:
    return {
        "id": case.id,
        "name": case.name,
        "outcome": outcome_of(verdicts),
        "score": mean_score((verdict.score, verdict.weight) for verdict in verdicts),
        "verdicts": [verdict.model_dump(mode="json") for verdict in verdicts],
    }


def _show(judged: list[tuple[Case, tuple[Verdict, ...]]]) -> None:
    paint = painter()
    for case, verdicts in judged:
        echo(safe(case.name))
        for verdict in verdicts:
            for line in verdict_lines(verdict, paint):
                echo(f"  {line}")
    every = [verdict for _, verdicts in judged for verdict in verdicts]
    counts = {
        word: sum(verdict.outcome == word for verdict in every) for word in ("passed", "failed", "errored")
    }
    echo(results_line(counts.pop("passed"), len(every), paint, **counts))
