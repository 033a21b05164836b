"""Who is under test: one spec a kind of agent, a tagged union on `kind`."""

from typing import Annotated, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import AfterValidator, Field

from farm.model.base import (
    Count,
    Flag,
    JsonValue,
    Model,
    NonEmptyText,
    PositiveCount,
    PositiveNumber,
    wrong,
)


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
    # Whether it asks the service of a model: it can judge its own cases, and waits when the service is busy.
    asks_model: ClassVar[bool] = True
    # Whether all that it does is written down beforehand: it costs nothing, and can't answer a question.
    is_written_down: ClassVar[bool] = False

    kind: str  # how it is run
    model: NonEmptyText | None = None  # for cases that name none
    env: dict[str, str] = {}  # environment variables of its sessions
    timeout_seconds: PositiveNumber | None = None  # for cases that name none
    isolation: Isolation | None = None  # what keeps its sessions apart
    network: Flag | None = None  # whether its sessions have one

    def as_judge(self) -> Self:
        """Give the one who judges its own cases: without what it was told of how to do its work."""
        return self


# What a worker may pass on to a session of its own environment, if it is there.
ANTHROPIC_SECRETS = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")
# The way to the broker and the store: never a session's, whoever asks.
_OWN_VARIABLES = ("FARM_", "CELERY_")


def secret_problem(name: str) -> str | None:
    """Say why a name can't be that of a secret, if so."""
    if not (name.isascii() and name.isidentifier()):
        return f'"{name}" is no name of an environment variable'
    if name.upper().startswith(_OWN_VARIABLES):
        return f'"{name}" is the farm\'s own, and no session may have it'
    return None


def _check_secret(name: str) -> str:
    if problem := secret_problem(name):
        raise wrong(problem)
    return name


def _check_mcp_config(config: str | dict[str, JsonValue]) -> str | dict[str, JsonValue]:
    if isinstance(config, dict):
        if not isinstance(config.get("mcpServers"), dict):
            raise wrong('"mcp_config" must have a mapping "mcpServers", as .mcp.json has')
    elif config.startswith("/") or ".." in config.split("/"):
        raise wrong('"mcp_config" must be a file of the workspace, such as .mcp.json, or a mapping')
    return config


SCRIPTED_API = "scripted:"


def _check_api(api: str) -> str:
    file = api.removeprefix(SCRIPTED_API)
    if file == api or not file:
        raise wrong(f'"api" must be "{SCRIPTED_API}FILE", the scenario that the farm plays the API by')
    if file.startswith("/") or ".." in file.split("/"):
        raise wrong(f'the scenario "{file}" must lie beside farm.yaml or below it')
    return api


def _check_base_url(url: str) -> str:
    from urllib.parse import urlsplit  # not at the top: few agents have one

    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise wrong(f'"base_url" must be an address such as https://api.example.com, not "{url}"')
    return url


PermissionMode: TypeAlias = Literal["bypassPermissions", "acceptEdits", "auto", "default", "dontAsk", "plan"]
SecretName: TypeAlias = Annotated[NonEmptyText, AfterValidator(_check_secret)]
BaseUrl: TypeAlias = Annotated[NonEmptyText, AfterValidator(_check_base_url)]
# Which API it is, if not the real one: `scripted:FILE` is served by the farm itself, for tests.
Api: TypeAlias = Annotated[NonEmptyText, AfterValidator(_check_api)]
WorkspaceTool: TypeAlias = Literal["Read", "Write", "Edit", "Bash", "Glob", "Grep"]
McpConfig: TypeAlias = Annotated[NonEmptyText | dict[str, JsonValue], AfterValidator(_check_mcp_config)]


class ClaudeSpec(AgentBase):
    """The Claude Code CLI, headless."""

    kind: Literal["claude"] = "claude"
    executable: NonEmptyText | None = (
        None  # a name in PATH or a path; FARM_CLAUDE_PATH, else `claude`, if absent
    )
    permission_mode: PermissionMode = "bypassPermissions"  # what the CLI does where it would ask somebody
    allowed_tools: tuple[NonEmptyText, ...] = ()  # rules of the CLI
    disallowed_tools: tuple[NonEmptyText, ...] = ()  # rules of the CLI, which hold in every mode
    append_system_prompt: NonEmptyText | None = None  # a text after the CLI's own system prompt
    mcp_config: McpConfig | None = None  # a file of the workspace, or what would stand in it
    # Which settings are loaded; the user is the trial's own.
    setting_sources: tuple[Literal["user", "project", "local"], ...] = ("project",)
    max_turns: PositiveCount | None = None  # a case's own wins
    max_budget_usd: PositiveNumber | None = None  # a case's max_cost_usd wins
    extra_args: tuple[str, ...] = ()  # more arguments for the CLI
    base_url: BaseUrl | None = None  # of the API
    api: Api | None = None  # `scripted:FILE`: the farm plays the API by a scenario
    secrets: tuple[SecretName, ...] = ANTHROPIC_SECRETS  # passed on from the worker's environment
    api_timeout_seconds: PositiveNumber | None = None  # of one request
    max_retries: Count | None = None  # of one request, by the CLI

    def as_judge(self) -> Self:
        """Give the one who judges its own cases."""
        return self.model_copy(update={"append_system_prompt": None})


