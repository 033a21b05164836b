"""Where the broker is: a variable, or a file that a variable names."""

from __future__ import annotations

import re

import pytest

from farm.errors import UsageError
from farm.queue.broker import broker_from_environment
from farm.queue.broker_address import names_broker, url_from_environment
from farm.queue.embedded import has_broker


def test_a_file_is_as_good_as_a_variable(tmp_path):
    file = tmp_path / "broker_url"
    file.write_text("redis://:secret@host:6379/0\n")
    environment = {"FARM_BROKER_URL_FILE": str(file)}
    assert url_from_environment(environment) == "redis://:secret@host:6379/0"
    assert (
        url_from_environment({"FARM_BROKER_URL": "redis://host", "FARM_BROKER_URL_FILE": ""})
        == "redis://host"
    )
    broker = broker_from_environment(environment)
    assert broker is not None
    assert broker.url == "redis://:secret@host:6379/0"


def test_an_environment_that_names_none_has_none(monkeypatch):
    for environment in ({}, {"FARM_BROKER_URL": "", "FARM_BROKER_URL_FILE": ""}):
        assert not names_broker(environment)
        assert url_from_environment(environment) is None
        assert broker_from_environment(environment) is None
    monkeypatch.delenv("FARM_BROKER_URL", raising=False)
    monkeypatch.setenv("FARM_BROKER_URL_FILE", "/nowhere")
    assert has_broker()  # so that nobody gets an embedded engine for a typo


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "can't be read: No such file or directory"),
        (b"\xff\xfe", "can't be read: it is no text"),
        (b" \n", "is empty; it must hold a URL as FARM_BROKER_URL would"),
    ],
)
def test_a_file_that_holds_no_url_is_named(tmp_path, content, told):
    file = tmp_path / "broker_url"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(f"FARM_BROKER_URL_FILE={file}: {told}")):
        url_from_environment({"FARM_BROKER_URL_FILE": str(file)})


def test_two_brokers_are_one_too_many(tmp_path):
    file = tmp_path / "broker_url"
    file.write_text("redis://:secret@host")
    with pytest.raises(UsageError, match=r"are both set; one is enough") as caught:
        url_from_environment({"FARM_BROKER_URL": "redis://:hidden@host", "FARM_BROKER_URL_FILE": str(file)})
    assert "hidden" not in str(caught.value)
