"""What a signature covers, and what is refused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from farm.errors import UsageError
from farm.queue import signing
from farm.queue.broker import broker_from_environment
from farm.queue.signing import SignatureError, Signer, digest_of, signer_from_environment, unsigned

KEY = "0123456789abcdef" * 2
OURS = Signer(KEY.encode())
DAY_MS = 24 * 3600 * 1000


def test_what_was_signed_is_given_back():
    for row in (b"", b"{}", b"a:b:c", b"signed:x", bytes(range(256))):
        signed = OURS.sign(row, "plan", "run", "case")
        assert signed != row
        assert OURS.open(signed, "plan", "run", "case") == row
        assert OURS.open_to_carry_out(signed, "plan", "run", "case") == row
        assert unsigned(signed) == row


def test_a_signature_is_good_for_one_place_only():
    signed = OURS.sign(b"row", "plan", "run", "case")
    others = [
        ("result", "run", "case"),
        ("plan", "run2", "case"),
        ("plan", "run", "case2"),
        ("plan", "run", "case", "1"),
        ("plan", "run", "", "case"),
        ("plan", "runcase", ""),
        ("plan", "ru", "ncase"),
    ]
    for other in others:
        with pytest.raises(SignatureError, match="wrong signature"):
            OURS.open(signed, *other)


def test_every_changed_byte_is_noticed():
    signed = OURS.sign(b"row", "plan", "run")
    for at in range(len(signed)):
        changed = signed[:at] + bytes([signed[at] ^ 1]) + signed[at + 1 :]
        with pytest.raises(SignatureError):
            OURS.open(changed, "plan", "run")
    for cut in range(len(signed)):
        with pytest.raises(SignatureError):
            OURS.open(signed[:cut], "plan", "run")


def test_what_is_not_signed_is_refused_by_who_has_a_key():
    with pytest.raises(SignatureError, match="is not signed") as caught:
        OURS.open(b"row", "plan", "run")
    assert (caught.value.kind, caught.value.elsewhere) == ("unsigned", False)


def test_another_key_is_told_from_a_forged_signature():
    theirs = Signer(b"another key, which is long enough too")
    with pytest.raises(SignatureError, match="signed with another FARM_SIGNING_KEY") as caught:
        OURS.open(theirs.sign(b"row", "plan", "run"), "plan", "run")
    assert caught.value.elsewhere
    assert theirs.key_id != OURS.key_id
    assert len(OURS.key_id) == 12


def test_without_a_key_nothing_changes_and_nothing_signed_is_carried_out():
    nobody = Signer()
    assert nobody.key_id == ""
    assert nobody.sign(b"row", "plan", "run") == b"row"
    assert nobody.open_to_carry_out(b"row", "plan", "run") == b"row"
    signed = OURS.sign(b"row", "plan", "run")
    assert nobody.open(signed, "plan", "run") == b"row"
    with pytest.raises(SignatureError, match="this worker has no FARM_SIGNING_KEY") as caught:
        nobody.open_to_carry_out(signed, "plan", "run")
    assert caught.value.elsewhere


@pytest.mark.parametrize("days", [-8, 8])
def test_what_was_signed_long_ago_can_be_read_and_not_carried_out(monkeypatch, days):
    signed = OURS.sign(b"row", "plan", "run")
    monkeypatch.setattr(signing, "_now_ms", lambda: time.time_ns() // 1_000_000 + days * DAY_MS)
    assert OURS.open(signed, "plan", "run") == b"row"
    with pytest.raises(SignatureError, match="more than 7 days ago") as caught:
        OURS.open_to_carry_out(signed, "plan", "run")
    assert caught.value.kind == "expired"
    patient = Signer(OURS.key, max_age_ms=30 * DAY_MS)
    assert patient.open_to_carry_out(signed, "plan", "run") == b"row"


def test_an_embedded_engine_needs_no_key_and_takes_none():
    environment = {"FARM_BROKER_URL": "unix:///tmp/s", "FARM_SIGNING_KEY": KEY}
    fleet = broker_from_environment(environment)
    embedded = broker_from_environment({**environment, "FARM_EMBEDDED": "1"})
    assert fleet is not None
    assert embedded is not None
    assert (fleet.signer, embedded.signer) == (OURS, Signer())
    assert KEY not in repr(fleet)


def test_a_set_of_names_has_one_digest_in_any_order():
    assert digest_of(["a", "b"]) == digest_of(["b", "a"])
    assert len({digest_of(names) for names in ([], ["a"], ["a", "b"], ["ab"], ["a", "b", ""])}) == 5


def test_the_key_comes_from_the_environment_or_a_file(tmp_path: Path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    told = signer_from_environment({"FARM_SIGNING_KEY": KEY})
    assert told == OURS
    assert signer_from_environment({"FARM_SIGNING_KEY_FILE": str(file)}) == OURS
    assert signer_from_environment({}).key == b""
    assert (
        signer_from_environment({"FARM_SIGNING_KEY": KEY, "FARM_SIGNING_DAYS": "0.5"}).max_age_ms
        == DAY_MS / 2
    )
    assert KEY not in repr(told)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"FARM_SIGNING_KEY": "short-secret"}, "at least 32 characters, this one 12"),
        ({"FARM_SIGNING_KEY": ""}, "at least 32 characters"),
        ({"FARM_SIGNING_KEY": KEY, "FARM_SIGNING_KEY_FILE": "x"}, "both set"),
        ({"FARM_SIGNING_KEY_FILE": "/nonexistent/key"}, "can't be read: No such file"),
        ({"FARM_SIGNING_KEY_FILE": "/dev/null"}, "FARM_SIGNING_KEY_FILE: a key has at least"),
        ({"FARM_SIGNING_KEY": KEY, "FARM_SIGNING_DAYS": "soon"}, "FARM_SIGNING_DAYS"),
        ({"FARM_SIGNING_KEY": KEY, "FARM_SIGNING_DAYS": "-1"}, "FARM_SIGNING_DAYS"),
    ],
)
def test_a_key_that_is_none_is_refused_and_not_shown(environment, said):
    with pytest.raises(UsageError, match=said) as caught:
        signer_from_environment(environment)
    assert "secret" not in str(caught.value)
    assert KEY not in str(caught.value)
