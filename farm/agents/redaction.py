"""Take secrets out of what a session left, before anybody keeps or shows it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal, TypeVar, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel

from farm.model.agent import AgentBase
from farm.model.suite import Case
from farm.sessions.removal import remove_tree, walk_tree
from farm.sessions.workspace import PROXY_VARIABLES

# What is shorter is no secret, and would be found in the middle of words.
MIN_SECRET_LENGTH = 8

_MAX_FILE_BYTES = 64 * 2**20
_MAX_DEPTH = 270  # of the values in a record: what is deeper, nobody could write down
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
        found: dict[str, str] = {}
        for name, value in secrets.items():
            if len(value) >= MIN_SECRET_LENGTH:
                for text in _spellings(value):
                    found[text] = f"[{name}]"
        # The longer first: one secret may be a part of another.
        self._marks = sorted(found.items(), key=lambda item: -len(item[0]))
        self._byte_marks = [(_bytes_of(text), mark.encode()) for text, mark in self._marks]
        self._searched = {_bytes_of(_json_of(text)) for text in found}

    def __bool__(self) -> bool:
        """Say whether there is anything to take out."""
        return bool(self._marks)

    def __call__(self, content: bytes) -> bytes:
        """Give the content without the secrets."""
        for secret, mark in self._byte_marks:
            content = content.replace(secret, mark)
        return content

    def of_model(self, model: _Model) -> _Model:
        """Give a record without the secrets, the same one if it has none; never fails, whatever is in it.

        Replaces them in its texts, not in its JSON: there digits may be a part of a number, and letters of a
        field's name.
        """
        return self._of_fields(model, 0) if self and self._may_be_in(model) else model

    def of_files(self, root: Path) -> None:
        """Take the secrets out of all that is below a directory; what can't be searched is removed.

        Raises an OSError if something can be neither searched nor removed. To be called when the session is
        over: nobody may be left to put a link in a file's place.
        """
        if self:
            walk_tree(root, self._clean_directory, _leave_as_it_is, _remove)

    def _may_be_in(self, model: BaseModel) -> bool:
        """Say whether each text is worth a look: to search all of them at once is several times faster."""
        try:
            content = model.model_dump_json().encode()
        except ValueError:  # half a surrogate pair, or nested too deep
            return True
        return any(secret in content for secret in self._searched)

    def _of_fields(self, model: _Model, depth: int) -> _Model:
        words, numbers = _fields_of(type(model))
        update = {}
        for name, value in vars(model).items():
            if name in words or (name in numbers and isinstance(value, int | float)):
                continue
            clean = self._of_value(value, depth + 1)
            if clean != value:
                update[name] = clean
        return model.model_copy(update=update) if update else model

    def _of_value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            for secret, mark in self._marks:
                value = value.replace(secret, mark)
        elif isinstance(value, int | float):  # in what has any shape, a text may stand in its place
            return next((mark for secret, mark in self._marks if secret == str(value)), value)
        elif isinstance(value, BaseModel | dict | list | tuple) and depth > _MAX_DEPTH:
            return "[nested too deep to be searched]"
        elif isinstance(value, BaseModel):
            return self._of_fields(value, depth)
        elif isinstance(value, dict):
            below = depth + 1
            return {self._of_value(key, below): self._of_value(item, below) for key, item in value.items()}
        elif isinstance(value, list | tuple):
            items = [self._of_value(item, depth + 1) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return value

    def _clean_directory(self, directory: int) -> list[str]:
        """Clean what is in an open directory; name the directories in it."""
        with os.scandir(directory) as scanned:
            entries = list(scanned)
        names = []
        for entry in entries:
            try:
                is_clean = self._is_clean(directory, entry.name)
            except OSError:
                is_clean = False
            if not is_clean:
                _remove(directory, entry.name)
            elif entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
        return names

    def _is_clean(self, directory: int, name: str) -> bool:
        """Say whether something has no secret in its name or its link, and none in its content any more."""
        mode = os.lstat(name, dir_fd=directory).st_mode
        told = os.fsencode(name)
        if stat.S_ISLNK(mode):
            told += b"\0" + os.fsencode(os.readlink(name, dir_fd=directory))
        if self(told) != told:
            return False
        if not stat.S_ISREG(mode):
            return True
        with _open_file(name, directory, os.O_RDONLY) as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        clean = self(content)
        if clean != content and len(content) <= _MAX_FILE_BYTES:
            os.unlink(name, dir_fd=directory)  # not written over: another name of the file may lie elsewhere
            with _open_file(name, directory, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
                file.write(clean)
        return len(content) <= _MAX_FILE_BYTES


def _open_file(name: str, directory: int, flags: int) -> IO[bytes]:
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666, dir_fd=directory)
    return os.fdopen(descriptor, "rb" if flags == os.O_RDONLY else "wb")


def _remove(directory: int, name: str) -> None:
    if not remove_tree(name, directory):
        raise OSError(f"{name!r} can be neither searched for secrets nor removed")


def _leave_as_it_is(_directory: int, _name: str) -> None:
    """All of it has been searched."""


@cache
def _fields_of(kind: type[BaseModel]) -> tuple[frozenset[str], frozenset[str]]:
    """Name the fields of a model that hold a word of ours, and those whose numbers must stay numbers."""
    annotations = {name: field.annotation for name, field in kind.model_fields.items()}
    words = frozenset(name for name, annotation in annotations.items() if get_origin(annotation) is Literal)
    numbers = frozenset(name for name, annotation in annotations.items() if annotation is not Any)
    return words, numbers


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair, which no file can have
        return text.encode(errors="surrogatepass")


def _json_of(text: str, *, ensure_ascii: bool = False) -> str:
    return json.dumps(text, ensure_ascii=ensure_ascii)[1:-1]


def _spellings(value: str) -> Iterator[str]:
    for ensure_ascii in (False, True):
        text = value
        for _ in range(_JSON_IN_JSON + 1):
            yield text
            text = _json_of(text, ensure_ascii=ensure_ascii)
