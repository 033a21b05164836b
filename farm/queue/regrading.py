"""Turn a run that is over, and its test files as they are now, into a run that judges its transcripts again.

No agent runs: each trial is a replay of the session that was recorded of it, under the old names of its
agent and model. So judging is as parallel, isolated and limited as in any run, and so is its report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from farm.errors import UsageError
from farm.model.agent import AgentBase, ReplaySpec
from farm.model.job import CasePlan, RecordedTrial
from farm.model.report import CaseReport, SuiteReport, TrialError, TrialReport
from farm.model.suite import Case, Suite, Trials
from farm.queue.blobs import put_bytes
from farm.queue.broker import Broker
from farm.queue.planning import Planner, RunOptions, judge_names
from farm.queue.submit import submit_planned
from farm.settings import Settings

# Where a trial finds its session; no file of a suite lies in there.
_RECORDING = ".farm/recorded-session.json"

_ENDINGS = (".yaml", ".yml", ".jsonl")
_NUMBER_OF_DOCUMENT = re.compile(r"#\d+$")


@dataclass(frozen=True)
class EarlierRun:
    """A run that is over: its report, and the directory that its transcripts are named in."""

    report: SuiteReport
    directory: Path


def files_of_run(report: SuiteReport, root: Path) -> list[Path]:
    """Name the test files of a run that are still there; some of its cases may have gone with others."""
    found = dict.fromkeys(path for case in report.cases if (path := _test_file(case, root)) is not None)
    return list(found)


def _test_file(case: CaseReport, root: Path) -> Path | None:
    """Find the file that makes a case: by its id, for it may be written in another that this one names."""
    stem = case.id.partition("::")[0]
    stems = dict.fromkeys((stem, _NUMBER_OF_DOCUMENT.sub("", stem)))
    names = [f"{stem}{ending}" for stem in stems for ending in _ENDINGS]
    names.sort(key=lambda name: name != case.file)  # if it is one of several, it is this one
    return next((path for name in names if (path := root / name).is_file()), None)


def pair_cases(suite: Suite, report: SuiteReport) -> Suite:
    """Pair today's cases with those of a run: what has no counterpart is skipped, and says so."""
    earlier = {case.id: case for case in report.cases}
    cases = [_paired(case, earlier.get(case.id), report.run_id) for case in suite.cases]
    if all(case.skip is not None for case in cases):
        raise UsageError(
            f"no case in the test files has a session in run {report.run_id}, which has "
            f"{_some(earlier)}; if they are elsewhere, name them: farm regrade RUN PATH"
        )
    known = {case.id for case in cases}
    cases += [_gone(case) for case in report.cases if case.id not in known]
    cases.sort(key=lambda case: case.id)
    return suite.model_copy(update={"name": report.suite, "cases": tuple(cases)})


def _paired(case: Case, earlier: CaseReport | None, run_id: str) -> Case:
    if case.skip is not None:
        return case
    if earlier is None:
        return case.model_copy(update={"skip": f"run {run_id} has no session of it"})
    if not earlier.trials:
        return case.model_copy(update={"skip": f"it was skipped in run {run_id}"})
    return case.model_copy(
        update={
            "agent": earlier.agent,
            "model": earlier.model,
            "replay": _RECORDING,
            "trials": Trials(count=len(earlier.trials), policy=case.trials.policy),
        }
    )


def _gone(case: CaseReport) -> Case:
    return Case(
        id=case.id,
        name=case.name,
        file=case.file,
        input_messages=(),
        evaluators=(),
        agent=case.agent,
        model=case.model,
        tags=case.tags,
        skip="it is not in the test files any more",
    )


def _some(names: Iterable[str]) -> str:
    first, *others = list(names) or ["no case"]
    return f"{first} and {len(others)} more" if others else first


def regrade_run(
    suite: Suite,
    earlier: EarlierRun,
    settings: Settings,
    broker: Broker,
    run_id: str,
    *,
    max_cost_usd: float | None = None,
) -> bool:
    """Submit a suite of paired cases to be judged by what an earlier run recorded.

    `max_cost_usd` is for the LLM judges of this run; what the sessions cost was paid long ago.
    """
    planner = _RegradePlanner(suite, settings, broker, earlier)
    source = earlier.report.run_id
    return submit_planned(suite, planner.plan, broker, run_id, budget_usd=max_cost_usd, regraded_from=source)


class _RegradePlanner(Planner):
    """Plans replays, each with the sessions of its trials."""

    def __init__(self, suite: Suite, settings: Settings, broker: Broker, earlier: EarlierRun) -> None:
        super().__init__(suite, settings, RunOptions(), broker)
        self._earlier_cases = {case.id: case for case in earlier.report.cases}
        self._earlier = earlier

    def plan(self, case: Case) -> CasePlan:
        """Decide everything about a case as if its agent ran, and then put a replay in the agent's place."""
        plan = super().plan(case)
        recorded = () if case.skip is not None else tuple(self._recorded(self._earlier_cases[case.id]))
        judges = set(judge_names(case, plan.judges))
        return plan.model_copy(
            update={
                "spec": ReplaySpec(),
                "model": case.model,
                "limits": {name: limit for name, limit in plan.limits.items() if name in judges},
                "recorded": recorded,
            }
        )

    def _agent(self, case: Case) -> tuple[str, AgentBase]:
        # It may have gone from farm.yaml since; its sessions have not.
        return case.agent, self._settings.agent_spec(case.agent) or ReplaySpec()

    def _bundle(self, _case: Case) -> None:
        """Ship no workspace: nobody works in it."""

    def _recorded(self, case: CaseReport) -> Iterator[RecordedTrial]:
        for trial in sorted(case.trials, key=lambda trial: trial.trial):
            recording = self._recording(trial)
            yield RecordedTrial(
                transcript=recording and put_bytes(self._blobs, recording),
                error=None if recording else trial.error or self._why_there_is_none(trial),
                duration_ms=trial.duration_ms,
            )

    def _recording(self, trial: TrialReport) -> bytes | None:
        if trial.transcript is None:
            return None
        directory = self._earlier.directory.resolve()
        path = (directory / trial.transcript).resolve()
        if not path.is_relative_to(directory):
            return None
        try:
            return path.read_bytes() or None
        except OSError:
            return None

    def _why_there_is_none(self, trial: TrialReport) -> TrialError:
        run_id = self._earlier.report.run_id
        if trial.outcome == "cancelled":
            return TrialError(kind="no_transcript", message=f"it was not carried out in run {run_id}")
        return TrialError(kind="no_transcript", message=f"its transcript of run {run_id} is not there")
