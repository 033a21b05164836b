"""What farm.yaml sets for a suite root, and where that root is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from farm.errors import InputError, Problem, UsageError
from farm.model.agent import AGENT_ALIASES, AGENT_SPECS, ClaudeSpec, CommandSpec, ReplaySpec
from farm.model.limits import LimitSpec
from farm.settings import DEFAULT_TIMEOUT_SECONDS, JudgeEntry, Settings, find_root, load_settings


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path.resolve()


@pytest.fixture
def read(root: Path) -> Callable[[str], Settings]:
    def read(text: str) -> Settings:
        (root / "farm.yaml").write_text(text)
        return load_settings(root)

    return read


@pytest.fixture
def problems_of(read: Callable[[str], Settings]) -> Callable[[str], list[Problem]]:
    def problems_of(text: str) -> list[Problem]:
        with pytest.raises(InputError) as caught:
            read(text)
        return list(caught.value.problems)

    return problems_of


@pytest.mark.parametrize("text", [None, "", "# nothing set\n", "{}\n", "---\n"])
def test_without_settings_the_defaults_hold(root: Path, text: str | None):
    if text is not None:
        (root / "farm.yaml").write_text(text)
    assert load_settings(root) == Settings()
    assert Settings().timeout_seconds == DEFAULT_TIMEOUT_SECONDS == 600


def test_everything_that_can_be_set(read, root: Path):
    (root / "ws").mkdir()
    settings = read(
        """\
name: nightly
agent: fast
model: small
workspace: ws
timeout_seconds: 30
agents:
  fast: {kind: claude-code, model: haiku, env: {A: b}, timeout_seconds: 5.5}
  mine: {kind: command, command: "run {PROMPT_FILE}"}
  tape: {kind: replay}
