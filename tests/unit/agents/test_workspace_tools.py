import os
import threading
import time
import tracemalloc

import pytest

from farm.agents.workspace_tools import (
    MAX_OUTPUT_CHARACTERS,
    WORKSPACE_TOOLS,
    ToolResult,
    ToolUse,
    run_workspace_tool,
)
from farm.errors import SessionError
from tests.unit.sessions.deep_trees import TOO_DEEP_TO_CALL_ITSELF, dig, dig_out_of_reach


@pytest.fixture
def use(workspace):
    def use(tool: str, *, timeout_seconds: float = 10, **parameters) -> ToolResult:
        given = {name.replace("dash_", "-"): value for name, value in parameters.items()}
        return run_workspace_tool(tool, ToolUse(workspace, given, {"GREETING": "hi"}, timeout_seconds))

    return use


@pytest.fixture
def directory(workspace):
    return workspace.directory


def test_read_gives_numbered_lines(use, directory):
    (directory / "a.txt").write_text("one\ntwo\nthree")

    assert use("Read", file_path="a.txt") == ToolResult("1\tone\n2\ttwo\n3\tthree")
    assert use("Read", file_path=str(directory / "a.txt"), offset=2, limit=1) == ToolResult("2\ttwo")


def test_read_shows_bytes_that_are_no_utf8_as_question_marks(use, directory):
    (directory / "a").write_bytes(b"\xff!")

    assert use("Read", file_path="a").output == "1\t?!"


def test_write_creates_a_file_with_its_directories_and_replaces_it(use, directory):
    assert "created" in use("Write", file_path="deep/a.txt", content="one").output
    assert "updated" in use("Write", file_path="deep/a.txt", content="two").output
    assert (directory / "deep/a.txt").read_text() == "two"


def test_edit_replaces_what_is_unique(use, directory):
    (directory / "a").write_bytes(b"one two\r\n\xff")

    assert not use("Edit", file_path="a", old_string="two", new_string="three").is_error
    assert (directory / "a").read_bytes() == b"one three\r\n\xff"


def test_edit_replaces_all_only_when_asked(use, directory):
    (directory / "a").write_text("x x")

    assert "2 times" in use("Edit", file_path="a", old_string="x", new_string="y").output
    assert not use("Edit", file_path="a", old_string="x", new_string="y", replace_all=True).is_error
    assert (directory / "a").read_text() == "y y"


def test_edit_of_nothing_creates_a_file_but_never_replaces_one(use, directory):
    assert not use("Edit", file_path="new", old_string="", new_string="text").is_error
    assert (directory / "new").read_text() == "text"
    assert use("Edit", file_path="new", old_string="", new_string="other").is_error


@pytest.mark.parametrize(("old", "new"), [("absent", "x"), ("same", "same")])
def test_edit_that_changes_nothing_is_an_error(use, directory, old, new):
    (directory / "a").write_text("same")

    assert use("Edit", file_path="a", old_string=old, new_string=new).is_error


def test_bash_runs_in_the_workspace_with_its_environment(use, workspace):
    result = use("Bash", command="pwd; echo $HOME $GREETING; echo err >&2", description="for people")

    assert result == ToolResult(f"{workspace.directory}\n{workspace.home} hi\nerr")


def test_bash_tells_its_exit_code(use):
    assert use("Bash", command="echo out; exit 3") == ToolResult("Exit code 3\nout", is_error=True)


@pytest.mark.parametrize("limits", [{"timeout": 3000}, {"timeout_seconds": 3.0}])
def test_bash_ends_at_its_own_time_limit_or_the_sessions(use, limits):
    result = use("Bash", command="echo begun; sleep 60", **limits)

    assert result == ToolResult("Command timed out after 3 s\nbegun", is_error=True)


def test_long_output_is_shortened(use):
    result = use("Bash", command="head -c 50000 /dev/zero | tr '\\0' x")

    assert result.output == "x" * MAX_OUTPUT_CHARACTERS + "\n… 20000 more characters"


