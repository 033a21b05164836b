"""Turn a suite into a suite report in this very process, one trial after the other."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from farm.agents.base import ignore_tool_call
from farm.agents.session_files import dump_transcript
from farm.errors import OutputError, UsageError
from farm.model.agent import AgentBase
from farm.model.messages import ToolCall
from farm.model.report import CaseReport, Engine, SuiteReport, TrialReport
from farm.model.suite import Case, Suite
from farm.model.verdict import Outcome
from farm.reporting.json import dump_report, is_report
from farm.reporting.summarize import summarize_case, total
from farm.running import TrialPlan, run_trial
from farm.settings import Settings

Keep = Literal["failed", "all", "none"]


@dataclass(frozen=True)
class RunOptions:
    """What the command line sets for a whole run; it wins over every file."""

    out: Path | None = None
    agent: str | None = None
    model: str | None = None
    workspace: Path | None = None
    timeout_seconds: float | None = None
    keep: Keep = "none"
    on_tool_call: Callable[[ToolCall], None] = ignore_tool_call
    on_case: Callable[[CaseReport], None] = lambda _case: None
    on_kept: Callable[[Case, Path], None] = lambda _case, _path: None


def new_run_id(now: datetime | None = None) -> str:
    """Make a run id that sorts by time and is not made twice."""
    return f"{now or datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def run_in_process(suite: Suite, settings: Settings, options: RunOptions) -> tuple[SuiteReport, Path]:
    """Run every case; give the report and the directory that it was written to, with the transcripts."""
    run = _Run(suite, settings, options)
    started = datetime.now(UTC)
    reports: list[CaseReport] = []
    interrupted = False
    try:
        for case in suite.cases:
            reports.append(run.run_case(case))
            options.on_case(reports[-1])
    except KeyboardInterrupt:
        # What is done stays done, and the report says what is not.
        interrupted = True
        reports.extend(run.cancelled(case) for case in suite.cases[len(reports) :])
    finished = datetime.now(UTC)
    report = SuiteReport(
        run_id=run.run_id,
        suite=suite.name,
        state="interrupted" if interrupted else "complete",
        started_at=_timestamp(started),
        finished_at=_timestamp(finished),
        duration_ms=round((finished - started).total_seconds() * 1000, 1),
        totals=total(reports),
        engine=Engine(workers=1, executions=run.executions),
        cases=tuple(reports),
    )
    run.write("report.json", dump_report(report))
    return report, run.out


class _Run:
    """One run: where it writes, and what it has carried out so far."""

    def __init__(self, suite: Suite, settings: Settings, options: RunOptions) -> None:
        self.run_id = new_run_id()
        self.out = options.out or Path(".farm") / "runs" / self.run_id
        self.executions = 0
        self._root = Path(suite.root)
        # Neither its exam nor what others answered is for the agent to read.
        self._exclude = frozenset({self.out.resolve(), *(self._root / file for file in suite.test_files)})
        self._settings = settings
        self._options = options
        self._make_out()

    def run_case(self, case: Case) -> CaseReport:
        """Run all trials of a case."""
        if case.skip is not None:
            return self._summarize(case, [])
        return self._summarize(case, list(self._run_trials(case)))

    def cancelled(self, case: Case) -> CaseReport:
        """Report a case that was not run."""
        trials = [
            TrialReport(trial=number, outcome="cancelled") for number in range(1, case.trials.count + 1)
        ]
        return self._summarize(case, [] if case.skip is not None else trials)

    def write(self, name: str, content: bytes) -> None:
        """Write one of the run's files."""
        try:
            (self.out / name).write_bytes(content)
        except OSError as error:
            raise OutputError(f"{self.out / name}: can't be written: {error.strerror}") from None

    def _run_trials(self, case: Case) -> Iterator[TrialReport]:
        for number in range(1, case.trials.count + 1):
            self.executions += 1
            result = run_trial(self._plan(case, number))
            if result.workspace is not None:
                self._options.on_kept(case, result.workspace)
            if result.transcript is None:
                yield result.report
                continue
            name = f"transcripts/{self.executions:05}.json"
            self.write(name, dump_transcript(result.transcript))
            yield result.report.model_copy(update={"transcript": name})

    def _plan(self, case: Case, trial: int) -> TrialPlan:
        options = self._options
        agent, spec = self._agent(case)
        own_timeout = options.timeout_seconds or case.timeout_seconds or spec.timeout_seconds
        return TrialPlan(
            case=case,
            agent=agent,
            spec=spec,
            workspace=self._workspace(case),
            files=self._root,
            timeout_seconds=own_timeout or self._settings.timeout_seconds,
            model=self._model(case, spec),
            exclude=self._exclude,
            trial=trial,
            keep=self._keep,
            on_tool_call=options.on_tool_call,
        )

    def _agent(self, case: Case) -> tuple[str, AgentBase]:
        agent = self._options.agent or case.agent
        spec = self._settings.agent_spec(agent)
        if spec is None:
            raise UsageError(self._settings.explain_agent(agent))
        return agent, spec

    def _model(self, case: Case, spec: AgentBase) -> str | None:
        return self._options.model or case.model or spec.model or self._settings.model

    def _workspace(self, case: Case) -> Path:
        if self._options.workspace is not None:
            return self._options.workspace
        for written in (case.workspace, self._settings.workspace):
            if written is not None:
                return self._root / written
        return Path.cwd()

    def _keep(self, outcome: Outcome) -> bool:
        keep = self._options.keep
        return keep == "all" or (keep == "failed" and outcome in ("failed", "errored"))

    def _summarize(self, case: Case, trials: list[TrialReport]) -> CaseReport:
        agent, spec = self._agent(case)
        return summarize_case(case, trials, agent=agent, model=self._model(case, spec))

    def _remove_earlier_run(self, transcripts: Path) -> None:
        """Remove what an earlier run wrote here, and nothing that is not ours: `--out .` is easily said."""
        report = self.out / "report.json"
        if not is_report(report.read_bytes()):
            raise UsageError(f"{report} exists, and is no report of the farm; choose another --out")
        report.unlink()
        for old in transcripts.glob("*.json"):
            if old.stem.isdecimal():
                old.unlink()

    def _make_out(self) -> None:
        transcripts = self.out / "transcripts"
        try:
            if (self.out / "report.json").exists():  # an earlier run's: no transcript of it may stay
                self._remove_earlier_run(transcripts)
            transcripts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.out}: can't be written to: {error.strerror}") from None


def _timestamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
