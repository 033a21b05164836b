"""The farm: a distributed job-queue evaluation farm for AI agents.

The public names, by what they are for. Each is imported when it is first used: `farm --help` needs none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farm.agents.session_files import dump_transcript as dump_transcript
    from farm.agents.session_files import read_session as read_session
    from farm.authoring.load import load_suite as load_suite
    from farm.errors import FarmError as FarmError
    from farm.errors import InputError as InputError
    from farm.errors import Problem as Problem
    from farm.evaluators.base import EvaluationContext as EvaluationContext
    from farm.evaluators.registry import judge as judge
    from farm.model.report import CaseReport as CaseReport
    from farm.model.report import SuiteReport as SuiteReport
    from farm.model.report import TrialReport as TrialReport
    from farm.model.suite import Case as Case
    from farm.model.suite import Suite as Suite
    from farm.model.transcript import Transcript as Transcript
    from farm.model.verdict import Verdict as Verdict
    from farm.running import TrialPlan as TrialPlan
    from farm.running import run_trial as run_trial
    from farm.settings import Settings as Settings
    from farm.settings import load_settings as load_settings

__version__ = "0.1.0"

_PUBLIC = {
    # from files to cases
    "load_suite": "farm.authoring.load",
    "load_settings": "farm.settings",
    "Settings": "farm.settings",
    "Suite": "farm.model.suite",
    "Case": "farm.model.suite",
    # from cases to transcripts
    "run_trial": "farm.running",
    "TrialPlan": "farm.running",
    "Transcript": "farm.model.transcript",
    "read_session": "farm.agents.session_files",
    "dump_transcript": "farm.agents.session_files",
    # from transcripts to verdicts and reports
    "judge": "farm.evaluators.registry",
    "EvaluationContext": "farm.evaluators.base",
    "Verdict": "farm.model.verdict",
    "TrialReport": "farm.model.report",
    "CaseReport": "farm.model.report",
    "SuiteReport": "farm.model.report",
    # what can go wrong
    "FarmError": "farm.errors",
    "InputError": "farm.errors",
    "Problem": "farm.errors",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'farm' has no attribute '{name}'")
    return getattr(import_module(_PUBLIC[name]), name)