@pytest.fixture
def tree(directory):
    for name in ("a.py", "b.txt", "sub/c.py", "sub/deep/d.py", ".git/e.py", "sub/f.ts"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"name = {name}\nTODO later\n")
    return directory


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.py", ["a.py", "sub/c.py", "sub/deep/d.py"]),
        ("**/*.py", ["a.py", "sub/c.py", "sub/deep/d.py"]),
        ("sub/*.py", ["sub/c.py"]),
        ("sub/**", ["sub/c.py", "sub/deep/d.py", "sub/f.ts"]),
        ("*.{ts,txt}", ["b.txt", "sub/f.ts"]),
        ("[ab].*", ["a.py", "b.txt"]),
        ("[!ab].py", ["sub/c.py", "sub/deep/d.py"]),
        ("?.txt", ["b.txt"]),
        ("sub[+-9]c.py", []),  # the range spans the slash
        ("[z-a].py", []),
        ("s**b/*.py", ["sub/c.py"]),
        ("sub/{c,deep/d}.py", ["sub/c.py", "sub/deep/d.py"]),
        ("{a,b.{txt,md}}*", ["a.py", "b.txt"]),
        ("{a.py", []),
    ],
)
def test_glob_finds_files_by_name(use, tree, pattern, names):
    found = "\n".join(str(tree / name) for name in names)
    assert use("Glob", pattern=pattern).output == (found or "No files found")


def test_glob_searches_below_a_path_and_says_when_it_finds_nothing(use, tree):
    assert use("Glob", pattern="*.py", path="sub/deep").output == str(tree / "sub/deep/d.py")
    assert use("Glob", pattern=f"{tree}/sub/*.ts").output == str(tree / "sub/f.ts")
    assert use("Glob", pattern="*.rs").output == "No files found"


def test_grep_finds_lines_files_and_counts(use, tree):
    assert use("Grep", pattern=r"name = \w\.py").output == str(tree / "a.py")
    assert (
        use("Grep", pattern="TODO", path="a.py", output_mode="content").output == f"{tree}/a.py:2:TODO later"
    )
    assert use("Grep", pattern="a|O", path="b.txt", output_mode="count").output == f"{tree}/b.txt:2"
    assert use("Grep", pattern="todo", glob="*.ts").output == "No matches found"
    assert use("Grep", pattern="todo", glob="*.ts", dash_i=True).output == str(tree / "sub/f.ts")
    assert use("Grep", pattern="TODO", head_limit=2).output.count("\n") == 1


def test_grep_takes_linear_time_on_a_hostile_pattern(use, directory):
    (directory / "a").write_text("a" * 5000 + "!")

    assert use("Grep", pattern="(a+)+$").output == "No matches found"


def test_a_search_ends_with_the_sessions_time_or_when_it_is_stopped(use, directory, workspace):
    (directory / "a").write_bytes(b"ab\n" * 500_000)  # takes seconds

    started = time.monotonic()
    ended = use("Grep", pattern="a", output_mode="count", timeout_seconds=0.05)
    assert (ended.is_error, "takes too long" in ended.output) == (True, True)
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(SessionError, match="stopped"):
        run_workspace_tool("Grep", ToolUse(workspace, {"pattern": "a", "output_mode": "count"}, {}, 60, stop))
    assert time.monotonic() - started < 1


def test_grep_looks_no_further_than_it_can_show(use, directory):
    (directory / "a").write_bytes(b"ab\n" * 3_000_000)  # would take half a minute and a gigabyte

    assert len(use("Grep", pattern="a", output_mode="content").output) < 2 * MAX_OUTPUT_CHARACTERS
    assert use("Grep", pattern="a", output_mode="content", head_limit=2).output.count("\n") == 1


def test_grep_shortens_long_lines(use, directory):
    (directory / "a").write_text("x" * 2005 + "\nxy\n")
    shown = f"{directory}/a:1:{'x' * 2000}… 5 more characters\n{directory}/a:2:xy"

    assert use("Grep", pattern="x", output_mode="content").output == shown


