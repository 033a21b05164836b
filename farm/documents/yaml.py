"""Turn YAML bytes into plain data that remembers the line and column of every key and value.

Hostile input is expected: duplicate keys, alias bombs, cycles, deep nesting, huge files and every tag
that is not plain data are problems with a position, never an exception of another kind.

Scalars follow the YAML 1.2 core schema, as both origins of our formats do: `no`, `on`, `1:30` and
`2025-01-01` are text. PyYAML's own rules (YAML 1.1) would turn them into False, True, 90 and a date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml._yaml import CParser
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from farm.errors import InputError, Problem

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
_USUAL_BYTES = 64 * 1024
# How much larger than its text a document may become when its aliases are written out.
MAX_ALIAS_FACTOR = 10
ALIAS_ALLOWANCE = 10_000

_TAG = "tag:yaml.org,2002:"
_STR, _INT, _FLOAT, _BOOL, _NULL = (_TAG + kind for kind in ("str", "int", "float", "bool", "null"))
_MERGE, _MAP, _SEQ = _TAG + "merge", _TAG + "map", _TAG + "seq"
_TEXT_TAGS = frozenset({_STR, _MERGE})

_INT_TEXT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT_TEXT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NUMBER_START = frozenset("+-.0123456789")
_WORDS = {
    "": (_NULL, None),
    "~": (_NULL, None),
    "null": (_NULL, None),
    "Null": (_NULL, None),
    "NULL": (_NULL, None),
    "true": (_BOOL, True),
    "True": (_BOOL, True),
    "TRUE": (_BOOL, True),
    "false": (_BOOL, False),
    "False": (_BOOL, False),
    "FALSE": (_BOOL, False),
    "<<": (_MERGE, None),
}

KeyPath = Sequence[str | int]


class Document:
    """One YAML document: its data, and where each part of it stands in its file."""

    def __init__(self, file: str, data: Any, node: Node | None) -> None:
        self.file = file
        self.data = data
        self._node = node
        self._entries: dict[int, dict[str, tuple[Node, Node]]] = {}  # of mappings that were asked for

    def position(self, path: KeyPath, *, of_key: bool = False) -> tuple[int, int]:
        """Give line and column, from 1, of the value at a path, or as near to it as the path leads."""
        if self._node is None:
            return 1, 1
        node, mark = self._node, self._node.start_mark
        for at, step in enumerate(path):
            found = self._child(node, step)
            if found is None:
                break
            key_node, node = found
            last = at == len(path) - 1
            mark = key_node.start_mark if last and of_key and key_node is not None else node.start_mark
        return mark.line + 1, mark.column + 1

    def problem(self, path: KeyPath, message: str, *, of_key: bool = False) -> Problem:
        """Make a problem of the value (or key) at a path."""
        line, column = self.position(path, of_key=of_key)
        return Problem(self.file, line, column, message)

    def _child(self, node: Node, step: str | int) -> tuple[Node | None, Node] | None:
        if isinstance(node, SequenceNode):
            inside = isinstance(step, int) and step < len(node.value)
            return (None, node.value[step]) if inside else None
        # Not recursive: the mappings that a mapping merges may merge others, thousands in a row.
        pending = [node]
        while pending:
            mapping = pending.pop()
            if isinstance(mapping, MappingNode):
                if found := self._own_entries(mapping).get(str(step)):
                    return found
                pending.extend(reversed(list(_merge_sources(mapping))))
        return None

    def _own_entries(self, node: MappingNode) -> dict[str, tuple[Node, Node]]:
        # Kept: a file with ten thousand unknown keys has a position to find for each of them.
        if id(node) not in self._entries:
            self._entries[id(node)] = {
                key_node.value: (key_node, value_node)
                for key_node, value_node in node.value
                if key_node.tag != _MERGE
            }
        return self._entries[id(node)]


def read_bytes(path: Path, file: str) -> bytes:
    """Read a file whole; a file that can't be read, or is too large, is an InputError."""
    try:
        with path.open("rb") as stream:
            # A read of the largest size makes a buffer of it first, and takes longer than reading the file.
            data = stream.read(_USUAL_BYTES)
            if len(data) == _USUAL_BYTES:
                data += stream.read(MAX_BYTES + 1 - _USUAL_BYTES)
    except OSError as error:
        raise InputError([Problem(file, 1, 1, f"can't be read: {error.strerror or error}")]) from None
    if len(data) > MAX_BYTES:
        raise InputError([Problem(file, 1, 1, f"is larger than {MAX_BYTES // 2**20} MiB; split it")])
    return data


