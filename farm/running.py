"""Turn one trial of a case into its report: the whole story on one screen. Knows nothing of queues."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from farm.agents.base import Session, ignore_tool_call
from farm.agents.redaction import Redaction, redaction_of
from farm.agents.registry import AGENTS
from farm.errors import FarmError, SessionError
from farm.evaluators.base import EvaluationContext
from farm.evaluators.registry import judge
from farm.judging import Judges, JudgeTurn, at_any_time
from farm.model.agent import AgentBase, Isolation
from farm.model.job import JudgePlan
from farm.model.messages import ToolCall
from farm.model.prices import Price
from farm.model.report import TrialError, TrialReport
from farm.model.suite import Case
from farm.model.transcript import LogName, Transcript
from farm.model.verdict import Outcome, Verdict, mean_score, outcome_of
from farm.sessions.owned_directory import remove_directory
from farm.sessions.process import check_not_stopped, run_process
from farm.sessions.sandbox import Sandbox, choose_sandbox
from farm.sessions.trial_directories import TrialDirectories
from farm.sessions.workspace import Workspace, WorkspaceSource, open_workspace
from farm.sessions.workspace_diff import Original

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialPlan:
    """All that a trial needs to know."""

    case: Case
    agent: str
    spec: AgentBase
    workspace: WorkspaceSource | None  # what the trial's own working directory is filled from
    files: Path  # the directory in which the case's file names resolve
    timeout_seconds: float
    model: str | None = None
    exclude: frozenset[Path] = frozenset()  # the exam: kept out of the workspace
    trial: int = 1
    attempt: int = 1
    keep: Callable[[Outcome], bool] = lambda _outcome: False
    on_tool_call: Callable[[ToolCall], None] = ignore_tool_call
    stop: threading.Event = field(default_factory=threading.Event)  # set: end at once, without a verdict
    original: Original | None = None  # reads a file that the workspace was filled with, to show what changed
    isolation: Isolation = "auto"
    network: bool = True
    prices: Mapping[str, Price] = field(default_factory=dict)  # farm.yaml's own, by model
    judges: Mapping[str, JudgePlan] = field(default_factory=dict)  # whom LLM evaluators ask: see Judges
    judge_turn: JudgeTurn = at_any_time
    directories: TrialDirectories = field(default_factory=TrialDirectories)


@dataclass(frozen=True)
class TrialResult:
    """A trial's report, with what is too large for it."""

    report: TrialReport
    transcript: Transcript | None = None
    logs: Mapping[LogName, bytes] = field(default_factory=dict)  # what the agent's program wrote down
    workspace: Path | None = None  # the trial's directory, if it was kept
    retry_after_seconds: float | None = None  # when the service that failed may be asked again, if it said so


def run_trial(plan: TrialPlan) -> TrialResult:
    """Run one trial: workspace, setup, session, verdicts, report."""
    started = time.monotonic()
    outcome: Outcome = "errored"
    transcript: Transcript | None = None
    verdicts: tuple[Verdict, ...] = ()
    error: TrialError | None = None
    retry_after_seconds: float | None = None
    spent: dict[str, object] = {}  # by a session that failed
    root: Path | None = None
    is_kept = False
    warnings: list[str] = []
    logs: dict[LogName, bytes] = {}
    redaction = redaction_of(plan.spec, plan.case)

    judges = Judges(
        case_id=plan.case.id,
        plans=plan.judges,
        stop=plan.stop,
        directories=plan.directories,
        hidden=_hidden(plan),
        files=plan.files,
        prices=plan.prices,
        turn=plan.judge_turn,
    )

    def keep() -> bool:
        nonlocal is_kept
        is_kept = root is not None and plan.keep(outcome) and _take_secrets_out(root, redaction, warnings)
        return is_kept

    # A recorded session needs no copy of the workspace: it worked in another, long ago.
    source = plan.workspace if AGENTS[plan.spec.kind].acts else None
    try:
        with open_workspace(
            source, exclude=plan.exclude, keep=keep, directories=plan.directories
        ) as workspace:
            root = workspace.root
            sandbox = _choose_sandbox(plan, workspace)
            if AGENTS[plan.spec.kind].acts:
                _set_up(plan, workspace, sandbox)
            transcript = _run_session(plan, workspace, sandbox, logs)
            verdicts = _evaluate(plan, workspace, sandbox, transcript, judges)
            outcome = outcome_of(verdicts)
    except SessionError as failure:
        retry_after_seconds = failure.retry_after_seconds
        spent = {"cost_usd": failure.cost_usd, "cost_is_partial": failure.cost_is_partial}
        if failure.cost_usd and failure.cost_is_partial:
            warnings.append("the session has cost more than this: what its last request cost is not known")
        error = TrialError(kind=failure.kind, message=str(failure), retryable=failure.retryable)
    except FarmError as failure:
        # The workspace could not be made. Of this case alone: others may come from elsewhere.
        error = TrialError(kind="workspace_failed", message=str(failure), retryable=False)
    except Exception as bug:  # noqa: BLE001
        # One case's bad luck (a full disk, a bug of ours) must not cost the others their results.
        _log.exception("trial %s of %s", plan.trial, plan.case.id)
        told = f"{type(bug).__name__}: {bug}"
        if root is not None and verdicts:  # it is decided: there was only the directory left to put away
            is_kept = False
            remove_directory(root)
            warnings.append(f"the trial's directory could not be put away: {told}")
        else:
            error = TrialError(kind="internal_error", message=told, retryable=True)
    report = TrialReport(
        trial=plan.trial,
        attempt=plan.attempt,
        outcome=outcome,
        score=mean_score((verdict.score, verdict.weight) for verdict in verdicts),
        verdicts=verdicts,
        error=error,
        duration_ms=round((time.monotonic() - started) * 1000, 1),
        **(_figures(transcript) or spent),
        **judges.costs.figures(),
    )
    report = report.model_copy(update={"warnings": (*report.warnings, *warnings)})
    return TrialResult(
        redaction.of_model(report), transcript, logs, root if is_kept else None, retry_after_seconds
    )


