from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from farm.agents import redaction
from farm.agents.redaction import Redaction
from farm.model.messages import Message, ToolCall
from farm.model.report import TrialReport
from farm.model.transcript import FileDiff, Transcript, WorkspaceChanges
from farm.sessions.removal import remove_tree


def test_a_secret_is_replaced_by_its_name_wherever_it_stands():
    redact = Redaction({"KEY": "sk-12345678"})
    assert redact(b"KEY=sk-12345678 and sk-12345678x") == b"KEY=[KEY] and [KEY]x"


def test_a_secret_is_found_as_json_writes_it():
    secret = 'pass"word\\größe\n'
    redact = Redaction({"KEY": secret})
    for ensure_ascii in (True, False):
        line = json.dumps({"output": f"it is {secret}!"}, ensure_ascii=ensure_ascii)
        assert json.loads(redact(line.encode())) == {"output": "it is [KEY]!"}


def test_a_longer_secret_is_not_cut_by_one_that_is_a_part_of_it():
    redact = Redaction({"SHORT": "12345678", "LONG": "xx12345678xx"})
    assert redact(b"xx12345678xx 12345678") == b"[LONG] [SHORT]"


def test_what_is_too_short_for_a_secret_is_left_as_it_is():
    assert Redaction({"KEY": "dummy", "NONE": ""})(b"a dummy text") == b"a dummy text"


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_a_secret_is_found_in_json_that_stands_in_json(ensure_ascii):
    secret = 'pass"word\\größe\n'
    text = secret
    for _ in range(3):
        text = json.dumps({"output": text}, ensure_ascii=ensure_ascii)
        assert "word" not in Redaction({"KEY": secret})(text.encode()).decode()


def test_a_record_comes_back_without_the_secret_and_else_as_it_was():
    redact = Redaction({"KEY": "sesame-sesame"})
    changes = WorkspaceChanges(added=("a", "it-is-sesame-sesame.txt"))
    assert redact.of_model(changes) == WorkspaceChanges(added=("a", "it-is-[KEY].txt"))
    clean = WorkspaceChanges(added=("a",))
    assert redact.of_model(clean) is clean


def calling(given: Any) -> Transcript:
    """A session that gave this to a tool."""
    call = ToolCall(tool="Bash", input=given)
    return Transcript(agent="a", output_messages=(Message(role="assistant", tool_calls=(call,)),))


def given_in(transcript: Transcript) -> Any:
    return next(transcript.tool_calls()).input


def test_digits_of_a_number_are_no_secret_but_the_whole_of_one_that_a_tool_was_given_is():
    redact = Redaction({"PIN": "12345678"})
    transcript = calling({"pin": 12345678, "12345678": [1123456789, 12345678.0, True, None]})
    transcript = transcript.model_copy(update={"duration_ms": 12345678.5, "num_turns": 12345678})
    clean = redact.of_model(transcript)
    assert given_in(clean) == {"pin": "[PIN]", "[PIN]": [1123456789, 12345678.0, True, None]}
    assert (clean.duration_ms, clean.num_turns) == (12345678.5, 12345678)
    unharmed = Transcript(agent="a", duration_ms=12345678.5)
    assert redact.of_model(unharmed) is unharmed


def test_half_a_surrogate_pair_hides_no_secret_and_breaks_no_record():
    transcript = calling({"\ud800": "\udc00 sesame-sesame", "sesame-sesame": "\ud800"})
    clean = Redaction({"KEY": "sesame-sesame"}).of_model(transcript)
    assert given_in(clean) == {"\ud800": "\udc00 [KEY]", "[KEY]": "\ud800"}
    assert Redaction({"KEY": "\ud800-sesame"}).of_model(transcript) == transcript


def test_names_of_fields_and_words_of_our_own_are_no_secrets():
    redact = Redaction({"A": "modified", "B": "retryable", "C": "duration", "D": "cancelled"})
    diff = FileDiff(path="modified", change="modified")
    assert redact.of_model(diff) == FileDiff(path="[A]", change="modified")
    report = TrialReport(trial=1, outcome="cancelled", output="a duration", duration_ms=1.0)
    assert redact.of_model(report) == report.model_copy(update={"output": "a [C]"})