def decode_text(data: bytes, file: str) -> str:
    """Decode a file's bytes as UTF-8, or raise an InputError that names the first wrong byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        what = f"is not UTF-8 text (byte 0x{data[error.start]:02x}); is it a binary file?"
        raise InputError([Problem(file, line, column, what)]) from None


def parse_yaml(text: str, file: str) -> list[Document]:
    """Parse the documents of a YAML text; an empty text has none."""
    documents = []
    parser = _Parser(text)
    try:
        while parser.check_node():
            node = parser.get_node()
            assert node is not None
            documents.append(Document(file, _Builder(file, node).build(node), node))
    except yaml.MarkedYAMLError as error:
        raise InputError([_syntax_problem(error, file)]) from None
    except yaml.reader.ReaderError as error:
        raise InputError([_character_problem(error, text, file)]) from None
    except _TooDeep as error:
        raise InputError(
            [Problem(file, error.line, 1, f"is nested deeper than {MAX_DEPTH} levels")]
        ) from None
    return documents


class _TooDeep(Exception):  # noqa: N818 — a signal within this module
    def __init__(self, line: int) -> None:
        self.line = line


class _Parser(CParser):
    """libyaml's composer with our own idea of scalars, and a floor under its recursion.

    The composer calls back once on the way into each node: without a limit there, 50,000 opening
    brackets overflow the C stack and kill the process.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def descend_resolver(self, parent: Node | None, _index: Any) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _TooDeep(parent.start_mark.line + 1 if parent is not None else 1)

    def ascend_resolver(self) -> None:
        self._depth -= 1

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> str:
        if kind is not ScalarNode:
            return _MAP if kind is MappingNode else _SEQ
        if not implicit[0] or value is None:
            return _STR
        if word := _WORDS.get(value):
            return word[0]
        if value[0] in _NUMBER_START:
            if _INT_TEXT.fullmatch(value):
                return _INT
            if _FLOAT_TEXT.fullmatch(value):
                return _FLOAT
        return _STR