def _take_secrets_out(root: Path, redaction: Redaction, warnings: list[str]) -> bool:
    """Make a trial's directory fit to be kept; if that fails, a warning says why, and it must not stay."""
    try:
        redaction.of_files(root)  # the agent's own logs, too
    except Exception as failure:  # noqa: BLE001
        # Whatever an agent did to its directory: the trial has its outcome, and has been paid for.
        _log.warning("the secrets can't be taken out of %s: %s", root, type(failure).__name__)
        warnings.append(f"the trial's directory was not kept: secrets may be left in it: {failure}")
        return False
    return True


def _hidden(plan: TrialPlan) -> tuple[Path, ...]:
    """Name what no sandbox shows: the suite with its exam, and what the workspace was made from."""
    sources = [plan.files, *([plan.workspace] if isinstance(plan.workspace, Path) else [])]
    return tuple(source.resolve() for source in sources)


def _choose_sandbox(plan: TrialPlan, workspace: Workspace) -> Sandbox | None:
    wanted = Sandbox(
        writable=(workspace.root,),
        tmp=workspace.tmp,
        hidden=_hidden(plan),
        network=plan.network,
    )
    return choose_sandbox(plan.isolation, wanted)


def _set_up(plan: TrialPlan, workspace: Workspace, sandbox: Sandbox | None) -> None:
    """Run the author's setup commands; what they change is where the session starts from."""
    for command in plan.case.setup:
        result = run_process(
            command,
            cwd=workspace.directory,
            env=workspace.environment(plan.case.env),
            timeout_seconds=plan.timeout_seconds,
            stop=plan.stop,
            sandbox=sandbox and sandbox.for_command(command),
        )
        check_not_stopped(plan.stop)
        if result.timed_out or result.exit_code != 0:
            how = "did not end in time" if result.timed_out else f"exited with {result.exit_code}"
            said = (result.stderr or result.stdout).decode(errors="replace").strip()[-500:]
            raise SessionError("setup_failed", f"setup command `{command}` {how}: {said}", retryable=True)
    if plan.case.setup:
        workspace.remember_files()


def _run_session(
    plan: TrialPlan, workspace: Workspace, sandbox: Sandbox | None, logs: dict[LogName, bytes]
) -> Transcript:
    session = Session(
        case=plan.case,
        agent=plan.agent,
        spec=plan.spec,
        workspace=workspace,
        files=plan.files,
        timeout_seconds=plan.timeout_seconds,
        model=plan.model,
        trial=plan.trial,
        attempt=plan.attempt,
        on_tool_call=plan.on_tool_call,
        keep_log=logs.__setitem__,
        stop=plan.stop,
        sandbox=sandbox,
        prices=plan.prices,
    )
    agent = AGENTS[plan.spec.kind]
    check_not_stopped(plan.stop)
    redaction = redaction_of(plan.spec, plan.case)
    transcript = redaction.of_model(agent.run(session))
    check_not_stopped(plan.stop)
    if transcript.input_messages is None:
        transcript = transcript.model_copy(update={"input_messages": plan.case.input_messages})
    if not_kept := tuple(_limits_not_kept(plan.case, plan.spec)):
        transcript = transcript.model_copy(update={"warnings": (*transcript.warnings, *not_kept)})
    if not agent.acts:
        return transcript
    changes = workspace.changes()
    update: dict[str, object] = {"workspace_changes": redaction.of_model(changes)}
    if changes.paths:
        diff = workspace.diff(changes, plan.original or _no_original, redaction)
        update["workspace_diff"] = tuple(map(redaction.of_model, diff))
    return transcript.model_copy(update=update)


def _limits_not_kept(case: Case, spec: AgentBase) -> Iterator[str]:
    """Name the limits of a case that an agent of this kind has no option for, and so went by unseen."""
    if spec.is_written_down:
        return
    for limit, option in (("max_turns", "max_turns"), ("max_cost_usd", "max_budget_usd")):
        if getattr(case, limit) is not None and option not in type(spec).model_fields:
            yield f"`{limit}` was not kept: agents of kind `{spec.kind}` have no such limit"


def _no_original(_path: str) -> None:
    """Nobody kept it."""


def _evaluate(
    plan: TrialPlan, workspace: Workspace, sandbox: Sandbox | None, transcript: Transcript, judges: Judges
) -> tuple[Verdict, ...]:
    context = EvaluationContext(
        case=plan.case,
        transcript=transcript,
        files=plan.files,
        workspace=workspace.directory if AGENTS[plan.spec.kind].acts else None,
        stop=plan.stop,
        sandbox=sandbox,
        ask=judges.ask,
    )
    verdicts = []
    for spec in plan.case.evaluators:
        verdicts.append(judge(spec, context))
        check_not_stopped(plan.stop)  # a judge that was killed for it says nothing of the agent
    return tuple(verdicts)


def _figures(transcript: Transcript | None) -> dict[str, object]:
    """Give what a report shows of a transcript."""
    if transcript is None:
        return {}
    usage = transcript.usage
    return {
        "cost_usd": transcript.cost_usd,
        "input_tokens": usage.total_input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "warnings": transcript.warnings,
        "trace_summary": transcript.summary(),
        "output": transcript.final_text,
        "workspace_changes": transcript.workspace_changes,
    }