@pytest.mark.parametrize(
    ("levels", "at_the_end"), [(120, "[KEY]"), (2000, "[nested too deep to be searched]")]
)
def test_a_secret_is_found_however_deep_it_lies_or_goes_with_all_that_is_so_deep(levels, at_the_end):
    given: Any = "sesame-sesame"
    for _ in range(levels):
        given = {"sesame-sesame": [given]}
    clean = given_in(Redaction({"KEY": "sesame-sesame"}).of_model(calling(given)))
    while isinstance(clean, dict | list):
        if isinstance(clean, dict):
            assert list(clean) == ["[KEY]"]
            clean = clean["[KEY]"]
        else:
            (clean,) = clean
    assert clean == at_the_end


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_a_secret_of_any_characters_is_found_in_a_record_as_often_as_it_was_put_into_json(
    levels, ensure_ascii
):
    for start in range(0, 0x300, 8):
        secret = text = "".join(map(chr, range(start, start + 8)))
        for _ in range(levels):
            text = json.dumps(text, ensure_ascii=ensure_ascii)[1:-1]
        clean = Redaction({"KEY": secret}).of_model(calling({"printed": f"it is {text}!"}))
        assert given_in(clean) == {"printed": "it is [KEY]!"}


class TestFiles:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "root"
        (root / "logs").mkdir(parents=True)
        return root

    def redact(self, root: Path) -> None:
        Redaction({"KEY": "sesame-sesame"}).of_files(root)

    def test_every_file_is_without_the_secret_afterwards(self, root):
        (root / "logs/session.jsonl").write_text('{"key": "sesame-sesame"}\n')
        (root / "logs/other").write_bytes(b"\xff\x00 untouched")
        self.redact(root)
        assert (root / "logs/session.jsonl").read_text() == '{"key": "[KEY]"}\n'
        assert (root / "logs/other").read_bytes() == b"\xff\x00 untouched"

    def test_what_a_link_leads_to_or_another_name_belongs_to_is_not_touched(self, root, tmp_path):
        outside = tmp_path / "outside"
        outside.write_text("sesame-sesame")
        (root / "link").symlink_to(outside)
        (root / "directory").symlink_to(tmp_path)
        (root / "name").hardlink_to(outside)
        self.redact(root)
        assert (root / "link").is_symlink()
        assert outside.read_text() == "sesame-sesame"
        assert (root / "name").read_text() == "[KEY]"

    def test_names_that_are_or_tell_the_secret_are_removed(self, root):
        (root / "logs/sesame-sesame").mkdir()
        (root / "sesame-sesame").write_text("x")
        (root / "link").symlink_to("sesame-sesame")
        self.redact(root)
        assert sorted(path.name for path in root.rglob("*")) == ["logs"]

    def test_what_can_not_be_searched_is_removed(self, root, monkeypatch):
        monkeypatch.setattr(redaction, "_MAX_FILE_BYTES", 100)
        (root / "large").write_text("x" * 101)
        os.mkfifo(root / "pipe")  # would block whoever reads it
        self.redact(root)
        assert sorted(path.name for path in root.iterdir()) == ["logs", "pipe"]

    def test_files_that_no_path_is_short_enough_for_are_without_the_secret_too(self, root):
        here = os.open(root, os.O_RDONLY)
        for _ in range(1100):
            os.mkdir("d" * 50, dir_fd=here)
            below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below

        def opened(name: str, flags: int) -> int:
            return os.open(name, flags, dir_fd=here)

        with open("file", "w", opener=opened) as file:
            file.write("it is sesame-sesame")
        os.mkdir("sesame-sesame", dir_fd=here)
        self.redact(root)
        with open("file", opener=opened) as file:
            assert file.read() == "it is [KEY]"
        assert os.listdir(here) == ["file"]
        os.close(here)
        assert remove_tree(root)  # pytest could not

    def test_what_can_neither_be_searched_nor_removed_is_told(self, root, monkeypatch):
        monkeypatch.setattr(redaction, "_MAX_FILE_BYTES", 100)
        monkeypatch.setattr(redaction, "remove_tree", lambda *_: False)  # as of a file that nobody may change
        (root / "logs/large").write_text("x" * 101)
        with pytest.raises(OSError, match="'logs' can be neither searched for secrets nor removed"):
            self.redact(root)
