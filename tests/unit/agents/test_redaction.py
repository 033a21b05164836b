from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from farm.agents import redaction
from farm.agents.redaction import Redaction
from farm.model.transcript import WorkspaceChanges


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
