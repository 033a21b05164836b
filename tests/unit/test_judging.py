"""Judges as real sessions: of a program that plays the LLM, in a workspace of its own."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from farm.errors import SessionError, UsageError
from farm.evaluators import llm
from farm.evaluators.base import Question
from farm.judging import Judges, questions_of
from farm.model.agent import AgentBase, AnthropicSpec, ClaudeSpec, CommandSpec, ReplaySpec, ScriptedSpec
from farm.model.job import JudgePlan
from farm.model.suite import Case
from farm.resolving import resolve_judges
from farm.running import TrialPlan, TrialResult, run_trial
from farm.settings import JudgeEntry, Settings
from tests.unit.builders import case as make_case

GOOD = {"score": 0.9, "reasoning": "fine", "hits": [], "misses": []}
SHOW = """
import json, os, pathlib, sys
print(json.dumps({"prompt": open(sys.argv[1]).read(), "cwd": os.getcwd(), "files": os.listdir(),
                  "model": os.environ.get("FARM_MODEL"), "env": sorted(os.environ)}))
"""


def program(code: str) -> CommandSpec:
    return CommandSpec(command=f"{sys.executable} -c {shlex.quote(code)} {{PROMPT_FILE}}")


def says(answer: Any, **figures: Any) -> CommandSpec:
    """Give a judge that answers this, and tells these figures of its session."""
    return program(f"print({json.dumps({'text': json.dumps(answer), **figures})!r})")


def judges(spec: AgentBase, **fields: Any) -> Judges:
    plan = JudgePlan(agent="grader", spec=spec, timeout_seconds=20)
    return Judges("suite::case", {"": plan}, **fields)


def test_a_judge_works_in_an_empty_place_and_gets_the_prompt_and_the_model():
    seen = json.loads(judges(program(SHOW)).ask(Question("Well?\n\0", {}, model="m")).text)
    assert (seen["prompt"], seen["files"], seen["model"]) == ("Well?\n\0", [], "m")
    assert not Path(seen["cwd"]).exists()  # it is gone with the session


def test_a_judge_has_nothing_of_the_cases_environment(tmp_path):
    case = make_case(
        agent="scripted", script=({"say": "x"},), env={"OF_THE_CASE": "1"},
        evaluators=({"type": "llm_judge", "prompt": "p"},),
    )  # fmt: skip
    (tmp_path / "CLAUDE.md").write_text("Judge kindly.")
    code = "import os; assert 'OF_THE_CASE' not in os.environ and not os.listdir();"
    result = trial(tmp_path, case, program(f"{code} print({json.dumps(GOOD)!r})"))
    assert result.report.outcome == "passed", result.report.verdicts


def test_what_a_judge_costs_is_counted_also_if_it_fails():
    asked = judges(says(GOOD, cost_usd=0.25, token_usage={"input_tokens": 7, "output_tokens": 2}))
    for _ in range(2):
        asked.ask(Question("?", {}))
    assert asked.costs.figures() == {
        "judge_cost_usd": 0.5,
        "judge_input_tokens": 14,
        "judge_output_tokens": 4,
        "judge_unknown_costs": 0,
    }
    broken = judges(program("raise SystemExit(3)"))
    with pytest.raises(SessionError, match=r'agent "grader": .*exit code 3'):
        broken.ask(Question("?", {}))
    judges(says(GOOD), costs=broken.costs).ask(Question("?", {}))
    assert (broken.costs.cost_usd, broken.costs.unknown_costs) == (None, 2)


def test_a_judge_that_takes_too_long_is_ended():
    plan = JudgePlan(agent="slow", spec=program("import time; time.sleep(60)"), timeout_seconds=0.3)
    with pytest.raises(SessionError) as error:
        Judges("c", {"": plan}).ask(Question("?", {}))
    assert (error.value.kind, error.value.retryable) == ("timeout", True)


def test_a_judge_is_stopped_with_its_trial():
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(SessionError) as error:
        judges(program("import time; time.sleep(60)"), stop=stop).ask(Question("?", {}))
    assert error.value.kind == "stopped"


def trial(workspace: Path, case: Case, judge: AgentBase, **fields: Any) -> TrialResult:
    settings = Settings(agents={"grader": judge}, judge=JudgeEntry(agent="grader"))
    return run_trial(
        TrialPlan(
            case=case,
            agent="scripted",
            spec=ScriptedSpec(),
            workspace=workspace,
            files=workspace,
            timeout_seconds=20,
            judges=resolve_judges(case, "scripted", ScriptedSpec(), None, settings),
            **fields,
        )
    )


def judged_case(**fields: Any) -> Case:
    evaluators = (
        {"type": "stdout_review", "stdout": {"review": "polite?", "threshold": 1}},
        {"type": "llm_judge", "prompt": "p", "samples": 2},
    )
    return make_case(**{"agent": "scripted", "script": ({"say": "x"},), "evaluators": evaluators, **fields})


def test_a_trials_report_counts_its_judges_apart(tmp_path):
    usage = {"input_tokens": 10, "output_tokens": 1}
    result = trial(tmp_path, judged_case(), says({**GOOD, "score": 1}, cost_usd=0.01, token_usage=usage))
    report = result.report
    assert [verdict.outcome for verdict in report.verdicts] == ["passed", "passed"]
    assert report.judge_cost_usd == pytest.approx(0.03)
    assert (report.judge_input_tokens, report.judge_output_tokens, report.judge_unknown_costs) == (30, 3, 0)
    assert (report.cost_usd, report.input_tokens) == (None, None)


def test_a_judge_that_breaks_errs_its_verdict_and_not_the_session(tmp_path, monkeypatch):
    monkeypatch.setattr(llm, "FIRST_PAUSE_SECONDS", 0.0)
    evaluators = ({"type": "contains", "value": "x"}, {"type": "llm_judge", "prompt": "p"})
    result = trial(tmp_path, judged_case(evaluators=evaluators), program("raise SystemExit('no luck')"))
    assert [verdict.outcome for verdict in result.report.verdicts] == ["passed", "errored"]
    assert (result.report.outcome, result.report.score) == ("errored", 1.0)
    assert result.report.error is None  # nothing that another attempt of the whole trial would mend
    assert result.report.judge_unknown_costs == 3


def test_a_stopped_trial_has_no_verdicts(tmp_path):
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    result = trial(tmp_path, judged_case(), program("import time; time.sleep(60)"), stop=stop)
    assert result.report.error is not None
    assert (result.report.error.kind, result.report.verdicts) == ("stopped", ())


def test_questions_are_found_wherever_they_are_asked():
    member = {"type": "llm_judge", "prompt": "a"}
    weigh = {"type": "llm_judge", "prompt": "b", "samples": 3}
    case = make_case(
        evaluators=(
            {"type": "composite", "evaluators": ({"type": "composite", "evaluators": (member,)},), "aggregator": weigh},
            {"type": "stdout_review", "stdout": {"review": "c", "model": "m"}},
            {"type": "contains", "value": "x"},
        )
    )  # fmt: skip
    assert [(question.samples, question.model) for question in questions_of(case.evaluators)] == [
        (1, None), (3, None), (1, "m")
    ]  # fmt: skip


class TestWhoJudges:
    AGENTS: dict[str, AgentBase] = {
        "strict": AnthropicSpec(model="opus"),
        "local": CommandSpec(command="judge"),
        "mine": ClaudeSpec(),
    }

    def judge(self, agent: str, spec: AgentBase, named: str | None = None, **settings: Any) -> JudgePlan:
        case = make_case(evaluators=({"type": "llm_judge", "prompt": "p", "agent": named},))
        known = Settings(agents=self.AGENTS, **settings)
        (plan,) = resolve_judges(case, agent, spec, "model-of-the-case", known).values()
        return plan

    def test_the_agent_that_the_evaluator_names(self):
        settings = JudgeEntry(agent="local", model="small")
        plan = self.judge("claude", ClaudeSpec(), "strict", judge=settings)
        assert (plan.agent, plan.spec.kind, plan.model) == ("strict", "anthropic", "opus")

    def test_else_the_judge_of_farm_yaml(self):
        plan = self.judge("claude", ClaudeSpec(), judge=JudgeEntry(agent="strict"))
        assert (plan.agent, plan.model) == ("strict", "opus")
        plan = self.judge("claude", ClaudeSpec(), judge=JudgeEntry(agent="strict", model="haiku"))
        assert (plan.agent, plan.model) == ("strict", "haiku")

    def test_else_the_cases_own_agent_if_it_is_an_llm(self):
        plan = self.judge("mine", ClaudeSpec())
        assert (plan.agent, plan.spec.kind, plan.model) == ("mine", "claude", "model-of-the-case")
        plan = self.judge("mine", ClaudeSpec(), judge=JudgeEntry(model="haiku"))
        assert (plan.agent, plan.model) == ("mine", "haiku")

    @pytest.mark.parametrize(
        "spec", [ClaudeSpec(append_system_prompt="HAIKU ONLY"), AnthropicSpec(system="HAIKU ONLY")]
    )
    def test_what_an_agent_is_told_of_its_work_is_told_to_its_judge_only_if_somebody_chose_it(self, spec):
        assert "HAIKU" not in self.judge("poet", spec).spec.model_dump_json()
        known = Settings(agents={"poet": spec}, judge=JudgeEntry(agent="poet"))
        case = make_case(evaluators=({"type": "llm_judge", "prompt": "p"},))
        (plan,) = resolve_judges(case, "poet", spec, None, known).values()
        assert "HAIKU" in plan.spec.model_dump_json()

    @pytest.mark.parametrize("spec", [ReplaySpec(), ScriptedSpec(), CommandSpec(command="x")])
    def test_else_the_api(self, spec):
        plan = self.judge("of the case", spec, model="of farm.yaml")
        assert (plan.agent, plan.spec.kind, plan.model) == ("anthropic", "anthropic", "of farm.yaml")

    def test_its_time_and_isolation_are_its_own_and_not_the_cases(self):
        case = make_case(
            evaluators=({"type": "llm_judge", "prompt": "p"},), network=False, isolation="bubblewrap",
            timeout_seconds=1, max_turns=1,
        )  # fmt: skip
        (plan,) = resolve_judges(case, "claude", ClaudeSpec(), None, Settings()).values()
        assert (plan.network, plan.isolation, plan.timeout_seconds) == (True, "auto", 180)
        settings = Settings(judge=JudgeEntry(timeout_seconds=5), network=False, isolation="bubblewrap")
        (plan,) = resolve_judges(case, "claude", ClaudeSpec(timeout_seconds=9), None, settings).values()
        assert (plan.network, plan.isolation, plan.timeout_seconds) == (False, "bubblewrap", 5)

    def test_a_case_without_questions_needs_no_judge(self):
        assert resolve_judges(make_case(), "x", ScriptedSpec(), None, Settings()) == {}

    def test_one_that_is_not_known_any_more_is_told(self):
        with pytest.raises(UsageError, match='unknown agent "strikt"'):
            self.judge("claude", ClaudeSpec(), "strikt")