def test_grep_of_many_long_lines_keeps_no_more_of_them_than_it_can_show(use, directory):
    (directory / "0").write_bytes(b"x" * 4 * 2**20)
    for number in range(1, 40):
        os.link(directory / "0", directory / str(number))
    tracemalloc.start()
    output = use("Grep", pattern="x", output_mode="content").output
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert output.endswith("\n… and more")
    assert len(output) < MAX_OUTPUT_CHARACTERS + 20
    assert peak_bytes < 40 * 2**20


def test_a_long_list_of_lines_is_cut_where_its_last_does_not_fit(use, directory):
    (directory / "a").write_text("\n".join(["x" * 99] * 400))
    output = use("Read", file_path="a").output

    assert output.endswith("\n… and more")
    assert len(output) < MAX_OUTPUT_CHARACTERS + 20
    (directory / "a").write_text("x" * (MAX_OUTPUT_CHARACTERS - 2))
    assert use("Read", file_path="a").output == "1\t" + "x" * (MAX_OUTPUT_CHARACTERS - 2)


def test_searches_go_into_directories_however_deep(use, directory):
    bottom = dig(directory, TOO_DEEP_TO_CALL_ITSELF)

    assert use("Glob", pattern="bottom.*").output == str(directory / bottom)
    assert use("Grep", pattern="deep").output == str(directory / bottom)


def test_searches_pass_over_what_no_path_reaches(use, directory):
    (directory / "a").write_text("deep")
    dig_out_of_reach(directory)

    assert use("Glob", pattern="**").output == str(directory / "a")
    assert use("Grep", pattern="deep").output == str(directory / "a")


def test_grep_skips_pipes_and_binary_files(use, directory):
    os.mkfifo(directory / "pipe")
    (directory / "binary").write_bytes(b"\0match")

    assert use("Grep", pattern="match").output == "No matches found"


OUTSIDE = ["/etc/passwd", "../secret", "sub/../../secret", "link", "linked-directory/secret"]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize(
    ("tool", "parameter", "more"),
    [
        ("Read", "file_path", {}),
        ("Write", "file_path", {"content": "x"}),
        ("Edit", "file_path", {"old_string": "secret", "new_string": "x"}),
        ("Grep", "path", {"pattern": "."}),
        ("Glob", "path", {"pattern": "*"}),
    ],
)
def test_a_path_outside_the_workspace_is_refused_links_included(use, workspace, path, tool, parameter, more):
    secret = workspace.root / "secret"
    secret.write_text("secret")
    (workspace.directory / "link").symlink_to(secret)
    (workspace.directory / "linked-directory").symlink_to(workspace.root)
    result = use(tool, **{parameter: path}, **more)

    assert result == ToolResult(f"{path} is outside the workspace", is_error=True)
    assert secret.read_text() == "secret"


def test_searches_do_not_follow_links_out_of_the_workspace(use, workspace):
    (workspace.root / "secret").write_text("secret")
    (workspace.directory / "link").symlink_to(workspace.root / "secret")
    (workspace.directory / "up").symlink_to(workspace.root)

    assert use("Grep", pattern="secret").output == "No matches found"
    assert use("Glob", pattern="**/secret").output == "No files found"


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("Read", {}),
        ("Read", {"file_path": 5}),
        ("Read", {"file_path": "missing"}),
        ("Read", {"file_path": "."}),
        ("Read", {"file_path": "pipe"}),
        ("Read", {"file_path": "nul\0"}),
        ("Read", {"file_path": "loop"}),
        ("Read", {"file_path": "x" * 5000}),
        ("Read", {"file_path": "a", "offset": 0}),
        ("Read", {"file_path": "a", "limit": "5"}),
        ("Read", {"file_path": "a", "pages": "1"}),
        ("Write", {"file_path": "pipe", "content": "x"}),
        ("Write", {"file_path": "a/b", "content": "x"}),
        ("Write", {"file_path": "c", "content": "\ud800"}),
        ("Write", {"file_path": "c"}),
        ("Edit", {"file_path": "missing", "old_string": "x", "new_string": "y"}),
        ("Edit", {"file_path": "a", "old_string": "a", "new_string": "b", "replace_all": "yes"}),
        ("Bash", {}),
        ("Bash", {"command": "a\0b"}),
        ("Bash", {"command": "true", "timeout": -5}),
        ("Glob", {"pattern": "/etc/*"}),
        ("Glob", {"pattern": "{a,b}" * 40}),
        ("Glob", {"pattern": "{a,b}" * 9 + "*a" * 100}),
        ("Glob", {"pattern": "a" * 20_000}),
        ("Grep", {"pattern": "("}),
        ("Grep", {"pattern": "x", "output_mode": "poem"}),
        ("Grep", {"pattern": "x", "path": "missing"}),
    ],
)
def test_what_a_tool_can_not_do_is_an_answer_and_no_exception(use, directory, tool, parameters):
    (directory / "a").write_text("a a")
    os.mkfifo(directory / "pipe")
    (directory / "loop").symlink_to("loop")
    result = use(tool, **parameters)

    assert result.is_error
    assert result.output