class _Builder:
    """Builds plain data from one document's nodes."""

    def __init__(self, file: str, root: Node) -> None:
        self._file = file
        # Of this document's own text: else each of many small ones might grow as large as the whole file.
        self._limit = ALIAS_ALLOWANCE + MAX_ALIAS_FACTOR * (root.end_mark.index - root.start_mark.index)
        self._merged = 0  # how many entries "<<" has copied
        self._built: dict[int, tuple[Any, int]] = {}  # an alias is the same node again
        self._open: set[int] = set()

    def build(self, node: Node) -> Any:
        return self._build(node)[0]

    def _build(self, node: Node) -> tuple[Any, int]:
        """Give a node's data, and how many nodes it has when its aliases are written out."""
        if type(node) is ScalarNode:
            return self._scalar(node), 1
        key = id(node)
        if key in self._built:
            return self._built[key]
        if key in self._open:
            raise self._error(node, "is an alias of something that it is itself part of")
        self._open.add(key)
        built = self._mapping(node) if isinstance(node, MappingNode) else self._sequence(node)
        if built[1] > self._limit:
            raise self._error(node, "grows beyond all measure when its aliases are written out")
        self._open.discard(key)
        self._built[key] = built
        return built

    def _sequence(self, node: Node) -> tuple[list[Any], int]:
        if node.tag != _SEQ:
            raise self._error(node, f"has the tag {_shown(node.tag)}; only plain data is allowed")
        items, size = [], 1
        for child in node.value:
            item, item_size = self._build(child)
            items.append(item)
            size += item_size
        return items, size

    def _mapping(self, node: MappingNode) -> tuple[dict[str, Any], int]:
        if node.tag != _MAP:
            raise self._error(node, f"has the tag {_shown(node.tag)}; only plain data is allowed")
        data: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        size = 1
        for key_node, value_node in node.value:
            if type(key_node) is not ScalarNode:
                raise self._error(key_node, "a key must be a single word or text")
            value, value_size = self._build(value_node)
            size += value_size
            if key_node.tag == _MERGE:
                self._merge(value_node, value, merged)
                continue
            key = key_node.value
            if key in data:
                raise self._error(key_node, f'duplicate key "{_shown(key)}"')
            data[key] = value
        return ({**merged, **data} if merged else data), size

    def _merge(self, node: Node, value: Any, merged: dict[str, Any]) -> None:
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise self._error(node, '"<<" merges mappings only')
            self._merged += len(source)
            if self._merged > self._limit:
                raise self._error(node, "grows beyond all measure when its aliases are written out")
            for key, item in source.items():
                merged.setdefault(key, item)

    def _scalar(self, node: ScalarNode) -> Any:
        tag, text = node.tag, node.value
        if tag in _TEXT_TAGS:
            return text
        if tag in (_NULL, _BOOL) and text in _WORDS and _WORDS[text][0] == tag:
            return _WORDS[text][1]
        if tag == _INT and _INT_TEXT.fullmatch(text):
            return self._whole_number(node, text)
        if tag == _FLOAT and _FLOAT_TEXT.fullmatch(text):
            return self._decimal_number(node, text)
        raise self._error(node, f"has the tag {_shown(tag)}; only plain data is allowed")

    def _whole_number(self, node: Node, text: str) -> int:
        # Longer than any 64-bit number is: no number at all in JSON, and slow to convert.
        value = int(text, 0 if text[:2] in ("0o", "0x") else 10) if len(text) <= 20 else 2**64
        if not -(2**63) <= value < 2**63:
            raise self._error(node, "is too large a number; write it as text, in quotes")
        return value

    def _decimal_number(self, node: Node, text: str) -> float:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise self._error(node, "is too large a number; write it as text, in quotes")
        return value

    def _error(self, node: Node, message: str) -> InputError:
        mark = node.start_mark
        return InputError([Problem(self._file, mark.line + 1, mark.column + 1, message)])


def _merge_sources(node: MappingNode) -> Iterator[Node]:
    for key_node, value_node in node.value:
        if key_node.tag == _MERGE:
            yield from value_node.value if isinstance(value_node, SequenceNode) else (value_node,)


def _syntax_problem(error: yaml.MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    what = ": ".join(part for part in (error.context, error.problem) if part)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return Problem(file, line, column, f"not valid YAML: {_shown(what)}")


def _character_problem(error: yaml.reader.ReaderError, text: str, file: str) -> Problem:
    at = next((i for i, char in enumerate(text) if _refused(char)), 0)
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return Problem(file, line, column, f"not valid YAML: {_shown(error.reason)} ({text[at : at + 1]!r})")


def _refused(char: str) -> bool:
    """Say whether YAML has no place for this character, as libyaml sees it."""
    code = ord(char)
    return not (
        char in "\t\n\r\x85"
        or 0x20 <= code <= 0x7E
        or 0xA0 <= code <= 0xD7FF
        or (0xE000 <= code <= 0xFFFD and code != 0xFEFF)
        or code >= 0x10000
    )


def _shown(text: str, limit: int = 80) -> str:
    """Make hostile text fit for a one-line message."""
    line = text if text.isprintable() else text.encode("unicode_escape").decode()
    return line if len(line) <= limit else line[:limit] + "…"
