"""What a session changed, as patches."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from farm.model.transcript import FileDiff
from farm.sessions import workspace_diff
from farm.sessions.workspace import Workspace, open_workspace


def unchanged(content: bytes) -> bytes:
    return content


def diffs_of(
    workspace: Workspace, source: Path, redact: Callable[[bytes], bytes] = unchanged
) -> dict[str, FileDiff]:
    """Give the diffs of a workspace that was filled from a directory."""

    def original(path: str) -> bytes | None:
        return workspace_diff.read_plain_file(source / path)

    return {diff.path: diff for diff in workspace.diff(workspace.changes(), original, redact)}


def applied(patch: str, old: str) -> str:
    """Apply a patch, as `patch` would."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", old)
    new: list[str] = []
    at = 0
    for hunk in re.split(r"^(?=@@ )", patch, flags=re.MULTILINE)[1:]:
        head, _, body = hunk.partition("\n")
        numbers = re.fullmatch(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@", head)
        assert numbers is not None
        begin, length = int(numbers[1]), int(numbers[2])
        begin -= 1 if length else 0
        new += lines[at:begin]
        at = begin + length
        added = re.sub(r"^([ +-].*)\n\\ No newline at end of file$", r"\1\0", body, flags=re.MULTILINE)
        kept = [line for line in added.split("\n")[:-1] if line[0] in " +"]
        removed = [line for line in added.split("\n")[:-1] if line[0] in " -"]
        assert [f"{line[1:]}\n".replace("\0\n", "") for line in removed] == lines[begin:at]
        assert len(kept) == int(numbers[4])
        new += [f"{line[1:]}\n".replace("\0\n", "") for line in kept]
    return "".join(new + lines[at:])


TEXTS = st.tuples(st.lists(st.sampled_from("abcdefghij"), max_size=40), st.booleans()).map(
    lambda drawn: "\n".join(drawn[0]) + ("\n" if drawn[0] and drawn[1] else "")
)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_a_patch_turns_what_was_into_what_is(old, new):
    differ = workspace_diff._Differ(None, Path(), lambda _: None, unchanged)  # type: ignore[arg-type]
    patch = "".join(differ._patch(differ._lines(old.encode()), differ._lines(new.encode())))
    assert applied(patch, old) == new


def test_each_change_is_shown_as_a_patch_or_said_why_not(source):
    (source / "kept.txt").write_text("as it was\n")
    (source / "edited.txt").write_text("".join(f"{number}\n" for number in range(1, 21)))
    (source / "gone.txt").write_text("bye\n")
    (source / "image").write_bytes(b"\x89\0\1")
    (source / "tool.sh").write_text("true\n")
    (source / "link").symlink_to("kept.txt")
    with open_workspace(source) as workspace:
        here = workspace.directory
        (here / "edited.txt").write_text((source / "edited.txt").read_text().replace("10\n", "ten\n"))
        (here / "gone.txt").unlink()
        (here / "image").write_bytes(b"\x89\0\2")
        (here / "new.txt").write_text("hello")
        (here / "empty").touch()
        (here / "latin").write_bytes(b"\xff")
        (here / "large").write_text("x" * 300_000)
        (here / "tool.sh").chmod(0o755)
        (here / "link").unlink()
        (here / "link").symlink_to("new.txt")
        found = diffs_of(workspace, source)
    patches = {path: diff.patch for path, diff in found.items() if diff.patch}
    assert patches == {
        "edited.txt": "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n",
        "gone.txt": "@@ -1,1 +0,0 @@\n-bye\n",
        "new.txt": "@@ -0,0 +1,1 @@\n+hello\n\\ No newline at end of file\n",
    }
    assert {path: diff.note for path, diff in found.items() if diff.note} == {
        "empty": "empty",
        "image": "binary",
        "large": "too large, or not a plain file",
        "latin": "binary",
        "link": "not a plain file",
        "tool.sh": "the same content",
    }
    assert (found["new.txt"].change, found["gone.txt"].change) == ("added", "deleted")


def test_a_session_starts_where_the_setup_ended(source):
    (source / "a.txt").write_text("one\n")
    with open_workspace(source) as workspace:
        (workspace.directory / "a.txt").write_text("two\n")
        (workspace.directory / "b.txt").write_text("made\n")
        workspace.remember_files()
        (workspace.directory / "a.txt").write_text("three\n")
        (workspace.directory / "b.txt").unlink()
        found = diffs_of(workspace, source)
    assert found["a.txt"].patch == "@@ -1,1 +1,1 @@\n-two\n+three\n"
    assert found["b.txt"].patch == "@@ -1,1 +0,0 @@\n-made\n"


def test_what_has_become_another_since_is_not_taken_for_the_original(source):
    (source / "a.txt").write_text("one\n")
    with open_workspace(source) as workspace:
        (workspace.directory / "a.txt").write_text("two\n")
        (source / "a.txt").write_text("another\n")
        (diff,) = diffs_of(workspace, source).values()
    assert (diff.patch, diff.note) == (None, "what it was before is not kept")


def test_a_secret_is_taken_out_before_lines_are_compared(source):
    def redact(content: bytes) -> bytes:
        return content.replace(b"first line\nsecond line", b"[KEY]")

    with open_workspace(source) as workspace:
        (workspace.directory / "a.txt").write_text("key: first line\nsecond line\n")
        (diff,) = diffs_of(workspace, source, redact).values()
    assert diff.patch == "@@ -0,0 +1,1 @@\n+key: [KEY]\n"


def test_there_is_an_end_to_what_is_shown(source, monkeypatch):
    monkeypatch.setattr(workspace_diff, "_MAX_PATCH_CHARACTERS", 100)
    monkeypatch.setattr(workspace_diff, "MAX_TOTAL_CHARACTERS", 150)
    with open_workspace(source) as workspace:
        for name in ("a", "b", "c"):
            (workspace.directory / name).write_text("a line\n" * 100)
        found = diffs_of(workspace, source)
    sizes = [len(diff.patch or "") for diff in found.values()]
    assert sizes[0] <= 100
    assert 0 < sizes[1] <= 50
    assert sizes[2] == 0
    assert found["a"].note == "90 more lines are left out"
    assert found["c"].note == "too many changes to show them all"


def test_files_that_have_nothing_in_common_are_not_compared_for_long(source, monkeypatch):
    monkeypatch.setattr(workspace_diff, "_MAX_EFFORT", 10)
    (source / "a").write_text("same\n1\n2\n3\n4\nend\n")
    with open_workspace(source) as workspace:
        (workspace.directory / "a").write_text("same\n4\n3\n2\n1\nend\n")
        (diff,) = diffs_of(workspace, source).values()
    assert diff.patch == "@@ -1,6 +1,6 @@\n same\n-1\n-2\n-3\n-4\n+4\n+3\n+2\n+1\n end\n"