@pytest.mark.parametrize("error", [RecursionError("too deep"), MemoryError()])
def test_a_tool_that_runs_out_of_stack_or_memory_answers_with_an_error(use, monkeypatch, error):
    def run_out(use: ToolUse) -> ToolResult:
        raise error

    monkeypatch.setitem(WORKSPACE_TOOLS, "Read", (run_out, frozenset()))

    assert use("Read") == ToolResult(f"Read failed: {str(error) or 'MemoryError'}", is_error=True)


def test_no_file_is_written_that_is_larger_than_what_can_be_read(use, directory):
    half, limit = 5 * 2**20, 10 * 2**20
    (directory / "a").write_bytes(b"x" * half)

    assert not use("Write", file_path="limit", content="x" * limit).is_error
    refused = use("Write", file_path="new/b", content="x" * (limit + 1))
    assert (refused.is_error, f"more than {limit}" in refused.output) == (True, True)
    assert not (directory / "new").exists()
    tracemalloc.start()
    refused = use("Edit", file_path="a", old_string="x", new_string="é" * 30, replace_all=True)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (refused.is_error, f"{60 * half} bytes" in refused.output) == (True, True)
    assert peak_bytes < 40 * 2**20
    assert (directory / "a").read_bytes() == b"x" * half


SECRET = "sk-a-long-secret"


@pytest.fixture
def discreet(workspace):
    def use(tool: str, **parameters) -> str:
        use = ToolUse(workspace, parameters, {}, 10, redact=lambda text: text.replace(SECRET, "[KEY]"))
        return run_workspace_tool(tool, use).output

    return use


def test_a_secret_that_lies_across_a_cut_is_taken_out_whole(discreet, directory):
    (directory / "a").write_text("x" * (MAX_OUTPUT_CHARACTERS - 10) + SECRET)
    (directory / "b").write_text("x" * (2000 - 8) + SECRET + "xyz")

    for output in (
        discreet("Read", file_path="a"),
        discreet("Bash", command="cat a"),
        discreet("Grep", pattern="x", path="b", output_mode="content"),
    ):
        assert "sk-" not in output
        assert "[KEY]" in output
    assert discreet("Bash", command="printf '%s' " + SECRET[:-1]) == SECRET[:-1]


def test_a_secret_in_an_error_is_taken_out_too(discreet):
    assert discreet("Read", file_path=SECRET).endswith("[KEY] does not exist")


def test_text_without_a_utf8_form_comes_to_the_redaction_as_question_marks(workspace):
    (workspace.directory / "a").write_bytes(b"\xff")
    use = ToolUse(workspace, {"file_path": "a"}, {}, 10, redact=lambda text: text.encode().decode() + "!")

    assert run_workspace_tool("Read", use).output == "1\t?!"


def test_every_tool_is_a_tool_that_scripts_may_name():
    assert WORKSPACE_TOOLS.keys() == {"Read", "Write", "Edit", "Bash", "Glob", "Grep"}
