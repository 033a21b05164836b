"""Who is under test: one spec a kind of agent, a tagged union on `kind`."""

from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field

from farm.model.base import Flag, JsonValue, Model, NonEmptyText, PositiveNumber, wrong


def _check_template(template: str) -> str:
    from farm.model.command_template import template_problems  # not at the top: few agents are templates

    if problems := template_problems(template):
        raise wrong("; ".join(problems))
    return template


# What keeps a session apart: directories of its own, a sandbox, or a sandbox where there is one.
Isolation: TypeAlias = Literal["process", "bubblewrap", "auto"]


class AgentBase(Model):
    """What every agent understands."""

    # Where nobody says anything else. What an LLM makes up belongs in a sandbox.
    default_isolation: ClassVar[Isolation] = "auto"

    kind: str
    model: NonEmptyText | None = None
    env: dict[str, str] = {}
    timeout_seconds: PositiveNumber | None = None
    isolation: Isolation | None = None
    network: Flag | None = None


class ClaudeSpec(AgentBase):
    """The Claude Code CLI, headless."""

    kind: Literal["claude"] = "claude"


class AnthropicSpec(AgentBase):
    """Our own loop on the Anthropic API."""

    kind: Literal["anthropic"] = "anthropic"


class CommandSpec(AgentBase):
    """Any program, by a template."""

    default_isolation: ClassVar[Isolation] = "process"  # it does what the author wrote

    kind: Literal["command"] = "command"
    command: Annotated[NonEmptyText, AfterValidator(_check_template)]  # for the shell, with placeholders


class CodexSpec(AgentBase):
    """The Codex CLI, headless."""

    kind: Literal["codex"] = "codex"


class GeminiSpec(AgentBase):
    """The Gemini CLI, headless."""

    kind: Literal["gemini"] = "gemini"


class OpencodeSpec(AgentBase):
    """The OpenCode CLI, headless."""

    kind: Literal["opencode"] = "opencode"


class ReplaySpec(AgentBase):
    """A recorded session; no agent runs."""

    default_isolation: ClassVar[Isolation] = "process"  # it does what the author wrote

    kind: Literal["replay"] = "replay"


class ScriptedSpec(AgentBase):
    """The shipped test double: does what the case's script says."""

    default_isolation: ClassVar[Isolation] = "process"  # it does what the author wrote

    kind: Literal["scripted"] = "scripted"


AgentSpec: TypeAlias = Annotated[
    ClaudeSpec
    | AnthropicSpec
    | CommandSpec
    | CodexSpec
    | GeminiSpec
    | OpencodeSpec
    | ReplaySpec
    | ScriptedSpec,
    Field(discriminator="kind"),
]

AGENT_SPECS: dict[str, type[AgentBase]] = {
    spec.model_fields["kind"].default: spec for spec in get_args(get_args(AgentSpec)[0])
}

AGENT_ALIASES = {"claude-code": "claude", "claude_code": "claude"}

DEFAULT_AGENT = "claude"


# The tools that the scripted agent carries out for real.
WORKSPACE_TOOLS = ("Read", "Write", "Edit", "Bash", "Glob", "Grep")


class CallTool(Model):
    """A scripted tool call; the workspace tools are carried out for real."""

    tool: NonEmptyText
    input: dict[str, JsonValue] = {}
    output: str | None = None  # what a tool that can't be carried out here gives back


class Say(Model):
    """A scripted assistant message."""

    say: str


class Sleep(Model):
    """A scripted pause, in seconds."""

    sleep: Annotated[float, Field(strict=True, ge=0, le=86_400, allow_inf_nan=False)]


class Crash(Model):
    """A scripted crash of the session, with its reason."""

    crash: NonEmptyText


ScriptStep: TypeAlias = CallTool | Say | Sleep | Crash
