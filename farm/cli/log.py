"""`farm log`: run an agent on a prompt, once, and show what it does."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from farm.agents.session_files import dump_transcript
from farm.cli.options import echo, existing_directory, given, given_path, painter, positive_number
from farm.errors import OutputError, UsageError
from farm.model.agent import DEFAULT_AGENT, AgentBase
from farm.model.messages import Message, ToolCall
from farm.model.report import TrialError
from farm.model.suite import Case
from farm.model.transcript import Transcript
from farm.reporting.session_text import session_lines
from farm.reporting.skeleton import skeleton_of
from farm.reporting.terminal import safe, tool_call_line
from farm.resolving import resolve_isolation
from farm.running import TrialPlan, run_trial
from farm.sessions.trial_directories import PARTS, TrialDirectories
from farm.settings import Settings, find_root, load_settings

_EXIT_ERRORED = 3


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("prompt", type=given, metavar="PROMPT", help="what the agent is asked")
    add("--agent", type=given, metavar="NAME", help="which agent (default: farm.yaml's, else claude)")
    add("--model", type=given, metavar="MODEL", help="with which model")
    add(
        "-w",
        "--workspace",
        type=existing_directory,
        metavar="DIR",
        help="work in a copy of this directory (default: farm.yaml's workspace, else the current directory)",
    )
    add("--timeout", type=positive_number, metavar="SECONDS", help="how long the session may take")
    add("--out", type=given_path, metavar="FILE", help="keep the transcript, for `replay` and `farm analyze`")
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument("--json", action="store_true", help="print the transcript as JSON")
    printed.add_argument("--yaml", action="store_true", help="print a test file to begin with")


def run(arguments: Namespace) -> int:
    """Run an agent on a prompt in a copy of the workspace, and show which tools it calls and what it says.

    For authors: what a session looks like tells which assertions to write. Tool calls are shown as they
    happen, then all of it. Nothing is judged. Exit codes: 0 the session ended properly; 3 it did not.
    """
    settings = load_settings(root := find_root([Path.cwd()]))
    agent, spec = _agent(arguments.agent or settings.agent or DEFAULT_AGENT, settings)
    out: Path | None = arguments.out
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise UsageError(f"--out: {out} can't be written: it must be a file in a directory that exists")
    case = Case(
        id="log",
        name="log",
        file="",
        input_messages=(Message(role="user", content=arguments.prompt),),
        evaluators=(),
        agent=agent,
    )
    workspace = _workspace(arguments.workspace, settings, root)
    isolation, network = resolve_isolation(case, spec, settings)
    directories = _RememberedDirectories()
    result = run_trial(
        TrialPlan(
            case=case,
            agent=agent,
            spec=spec,
            workspace=workspace,
            files=root,
            timeout_seconds=arguments.timeout or spec.timeout_seconds or settings.timeout_seconds,
            model=arguments.model or spec.model or settings.model,
            on_tool_call=_show_call,
            isolation=isolation,
            network=network,
            directories=directories,
            prices=settings.prices,
        )
    )
    if result.transcript is None:
        return _tell_of_error(result.report.error)
    if out is not None:
        _keep(result.transcript, out)
    if arguments.json:
        echo(dump_transcript(result.transcript).decode().rstrip("\n"))
    elif arguments.yaml:
        # Whole: nobody knows where the file will lie, which a path is relative to.
        source = arguments.workspace and str(arguments.workspace.resolve())
        said = {"model": arguments.model, "workspace": source}
        made = skeleton_of(arguments.prompt, agent, result.transcript, directories.workspace, said)
        echo(made.rstrip("\n"))
    else:
        for line in session_lines(result.transcript, painter()):
            echo(line)
    return 0


class _RememberedDirectories(TrialDirectories):
    """Remembers where the session worked: its calls name files there, and nowhere else will they be so."""

    workspace: Path | None = None

    def make(self) -> Path:
        """Give a directory with its parts."""
        root = super().make()
        self.workspace = root / PARTS[0]
        return root


def _agent(name: str, settings: Settings) -> tuple[str, AgentBase]:
    spec = settings.agent_spec(name)
    if spec is None:
        raise UsageError(settings.explain_agent(name))
    if spec.is_written_down:
        raise UsageError(f'agent "{name}" does what a case says, and no prompt; choose another with --agent')
    return name, spec


def _workspace(given_one: Path | None, settings: Settings, root: Path) -> Path:
    if given_one is not None:
        return given_one
    return root / settings.workspace if settings.workspace is not None else Path.cwd()


def _show_call(call: ToolCall) -> None:
    echo(f"  · {tool_call_line(call)}", err=True)


def _tell_of_error(error: TrialError | None) -> int:
    assert error is not None
    echo(f"farm: the session did not end properly: {error.kind}: {safe(error.message)}", err=True)
    return _EXIT_ERRORED


def _keep(transcript: Transcript, out: Path) -> None:
    try:
        out.write_bytes(dump_transcript(transcript))
    except OSError as error:
        raise OutputError(f"{out}: can't be written: {error.strerror}") from None
    echo(f"Transcript: {out}", err=True)
