"""Take secrets out of what a session left, before anybody keeps or shows it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel

from farm.model.agent import AgentBase
from farm.model.suite import Case
from farm.sessions.removal import remove_tree
from farm.sessions.workspace import PROXY_VARIABLES

# What is shorter is no secret, and would be found in the middle of words.
MIN_SECRET_LENGTH = 8

_MAX_FILE_BYTES = 64 * 2**20
_JSON_IN_JSON = (
    3  # a tool that prints JSON stands in a stream's line as a string, and that in a log as another
)

_Model = TypeVar("_Model", bound=BaseModel)


def secrets_of(spec: AgentBase, case: Case) -> dict[str, str]:
    """Give the secrets that a session has, by name: the worker's own, if no file has another."""
    environment = {**os.environ, **spec.env, **case.env}
    return {name: environment[name] for name in getattr(spec, "secrets", ()) if name in environment}


def redaction_of(spec: AgentBase, case: Case) -> Redaction:
    """Give what takes out all that a session can know and nobody else should: its secrets, and a proxy's."""
    return Redaction({**_proxy_passwords(), **secrets_of(spec, case)})


def _proxy_passwords() -> dict[str, str]:
    """Give those that are in the addresses which every session inherits, by the variable."""
    found = {}
    for name in PROXY_VARIABLES:
        with suppress(ValueError):  # no address at all
            if password := urlsplit(os.environ.get(name, "")).password:
                found[name] = password
    return found


class Redaction:
    """Puts a mark in the place of each secret, as it is and as JSON writes it."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Take the names and values of environment variables."""
        found: dict[bytes, bytes] = {}
        for name, value in secrets.items():
            if len(value) >= MIN_SECRET_LENGTH:
                for text in _spellings(value):
                    found[text.encode(errors="surrogateescape")] = f"[{name}]".encode()
        # The longer first: one secret may be a part of another.
        self._marks = sorted(found.items(), key=lambda item: -len(item[0]))

    def __bool__(self) -> bool:
        """Say whether there is anything to take out."""
        return bool(self._marks)

    def __call__(self, content: bytes) -> bytes:
        """Give the content without the secrets."""
        for secret, mark in self._marks:
            content = content.replace(secret, mark)
        return content

    def of_model(self, model: _Model) -> _Model:
        """Give a record without the secrets."""
        if not self:
            return model
        content = model.model_dump_json().encode()
        clean = self(content)
        return model if clean == content else type(model).model_validate_json(clean)

    def of_files(self, root: Path) -> None:
        """Take the secrets out of all that is below a directory; what can't be searched is removed.

        To be called when the session is over: nobody may be left to put a link in a file's place.
        """
        waiting = [root] if self else []
        while waiting:
            path = waiting.pop()
            try:
                if path.is_dir() and not path.is_symlink():
                    waiting.extend(path.iterdir())
                is_clean = self._is_clean(path)
            except OSError:
                is_clean = False
            if not is_clean:
                remove_tree(path)

    def _is_clean(self, path: Path) -> bool:
        """Say whether something has no secret in its name or its link, and none in its content any more."""
        name = os.fsencode(path.name)
        if path.is_symlink():
            name += b"\0" + os.fsencode(path.readlink())
        if self(name) != name:
            return False
        if path.is_symlink() or not path.is_file():
            return True
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        clean = self(content)
        if clean != content and len(content) <= _MAX_FILE_BYTES:
            path.unlink()  # not written over: another name of the file may lie elsewhere
            path.write_bytes(clean)
        return len(content) <= _MAX_FILE_BYTES


def _spellings(value: str) -> Iterator[str]:
    for ensure_ascii in (False, True):
        text = value
        for _ in range(_JSON_IN_JSON + 1):
            yield text
            text = json.dumps(text, ensure_ascii=ensure_ascii)[1:-1]
