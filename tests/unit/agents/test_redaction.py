from __future__ import annotations

import json

from farm.agents.redaction import Redaction


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
