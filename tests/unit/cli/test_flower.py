"""`farm flower`: who may look, and what is passed on."""

from __future__ import annotations

import pytest

from farm.cli import flower, main
from farm.errors import UsageError
from farm.queue.names import FLOWER_AUTH_VARIABLE, URL_VARIABLE


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Give a function that calls the command up to where it becomes Flower; gives its command and environment."""
    monkeypatch.setenv(URL_VARIABLE, "redis://:broker-mark@127.0.0.1:1/0")
    monkeypatch.delenv(FLOWER_AUTH_VARIABLE, raising=False)
    monkeypatch.setattr(flower, "reachable_broker", lambda: None)
    became = []
    monkeypatch.setattr("os.execve", lambda _program, *what: became.append(what))

    def start(*arguments: str) -> tuple[list[str], dict[str, str]]:
        main._run(["flower", *arguments])
        ((command, environment),) = became
        return command, environment

    return start


def test_by_default_this_machine_may_look_and_nobody_may_control(started) -> None:
    command, environment = started("--port", "5556")
    assert {"--address=127.0.0.1", "--port=5556", "--read_only=True"} < set(command)
    assert FLOWER_AUTH_VARIABLE not in environment


def test_a_password_is_not_on_the_command_line(started, monkeypatch) -> None:
    monkeypatch.setenv(FLOWER_AUTH_VARIABLE, "me:door-mark")
    command, environment = started("--host", "0.0.0.0", "--control")
    assert {"--address=0.0.0.0", "--read_only=False"} < set(command)
    assert "mark" not in " ".join(command)
    assert environment[FLOWER_AUTH_VARIABLE] == "me:door-mark"


def test_a_file_may_name_many(started, tmp_path) -> None:
    (tmp_path / "who").write_text("me:a,b\nyou:c d\n\n")
    _, environment = started("--host", "::", "--auth-file", str(tmp_path / "who"))
    assert environment[FLOWER_AUTH_VARIABLE] == "me:a,b\nyou:c d"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "farm.internal"])
def test_others_may_look_only_with_a_password(started, host) -> None:
    with pytest.raises(UsageError, match=f"only with a password; set {FLOWER_AUTH_VARIABLE}"):
        started("--host", host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_this_machine_has_many_names(started, host) -> None:
    assert f"--address={host}" in started("--host", host)[0]


def test_nobody_controls_workers_without_a_password(started) -> None:
    with pytest.raises(UsageError, match="--control: only those with a password"):
        started("--control")


@pytest.mark.parametrize("told", ["me", "me:", ":secret-mark", "mé:secret-mark", "me:secret\x07mark"])
def test_what_names_nobody_is_refused_and_not_repeated(started, monkeypatch, tmp_path, told) -> None:
    (tmp_path / "who").write_text(f"you:fine\n{told}\n")
    with pytest.raises(UsageError, match="who:2: is not of the form user:password") as refused:
        started("--auth-file", str(tmp_path / "who"))
    assert "secret" not in str(refused.value)
    monkeypatch.setenv(FLOWER_AUTH_VARIABLE, told)
    with pytest.raises(UsageError, match=f"{FLOWER_AUTH_VARIABLE}: is not of the form"):
        started()


def test_a_file_without_anybody_is_refused(started, tmp_path) -> None:
    (tmp_path / "who").write_text("\n")
    with pytest.raises(UsageError, match="names nobody"):
        started("--auth-file", str(tmp_path / "who"))
    with pytest.raises(UsageError, match="can't be read"):
        started("--auth-file", str(tmp_path / "gone"))


def test_options_of_flower_are_passed_on(started) -> None:
    command, _ = started("--port", "1", "--", "--persistent", "--tasks_columns=name,state")
    assert command[-2:] == ["--persistent", "--tasks_columns=name,state"]
    assert sum(argument.startswith("--tasks_columns") for argument in command) == 1


@pytest.mark.parametrize(
    "option", ["--address=0.0.0.0", "--basic-auth=a:b", "--read_only=false", "--AUTH=.*"]
)
def test_what_is_ours_to_say_is_not_passed_on(started, option) -> None:
    with pytest.raises(UsageError, match="is not passed on to Flower; use "):
        started("--", option)


@pytest.mark.parametrize("option", ["persistent", "-p", "--db x", "--=x", ""])
def test_what_is_no_option_is_refused(started, option) -> None:
    with pytest.raises(UsageError, match="options of Flower are written"):
        started("--", option)


def test_without_a_broker_there_is_nothing_to_watch(started, monkeypatch) -> None:
    monkeypatch.delenv(URL_VARIABLE)
    with pytest.raises(UsageError, match=f"Flower needs a broker: set {URL_VARIABLE}"):
        started()