"""
    )
    assert settings == Settings(
        name="nightly",
        agent="fast",
        model="small",
        workspace="ws",
        timeout_seconds=30,
        agents={
            "fast": ClaudeSpec(model="haiku", env={"A": "b"}, timeout_seconds=5.5),
            "mine": CommandSpec(command="run {PROMPT_FILE}"),
            "tape": ReplaySpec(),
        },
    )


def test_a_name_means_an_agent_of_farm_yaml_else_a_kind(read):
    settings = read("agents: {mine: {kind: command, command: x}, claude: {kind: claude, model: big}}\n")
    assert settings.agent_spec("mine") == CommandSpec(command="x")
    assert settings.agent_spec("claude") == ClaudeSpec(model="big")
    assert Settings().agent_spec("claude") == ClaudeSpec()
    assert Settings().agent_spec("mine") is None


@pytest.mark.parametrize("kind", [*AGENT_SPECS, *AGENT_ALIASES])
def test_every_kind_that_needs_no_options_is_an_agent(kind: str):
    spec = Settings().agent_spec(kind)
    if kind == "command":
        assert spec is None
    else:
        assert spec is not None
        assert spec.kind == AGENT_ALIASES.get(kind, kind)
        assert type(spec).model_validate(spec.model_dump()) == spec


def test_a_kind_that_needs_options_says_where_they_go():
    message = 'agent "command" needs options: name it under "agents" in farm.yaml'
    assert Settings().explain_agent("command") == message


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("claud", 'unknown agent "claud"; did you mean "claude"?'),
        ("Codex", 'unknown agent "Codex"; did you mean "codex"?'),
        ("fats", 'unknown agent "fats"; did you mean "fast"?'),
        ("claude-cod", 'unknown agent "claude-cod"; did you mean "claude-code"?'),
    ],
)
def test_an_unknown_agent_is_told_what_may_have_been_meant(name: str, told: str):
    assert Settings(agents={"fast": ClaudeSpec()}).explain_agent(name) == told


def test_an_agent_like_no_other_is_told_all_that_are_known():
    told = Settings(agents={"mine": ClaudeSpec()}).explain_agent("zzz")
    assert told == f'unknown agent "zzz"; known are mine, {", ".join([*AGENT_SPECS, *AGENT_ALIASES])}'


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("# c\nagnet: claude\n", 2, 1, 'unknown key "agnet" in farm.yaml; did you mean "agent"?'),
        ("agent: claud\n", 1, 8, 'unknown agent "claud"; did you mean "claude"?'),
        ("agent: command\n", 1, 8, 'agent "command" needs options: name it under "agents" in farm.yaml'),
        ("agent: 5\n", 1, 8, '"agent" must be text, not the number 5'),
        ("model:\n", 1, 1, '"model" is empty; give it a value or remove it'),
        ("timeout_seconds: 0\n", 1, 18, '"timeout_seconds" must be more than 0'),
        ("timeout_seconds: soon\n", 1, 18, '"timeout_seconds" must be a number, not "soon"'),
        ("workspace: gone\n", 1, 12, 'workspace "gone" is not a directory'),
        ("agents: [a]\n", 1, 9, '"agents" must be a mapping of names to agents'),
        ("agents:\n", 1, 8, '"agents" must be a mapping of names to agents'),
        ("agents:\n  a: claude\n", 2, 6, 'agent "a" must be a mapping with a "kind"'),
        ("agents:\n  a: {model: m}\n", 2, 6, 'agent "a" must be a mapping with a "kind"'),
        ("agents:\n  a: {kind: 5}\n", 2, 6, 'agent "a" must be a mapping with a "kind"'),
        ("agents:\n  a:\n    kind: claud\n", 3, 11, 'unknown kind of agent "claud"; did you mean "claude"?'),
        (
            "agents:\n  a:\n    kind: zzz\n",
            3,
            11,
            f'unknown kind of agent "zzz"; known are {", ".join(AGENT_SPECS)}',
        ),
        (
            "agents:\n  a:\n    kind: claude\n    modle: m\n",
            4,
            5,
            'unknown key "modle"; did you mean "model"?',
        ),
        (
            "agents:\n  a:\n    kind: claude\n    model:\n",
            4,
            5,
            '"model" is empty; give it a value or remove it',
        ),
        ("agents:\n  a:\n    kind: command\n", 3, 5, 'the key "command" is missing'),
        (
            "agents:\n  a:\n    kind: command\n    command: run {PROMT}\n",
            4,
            14,
            "unknown placeholder {PROMT}; did you mean {PROMPT}?",
        ),
        (
            "agents:\n  a: {kind: command, command: 'run {OUTPUT} {files}'}\n",
            2,
            31,
            "unknown placeholder {OUTPUT}; did you mean {OUTPUT_FILE}?; "
            "{files} is no placeholder; did you mean {FILES}?",
        ),
        (
            'agents:\n  a:\n    kind: command\n    command: >\n      run "{PROMPT}"\n',
            4,
            14,
            "{PROMPT} stands in quotes, a comment or a here-document; the farm quotes it, so write it bare",
        ),
        ("agents:\n  a: {kind: command, command: ''}\n", 2, 31, '"command" must not be empty'),
        ("agents:\n  a: {kind: claude, env: {A: 1}}\n", 2, 30, '"A" must be text, not the number 1'),
        ("agent: a\nagent: b\n", 2, 1, 'duplicate key "agent"'),
        ("- agent\n", 1, 1, "must be a mapping, such as `agent: claude`"),
        ("agent: claude\n---\nagent: codex\n", 3, 1, "holds more than one document"),
    ],
)
def test_a_slip_is_told_with_its_place(problems_of, text: str, line: int, column: int, message: str):
    assert problems_of(text) == [Problem("farm.yaml", line, column, message)]


def test_a_file_that_is_not_yaml_is_told(problems_of):
    [problem] = problems_of("agent: [\n")
    assert (problem.file, problem.line, problem.message[:15]) == ("farm.yaml", 2, "not valid YAML:")


def test_all_slips_are_told_at_once(problems_of):
    found = problems_of(
        "agnet: x\nmodel: 5\nworkspace: gone\nagents:\n  a: {kind: claud}\n  b: {kind: codex, x: 1}\n"
    )
    assert [(problem.line, problem.column) for problem in found] == [
        (1, 1),
        (2, 8),
        (3, 12),
        (5, 13),
        (6, 20),
    ]


def test_limits_and_retries(read):
    settings = read("retries: 0\nlimits:\n  claude: {concurrency: 8, starts_per_minute: 30}\n")
    assert settings.retries == 0
    assert settings.limits["claude"] == LimitSpec(concurrency=8, starts_per_minute=30)


def test_a_limit_that_would_let_nothing_start_is_refused(problems_of):
    assert "must be one line" in problems_of('limits:\n  "two\\nlines": {concurrency: 1}\n')[0].message
    (problem,) = problems_of("limits:\n  claude: {concurrency: 0}\n")
    assert (problem.line, problem.column) == (2, 25)


# The suite root


def marked(root: Path, *marks: str) -> Path:
    for mark in marks:
        path = root / mark
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if mark.endswith(".git") else path.write_text("{}")
    for directory in ("a/b/c", "a/d", "e"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    return root


def test_the_root_is_the_nearest_directory_with_a_farm_yaml(root: Path):
    marked(root, "farm.yaml", "a/farm.yaml")
    assert find_root([Path("a/b/c")]) == find_root([Path("a/b/c/t.yaml")]) == root / "a"
    assert find_root([Path("e")]) == find_root([Path("t.yaml")]) == root
    assert find_root([Path("a")]) == root / "a"


def test_the_root_lies_above_all_paths(root: Path):
    marked(root, "farm.yaml", "a/b/farm.yaml")
    assert find_root([Path("a/b/c"), Path("a/b/t.yaml")]) == root / "a/b"
    assert find_root([Path("a/b/c"), Path("a/d")]) == root


def test_without_a_farm_yaml_the_root_is_the_nearest_directory_with_a_git(root: Path):
    marked(root, ".git", "a/.git")
    assert find_root([Path("a/b/c")]) == root / "a"
    assert find_root([Path("e")]) == root


def test_a_git_may_be_a_file_as_in_a_worktree(root: Path):
    marked(root)
    (root / "a/.git").write_text("gitdir: elsewhere")
    assert find_root([Path("a/b")]) == root / "a"


def test_a_farm_yaml_further_up_wins_over_a_git(root: Path):
    marked(root, "farm.yaml", "a/.git")
    assert find_root([Path("a/b/c")]) == root


def test_without_either_the_root_is_the_current_directory(root: Path):
    marked(root)
    assert find_root([Path("a/b/c")], root) == root
    assert find_root([Path("a/b/c"), Path("e/t.yaml")], root) == root
    assert find_root([], root) == root
    assert find_root([Path("b")], root / "a") == root / "a"


def test_without_either_paths_that_lie_elsewhere_have_their_own_root(root: Path):
    marked(root)
    assert find_root([root / "a/b/c", root / "a/d/t.yaml"], root / "e") == root / "a"
    assert find_root([Path("../a/b/t.yaml")], root / "e") == root / "a/b"


def test_the_root_of_a_linked_directory_is_where_it_leads(root: Path):
    marked(root, "a/farm.yaml")
    (root / "link").symlink_to("a/b")
    assert find_root([Path("link")]) == root / "a"


@pytest.mark.parametrize("name", ["x" * 5000, "loop/t.yaml"])
def test_a_path_that_can_t_be_looked_at_gives_a_root_or_a_usage_error(root: Path, name: str):
    marked(root, "farm.yaml")
    (root / "loop").symlink_to("loop")
    try:
        found = find_root([Path(name)])
    except UsageError as error:
        assert "can't be read" in str(error)
    else:
        assert found == root


def test_farm_yaml_names_the_judge(read, problems_of):
    settings = read(
        "agents: {strict: {kind: claude}}\njudge: {agent: strict, model: opus, timeout_seconds: 60}\n"
    )
    assert settings.judge == JudgeEntry(agent="strict", model="opus", timeout_seconds=60)
    assert problems_of("judge: {agent: strikt}\n") == [
        Problem("farm.yaml", 1, 16, Settings().explain_agent("strikt"))
    ]
    assert problems_of("judge:\n  agent: scripted\n") == [
        Problem("farm.yaml", 2, 10, 'agent "scripted" can\'t judge: it answers no questions')
    ]
    assert 'unknown key "modle"' in problems_of("judge: {modle: opus}\n")[0].message
