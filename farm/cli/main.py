"""Turn a command line into a command, and whatever happens in it into an exit code.

Commands are imported when they are called: `farm --help` and `farm check` on one file have a quarter of a
second, most of which goes into importing pydantic.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Any

from farm import __version__
from farm.cli.importing import import_quickly
from farm.cli.options import EXIT_INTERRUPTED, LATEST_RUN, Parser, echo
from farm.errors import FarmError, InputError, OutputError, UsageError

# What `farm --help` says of each command. Its module has the same name, or the one in _MODULES.
COMMANDS = {
    "submit": "run the tests in files and directories, and report",
    "run": "submit, and wait for the end",
    "status": "list the runs, or tell how one stands",
    "watch": "follow a run to its end",
    "cancel": "end a run; what is done is kept",
    "resume": "carry out what has no result",
    "retry": "carry out again what errored or failed",
    "regrade": "judge the sessions of a run again by its tests as they are now",
    "report": "print the report of a run that is over",
    "compare": "say what has changed from one run to another",
    "bless": "mark a run as the one that others are compared with",
    "history": "list the runs that are over, or what became of one case",
    "check": "check test files, and run nothing",
    "analyze": "judge a recorded session by a test",
    "log": "run an agent on a prompt, and show what it does",
    "schema": "print the JSON Schema of test files, for editors",
    "agents": "list the agents, and which of them can run here",
    "init": "start a project with tests that pass",
    "worker": "carry out cases of a fleet on this machine",
    "beat": "submit the runs of farm.yaml's schedules when it is time",
    "schedule": "list the schedules of farm.yaml, or run one now",
    "flower": "watch the workers of a fleet and their tasks in a browser",
    "doctor": "say what works here, and what to do about the rest",
}
_MODULES = {"run": "submit"}

EXIT_BUG = 70
EXIT_PIPE_CLOSED = 141


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without ✓ can do without
    _listen_for_the_end()
    sys.exit(_guarded(lambda: _run(list(sys.argv[1:] if arguments is None else arguments))))


def _open_closed_streams() -> None:
    """Give print() somewhere to go: Python has no stream where the shell has closed one (`>&-`)."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123 — open until the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123


def _listen_for_the_end() -> None:
    """Take a polite kill, or a closed terminal, like Ctrl-C: else running sessions would be left behind."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores it: so do we
            signal.signal(number, _interrupt)


def _interrupt(number: int, _frame: object) -> None:
    signal.signal(number, lambda *_: None)  # once is enough: what is cleaned up now is not to be disturbed
    raise KeyboardInterrupt


def _give_up_output() -> None:
    """Lose what could not be written, or Python would try again at the exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _guarded(command: Callable[[], int]) -> int:
    try:
        code = command()
        sys.stdout.flush()
        return code
    except OutputError as error:
        _give_up_output()
        echo(_message(error), err=True)
        return error.exit_code
    except FarmError as error:
        echo(_message(error), err=True)
        return error.exit_code
    except KeyboardInterrupt:
        echo("farm: interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; nothing more can be said to it.
        _give_up_output()
        return EXIT_PIPE_CLOSED
    except Exception as bug:  # noqa: BLE001 — the one place where a bug of ours becomes an exit code
        import traceback

        traceback.print_exc()
        echo(f"farm: this is a bug of the farm, not of your tests: {bug!r}", err=True)
        return EXIT_BUG


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        echo(_help(), err=not arguments)
        return 0 if arguments else UsageError.exit_code
    if arguments[0] == "--version":
        echo(f"farm {__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        raise UsageError(_unknown(name))
    module, parser = load_command(name)
    own, passed_on = arguments[1:], []
    if getattr(module, "PASSES_ON", False) and "--" in own:
        at = own.index("--")
        own, passed_on = own[:at], own[at + 1 :]
    parsed = parser.parse_intermixed_args(own)
    parsed.passed_on = passed_on  # to another program that has options of its own
    parsed.command = name  # one module may be two commands
    if getattr(parsed, "run", None) == LATEST_RUN:
        parsed.run = import_quickly("farm.queue.finding").latest_run()
    code: int = module.run(parsed)
    return code


def load_command(name: str) -> tuple[Any, Parser]:
    """Import a command; give its module, and the parser of its arguments."""
    module: Any = import_quickly(f"farm.cli.{_MODULES.get(name, name)}")
    parser = Parser(prog=f"farm {name}", description=cleandoc(module.run.__doc__))
    module.add_arguments(parser)
    return module, parser


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        (
            "usage: farm COMMAND …",
            "",
            "The farm: tests for AI agents, with results that can be trusted.",
            "",
            "commands:",
            *lines,
            "",
            "farm COMMAND --help tells more; farm --version tells which farm this is.",
        )
    )


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1)
    return f'unknown command "{name}"; ' + (
        f'did you mean "{close[0]}"?' if close else f"known are {', '.join(COMMANDS)}"
    )


def _message(error: FarmError) -> str:
    if not isinstance(error, InputError):
        return f"farm: {error}"
    files = len({problem.file for problem in error.problems})
    count = f"{len(error.problems)} problem{'s' * (len(error.problems) != 1)}"
    return f"{error}\nfarm: {count} in {files} file{'s' * (files != 1)}; nothing was run"
