from collections.abc import Callable
from pathlib import Path

import pytest

from farm.agents.base import Session
from farm.model.agent import AgentBase, ScriptedSpec
from farm.model.messages import Message, ToolCall
from farm.model.suite import Case
from farm.sessions.workspace import Workspace, open_workspace


@pytest.fixture
def workspace():
    with open_workspace() as workspace:
        yield workspace


@pytest.fixture
def make_session(workspace: Workspace, tmp_path: Path) -> Callable[..., Session]:
    def make(
        *,
        timeout_seconds: float = 10,
        spec: AgentBase | None = None,
        watch: list[ToolCall] | None = None,
        model: str | None = None,
        attempt: int = 1,
        **case,
    ) -> Session:
        case.setdefault("id", "suite::case")
        case.setdefault("input_messages", (Message(role="user", content="go"),))
        return Session(
            case=Case(name="case", file="suite.yaml", evaluators=(), **case),
            agent="tester",
            spec=spec or ScriptedSpec(),
            workspace=workspace,
            files=tmp_path,
            timeout_seconds=timeout_seconds,
            model=model,
            attempt=attempt,
            on_tool_call=(watch if watch is not None else []).append,
        )

    return make
