import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.errors import FarmError, UsageError
from farm.sessions.removal import remove_tree
from farm.sessions.workspace import open_workspace
from tests.unit.sessions.deep_trees import (
    TOO_DEEP_TO_CALL_ITSELF,
    dig,
    dig_out_of_reach,
    dig_to_the_limit,
)
from tests.unit.sessions.trees import git, write


def files_of(directory: Path) -> set[str]:
    return {
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def test_an_empty_workspace_has_directories_of_its_own_and_is_removed():
    with open_workspace() as workspace:
        assert files_of(workspace.root) == {".owner"}
        for directory in (workspace.directory, workspace.home, workspace.tmp, workspace.config):
            assert directory.is_dir()
            assert directory.parent == workspace.root
        assert stat.S_IMODE(workspace.root.stat().st_mode) == 0o700
    assert not workspace.root.exists()


def test_a_workspace_is_a_copy_that_leaves_the_source_alone(source):
    write(source, "a.txt", "deep/b.txt")
    with open_workspace(source) as workspace:
        assert files_of(workspace.directory) == {"a.txt", "deep/b.txt"}
        (workspace.directory / "a.txt").write_text("changed")
    assert (source / "a.txt").read_text() == "a.txt"


def test_a_missing_source_is_a_usage_error(source):
    with pytest.raises(UsageError, match="no such directory"), open_workspace(source / "gone"):
        pass


def test_without_git_the_usual_litter_stays_behind(source):
    write(source, "a", ".git.txt", ".farm/runs/r", ".venv/x", "sub/__pycache__/y", "node_modules/z", "sub/b")
    (source / "empty").mkdir()
    with open_workspace(source) as workspace:
        assert files_of(workspace.directory) == {"a", ".git.txt", "sub/b"}
        assert (workspace.directory / "empty").is_dir()


@pytest.fixture
def deep_source(source):
    """A source that is removed even where pytest could not."""
    yield source
    remove_tree(source)


def test_a_source_is_copied_however_deep_it_is(deep_source):
    bottom = dig(deep_source, TOO_DEEP_TO_CALL_ITSELF)
    with open_workspace(deep_source) as workspace:
        assert (workspace.directory / bottom).read_text() == "deep"


def test_a_source_too_deep_to_name_is_refused_and_not_copied_in_part(deep_source):
    dig_out_of_reach(deep_source)
    with pytest.raises(FarmError, match=r"can't copy .* File name too long"), open_workspace(deep_source):
        pass


def test_with_git_exactly_what_git_ignores_stays_behind(source):
    git(source, "init", "-q")
    write(
        source, "tracked", "deleted", "untracked", "secret.env", "node_modules/kept", ".farm/r", "sub/x.env"
    )
    (source / ".gitignore").write_text("*.env\n")
    git(source, "add", "tracked", "deleted", ".gitignore")
    (source / "deleted").unlink()
    with open_workspace(source) as workspace:
        assert files_of(workspace.directory) == {"tracked", "untracked", "node_modules/kept", ".gitignore"}


def test_a_directory_inside_a_repository_is_copied_as_git_sees_it(source):
    git(source, "init", "-q")
    (source / ".gitignore").write_text("*.env\n")
    write(source, "outside", "inner/a", "inner/b.env")
    with open_workspace(source / "inner") as workspace:
        assert files_of(workspace.directory) == {"a"}


def test_an_ignored_directory_that_is_named_as_the_source_is_copied(source):
    git(source, "init", "-q")
    (source / ".gitignore").write_text("scratch/\n")
    write(source, "scratch/a")
    with open_workspace(source / "scratch") as workspace:
        assert files_of(workspace.directory) == {"a"}


def test_files_of_submodules_and_nested_repositories_are_plain_files(source, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    for repository in (source, library):
        git(repository, "init", "-q")
    write(library, "lib.txt")
    git(library, "add", ".")
    git(library, "commit", "-qm", "lib")
    git(source, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "vendored")
    git(source, "clone", "-q", str(library), "nested")
    with open_workspace(source) as workspace:
        assert files_of(workspace.directory) == {".gitmodules", "vendored/lib.txt", "nested/lib.txt"}


def test_a_repository_that_git_refuses_is_an_error_and_not_copied_whole(source):
    (source / ".git").write_text("gitdir: /nowhere")
    write(source, "secret.env")
    with pytest.raises(FarmError, match="git can't list"), open_workspace(source):
        pass


def test_a_hook_that_starts_us_does_not_change_what_git_sees(source, monkeypatch, tmp_path):
    git(source, "init", "-q")
    write(source, "a")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    with open_workspace(source) as workspace:
        assert files_of(workspace.directory) == {"a"}


@pytest.mark.parametrize("in_git", [True, False])
def test_excluded_files_and_directories_stay_behind(source, in_git):
    if in_git:
        git(source, "init", "-q")
    write(source, "app.py", "exams/one.yaml", "exams/two.yaml", "evals/x/deep.yaml")
    with open_workspace(source, exclude=[source / "exams/one.yaml", source / "evals"]) as workspace:
        assert files_of(workspace.directory) == {"app.py", "exams/two.yaml"}


def test_an_excluded_file_is_not_reached_through_a_link(source, tmp_path):
    write(source, "exam.yaml")
    write(tmp_path, "outside.yaml")
    (source / "inside-link").symlink_to("exam.yaml")
    with open_workspace(source, exclude=[source / "exam.yaml"]) as workspace:
        assert not (workspace.directory / "inside-link").exists()
    (source / "outside-link").symlink_to(tmp_path / "outside.yaml")
    with pytest.raises(FarmError, match="outside-link"):  # noqa: SIM117
        with open_workspace(source, exclude=[tmp_path / "outside.yaml"]):
            pass


def test_an_excluded_file_that_is_a_link_stays_behind_with_what_it_points_to(source, tmp_path):
    write(tmp_path, "outside.yaml")
    write(source, "kept", "real.yaml")
    (source / "exam.yaml").symlink_to(tmp_path / "outside.yaml")
    (source / "other.yaml").symlink_to("real.yaml")
    with open_workspace(source, exclude=[source / "exam.yaml", source / "other.yaml"]) as workspace:
        assert files_of(workspace.directory) == {"kept"}


def test_a_tracked_directory_that_became_a_link_is_copied_as_the_link(source):
    git(source, "init", "-q")
    write(source, "old/file", "new/file")
    git(source, "add", ".")
    (source / "old/file").unlink()
    (source / "old").rmdir()
    (source / "old").symlink_to("new")
    with open_workspace(source) as workspace:
        assert files_of(workspace.directory) == {"old", "new/file"}
        assert (workspace.directory / "old").is_symlink()


def test_executable_bits_and_times_are_kept_and_read_only_files_become_writable(source):
    write(source, "run.sh", "data")
    (source / "run.sh").chmod(0o500)
    (source / "data").chmod(0o400)
    os.utime(source / "data", (1_000_000, 1_000_000))
    with open_workspace(source) as workspace:
        assert stat.S_IMODE((workspace.directory / "run.sh").stat().st_mode) == 0o755
        assert stat.S_IMODE((workspace.directory / "data").stat().st_mode) == 0o644
        assert (workspace.directory / "data").stat().st_mtime == 1_000_000


def test_links_inside_stay_links_that_lead_inside(source):
    write(source, "target", "sub/x")
    (source / "relative").symlink_to("target")
    (source / "sub/up").symlink_to("../target")
    (source / "absolute").symlink_to(source / "target")
    (source / "roundabout").symlink_to(f"../{source.name}/target")
    (source / "directory").symlink_to("sub")
    (source / "dangling").symlink_to("nowhere")
    with open_workspace(source) as workspace:
        for name in ("relative", "sub/up", "absolute", "roundabout"):
            link = workspace.directory / name
            assert link.is_symlink()
            assert link.resolve() == workspace.directory / "target"
        assert (workspace.directory / "directory").resolve() == workspace.directory / "sub"
        assert (workspace.directory / "dangling").is_symlink()


def test_a_link_to_a_file_outside_becomes_a_copy_of_it(source, tmp_path):
    write(tmp_path, "shared.md")
    (source / "shared.md").symlink_to("../shared.md")
    with open_workspace(source) as workspace:
        copy = workspace.directory / "shared.md"
        assert not copy.is_symlink()
        copy.write_text("changed")
    assert (tmp_path / "shared.md").read_text() == "shared.md"


@pytest.mark.parametrize("target", ["/", "..", "/nowhere/at/all", "../gone"])
def test_a_link_to_anything_else_outside_is_refused(source, target):
    (source / "link").symlink_to(target)
    with pytest.raises(FarmError, match=r"link is a link to .* not in the workspace"), open_workspace(source):
        pass


def test_a_failed_copy_leaves_nothing_behind(source, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (source / "link").symlink_to("/")
    with pytest.raises(FarmError), open_workspace(source):
        pass
    assert list((tmp_path / "temporary").iterdir()) == []


def test_pipes_in_the_source_do_not_block_the_copy(source):
    os.mkfifo(source / "pipe")
    with open_workspace(source) as workspace:
        assert files_of(workspace.directory) == set()


@pytest.mark.parametrize("name", ["CLAUDE.md", "AGENTS.md"])
def test_instructions_above_the_workspace_are_refused(tmp_path, monkeypatch, name):
    (tmp_path / name).write_text("be different")
    (tmp_path / "below").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "below"))
    with pytest.raises(FarmError, match=name), open_workspace():
        pass
    assert list((tmp_path / "below").iterdir()) == []


def test_a_workspace_is_kept_when_asked_at_the_end():
    outcome = "passed"
    with open_workspace(keep=lambda: outcome == "failed") as workspace:
        outcome = "failed"
        write(workspace.directory, "evidence")
    assert (workspace.directory / "evidence").exists()
    subprocess.run(["rm", "-rf", workspace.root], check=True)


def test_a_workspace_is_removed_when_the_session_raises():
    with pytest.raises(KeyboardInterrupt), open_workspace() as workspace:
        raise KeyboardInterrupt
    assert not workspace.root.exists()


def test_closed_and_read_only_directories_are_removed():
    with open_workspace() as workspace:
        write(workspace.directory, "closed/deep/file", "read-only/file")
        (workspace.directory / "closed/deep").chmod(0)
        (workspace.directory / "closed").chmod(0)
        (workspace.directory / "read-only").chmod(0o500)
        workspace.directory.chmod(0o500)
    assert not workspace.root.exists()


def test_a_tree_too_deep_to_name_is_removed():
    with open_workspace() as workspace:
        make_deeper = "i=0; while [ $i -lt 60 ]; do mkdir $1; cd -P $1 || exit 1; i=$((i+1)); done"
        subprocess.run(
            ["sh", "-c", make_deeper, "sh", "d" * 100], cwd=workspace.directory, capture_output=True
        )
        workspace.changes()
    assert not workspace.root.exists()


def test_the_environment_has_the_workspace_and_what_was_asked_for_and_no_secret(monkeypatch):
    for name in ("FARM_BROKER_URL", "FARM_STORE_URL", "AWS_SECRET_ACCESS_KEY", "ANTHROPIC_API_KEY", "MY_VAR"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_TIME", "de_DE.UTF-8")
    monkeypatch.setenv("PATH", "/bin")
    with open_workspace() as workspace:
        env = workspace.environment({"GREETING": "hello"})

    assert "secret" not in env.values()
    assert env["HOME"] == str(workspace.home)
    assert env["TMPDIR"] == str(workspace.tmp)
    assert (env["PATH"], env["LC_TIME"], env["GREETING"], env["TERM"]) == (
        *("/bin", "de_DE.UTF-8", "hello", "dumb"),
    )


def test_changes_are_what_was_added_modified_and_deleted_since_the_files_were_remembered(source):
    write(source, "same", "edited", "gone", "sub/also-same")
    with open_workspace(source) as workspace:
        write(workspace.directory, "made-by-setup")
        workspace.remember_files()
        write(workspace.directory, "new", "deep/new")
        (workspace.directory / "edited").write_text("EDITED")
        (workspace.directory / "gone").unlink()
        changes = workspace.changes()

    assert changes.added == ("deep/new", "new")
    assert changes.modified == ("edited",)
    assert changes.deleted == ("gone",)


def test_a_write_of_the_same_size_that_sets_the_time_back_is_noticed(source):
    write(source, "file")
    with open_workspace(source) as workspace:
        path = workspace.directory / "file"
        before = path.stat()
        path.write_text("FILE")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert workspace.changes().modified == ("file",)


def test_a_touched_or_rewritten_file_with_the_same_content_is_not_a_change(source):
    write(source, "touched", "rewritten")
    with open_workspace(source) as workspace:
        (workspace.directory / "touched").touch()
        (workspace.directory / "rewritten").unlink()
        write(workspace.directory, "rewritten")
        assert workspace.changes().paths == ()


def test_executable_bits_links_and_kinds_are_part_of_what_can_change(source):
    write(source, "script", "becomes-link", "becomes-directory")
    (source / "link").symlink_to("script")
    with open_workspace(source) as workspace:
        here = workspace.directory
        (here / "script").chmod(0o755)
        (here / "link").unlink()
        (here / "link").symlink_to("elsewhere")
        (here / "becomes-link").unlink()
        (here / "becomes-link").symlink_to("script")
        (here / "becomes-directory").unlink()
        write(here, "becomes-directory/inner")
        os.mkfifo(here / "pipe")
        changes = workspace.changes()

    assert changes.modified == ("becomes-link", "link", "script")
    assert changes.added == ("becomes-directory/inner", "pipe")
    assert changes.deleted == ("becomes-directory",)


def test_links_to_directories_are_not_followed(tmp_path):
    write(tmp_path, "big/file")
    with open_workspace() as workspace:
        (workspace.directory / "link").symlink_to(tmp_path / "big")
        (workspace.directory / "loop").symlink_to(".")
        assert workspace.changes().added == ("link", "loop")


def test_what_git_keeps_for_itself_is_no_change(source):
    write(source, "file")
    with open_workspace(source) as workspace:
        git(workspace.directory, "init", "-q")
        git(workspace.directory, "add", ".")
        git(workspace.directory, "commit", "-qm", "first")
        assert workspace.changes().paths == ()


def test_names_that_are_no_utf8_are_given_in_printable_form():
    with open_workspace() as workspace:
        Path(os.fsdecode(os.fsencode(workspace.directory) + b"/bad-\xff-name")).touch()
        (workspace.directory / "grün").touch()
        assert workspace.changes().added == (r"bad-\xff-name", "grün")


def test_a_directory_that_was_made_unreadable_is_not_taken_for_deleted(source):
    write(source, "dir/kept", "dir/edited", "file")
    with open_workspace(source) as workspace:
        (workspace.directory / "dir/edited").write_text("new")
        (workspace.directory / "dir").chmod(0)
        (workspace.directory / "file").chmod(0)
        changes = workspace.changes()

    assert changes.modified == ("dir/edited",)
    assert changes.deleted == ()


def test_what_is_too_deep_to_look_at_is_a_change_all_the_same():
    with open_workspace() as workspace:
        dig_out_of_reach(workspace.directory)
        (change,) = workspace.changes().added
        assert set(change) == {"d", "/"}
        assert change.endswith("/")  # a directory, and what is in it nobody knows
        workspace.remember_files()
        assert workspace.changes().paths == ()


def test_a_file_whose_path_alone_is_too_long_is_a_change_by_its_name():
    with open_workspace() as workspace:
        bottom = dig_to_the_limit(workspace.directory, file="secret.lock")
        assert workspace.changes().added == (bottom,)


def test_a_deleted_workspace_has_lost_all_its_files(source):
    write(source, "a")
    with open_workspace(source) as workspace:
        subprocess.run(["rm", "-rf", workspace.directory], check=True)
        assert workspace.changes().deleted == ("a",)


names = st.sampled_from(["a", "b", "sub/c", "sub/d", "e"])
contents = st.dictionaries(names, st.binary(max_size=3))


@given(before=contents, after=contents)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_changes_are_the_difference_of_any_two_states(before, after):
    with open_workspace() as workspace:
        for state in (before, after):
            for name in before:
                (workspace.directory / name).unlink(missing_ok=True)
            for name, content in state.items():
                (workspace.directory / name).parent.mkdir(exist_ok=True)
                (workspace.directory / name).write_bytes(content)
            if state is before:
                workspace.remember_files()
        changes = workspace.changes()

    assert changes.added == tuple(sorted(after.keys() - before.keys()))
    assert changes.deleted == tuple(sorted(before.keys() - after.keys()))
    assert changes.modified == tuple(sorted(n for n in before.keys() & after.keys() if before[n] != after[n]))


def test_a_link_that_leads_in_a_circle_is_copied_as_it_is(source):
    (source / "a").symlink_to("b")
    (source / "b").symlink_to("a")
    with open_workspace(source) as workspace:
        assert files_of(workspace.directory) == {"a", "b"}


def test_half_a_workspace_is_never_kept(source, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    (source / "out").symlink_to("/usr")
    with (
        pytest.raises(FarmError, match="which is not in the workspace"),
        open_workspace(source, keep=lambda: True),
    ):
        pass
    assert list(scratch.iterdir()) == []