class AnthropicSpec(AgentBase):
    """Our own loop on the Anthropic API."""

    kind: Literal["anthropic"] = "anthropic"
    system: NonEmptyText | None = None  # in the place of the few words that it is told by default
    allowed_tools: tuple[WorkspaceTool, ...] | None = None  # all six if absent
    disallowed_tools: tuple[WorkspaceTool, ...] = ()  # of those
    max_tokens: PositiveCount = 32_000  # of one answer, thinking included
    max_turns: PositiveCount | None = None  # a case's own wins
    max_budget_usd: PositiveNumber | None = None  # a case's max_cost_usd wins
    base_url: BaseUrl | None = None  # of the API
    api: Api | None = None  # `scripted:FILE`: the farm plays the API by a scenario
    # Of the worker's environment, for the API alone: the tools never have them.
    secrets: tuple[Literal["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"], ...] = ("ANTHROPIC_API_KEY",)
    api_timeout_seconds: PositiveNumber = 600.0  # of one request
    max_retries: Annotated[Count, Field(le=20)] = 2  # of one request

    def as_judge(self) -> Self:
        """Give the one who judges its own cases."""
        return self.model_copy(update={"system": None})


def scripted_api(spec: AgentBase) -> str | None:
    """Give the scripted API that an agent asks, as it is written; None if it asks a real one."""
    return spec.api if isinstance(spec, ClaudeSpec | AnthropicSpec) else None


class CommandSpec(AgentBase):
    """Any program, by a template."""

    default_isolation: ClassVar[Isolation] = "process"  # it does what the author wrote
    asks_model: ClassVar[bool] = False  # or none that the farm would know of

    kind: Literal["command"] = "command"
    command: Annotated[NonEmptyText, AfterValidator(_check_template)]  # for the shell, with placeholders
    secrets: tuple[SecretName, ...] = ()  # passed on from the worker's environment


class CodexSpec(AgentBase):
    """The Codex CLI, headless."""

    kind: Literal["codex"] = "codex"
    executable: NonEmptyText | None = None  # FARM_CODEX_PATH, else `codex`, if absent
    extra_args: tuple[str, ...] = ()  # more arguments for the CLI
    base_url: BaseUrl | None = None  # of an API that speaks OpenAI's Responses
    secrets: tuple[SecretName, ...] = ("CODEX_API_KEY", "OPENAI_API_KEY")  # the first that is set is its key


class GeminiSpec(AgentBase):
    """The Gemini CLI, headless."""

    kind: Literal["gemini"] = "gemini"
    executable: NonEmptyText | None = None  # FARM_GEMINI_PATH, else `gemini`, if absent
    extra_args: tuple[str, ...] = ()  # more arguments for the CLI
    base_url: BaseUrl | None = None  # of the API
    # Passed on from the worker's environment.
    secrets: tuple[SecretName, ...] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    max_turns: PositiveCount | None = None  # a case's own wins
    max_retries: Count | None = None  # of one request, by the CLI


class OpencodeSpec(AgentBase):
    """The OpenCode CLI, headless."""

    kind: Literal["opencode"] = "opencode"
    executable: NonEmptyText | None = None  # FARM_OPENCODE_PATH, else `opencode`, if absent
    extra_args: tuple[str, ...] = ()  # more arguments for the CLI
    base_url: BaseUrl | None = None  # of the provider that the model names
    # Passed on from the worker's environment.
    secrets: tuple[SecretName, ...] = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY")


class ReplaySpec(AgentBase):
    """A recorded session; no agent runs."""

    default_isolation: ClassVar[Isolation] = "process"
    asks_model: ClassVar[bool] = False
    is_written_down: ClassVar[bool] = True

    kind: Literal["replay"] = "replay"


class ScriptedSpec(AgentBase):
    """The shipped test double: does what the case's script says."""

    default_isolation: ClassVar[Isolation] = "process"
    asks_model: ClassVar[bool] = False
    is_written_down: ClassVar[bool] = True

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


# The tools that the farm itself carries out, for the agents anthropic and scripted.
WORKSPACE_TOOLS: tuple[str, ...] = get_args(WorkspaceTool)


class CallTool(Model):
    """A scripted tool call; the workspace tools are carried out for real."""

    tool: NonEmptyText  # its name
    input: dict[str, JsonValue] = {}  # what it is called with
    output: str | None = None  # what a tool that can't be carried out here gives back


class Say(Model):
    """A scripted assistant message."""

    say: str  # the text


class Sleep(Model):
    """A scripted pause, in seconds."""

    sleep: Annotated[float, Field(strict=True, ge=0, le=86_400, allow_inf_nan=False)]  # how long, in seconds


class Crash(Model):
    """A scripted crash of the session, with its reason."""

    crash: NonEmptyText  # the reason


ScriptStep: TypeAlias = CallTool | Say | Sleep | Crash
