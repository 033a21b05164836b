"""Turn a bundle back into a directory, or into nothing if it is not exactly the bundle that was asked for.

The archive is hostile until its id is verified, and that is known only at its end. So it is read by this
small parser, not by `tarfile`: that takes a header of any size into memory, and sparse files, and more.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tarfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import zstandard

from farm.errors import FarmError
from farm.sessions.bundle import BLOCK_BYTES, DEFAULT_MAX_BYTES, DEFAULT_MAX_ENTRIES, MAX_PATH_BYTES

# zstd makes at most 128 KiB of 4 bytes: so little at a time can't become more than 8 MiB.
_COMPRESSED_CHUNK_BYTES = 256
_MAX_WINDOW_BYTES = 8 * 2**20
_CHUNK_BYTES = 256 * 1024
_MAX_EXTENDED_HEADER_BYTES = 16 * 1024
_MAX_NAME_BYTES = 255

_KINDS_REFUSED = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
}
_MODES = {
    tarfile.REGTYPE: (0o644, 0o755),
    tarfile.DIRTYPE: (0o755,),
    tarfile.SYMTYPE: (0o777,),
}


class CorruptBundleError(FarmError):
    """An archive that is damaged, or is not what its id says, or holds what no bundle may hold."""

    exit_code = 3


@dataclass(frozen=True)
class UnpackLimits:
    """How much a bundle may become."""

    max_bytes: int = DEFAULT_MAX_BYTES  # of the uncompressed archive
    max_entries: int = DEFAULT_MAX_ENTRIES
    max_path_bytes: int = MAX_PATH_BYTES


@dataclass(frozen=True)
class _Member:
    name: str
    type: bytes
    size: int
    mode: int
    link_target: str


def unpack_bundle(
    archive: IO[bytes] | Path, target: Path, *, expected_id: str, limits: UnpackLimits | None = None
) -> None:
    """Unpack into `target`, which does not exist yet or is an empty directory.

    Whatever goes wrong, `target` is as it was before. Files get the modes 0644 or 0755 and the time of now.
    """
    if target.exists() and any(target.iterdir()):
        raise FarmError(f"can't unpack a bundle into {target}: it is not empty")
    building = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with archive.open("rb") if isinstance(archive, Path) else nullcontext(archive) as stream:
            _unpack(stream, building, expected_id, limits or UnpackLimits())
        building.rename(target)
    except CorruptBundleError as error:
        raise CorruptBundleError(f"bundle {expected_id}: {error}; build and upload it again") from None
    except OSError as error:
        where = error.filename or target
        raise FarmError(f"can't unpack bundle {expected_id}: {where}: {error.strerror}") from error
    finally:
        # Nothing in it is more than a name of ours: no path is too long, no directory closed.
        shutil.rmtree(building, ignore_errors=True)


def _unpack(stream: IO[bytes], root: Path, expected_id: str, limits: UnpackLimits) -> None:
    source = _Decompressed(stream, limits.max_bytes)
    tree = _Tree(root, limits)
    while member := _read_member(source):
        tree.add(member, source)
    actual_id = source.finish()
    if actual_id != expected_id:
        raise CorruptBundleError(f"its content has the id {actual_id}")
    # Only now: a link may lead through links that come later.
    tree.check_links()


class _Decompressed:
    """The stream inside an archive, hashed and counted as it comes out."""

    def __init__(self, archive: IO[bytes], max_bytes: int) -> None:
        self._archive = archive
        self._max_bytes = max_bytes
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
        self._digest = hashlib.sha256()
        self._size_bytes = 0
        self._compressed = memoryview(b"")
        self._buffer = memoryview(b"")

    def take(self, size: int) -> memoryview:
        """Take at least one byte and at most `size`."""
        if not self._buffer:
            self._buffer = memoryview(self._decompress())
        if not self._buffer:
            raise CorruptBundleError("it ends too early")
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def take_exactly(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            taken += self.take(size - len(taken))
        return bytes(taken)

    def finish(self) -> str:
        """Read to the end, where nothing but zeros may come, and give the id."""
        while rest := self._buffer or memoryview(self._decompress()):
            if any(rest):
                raise CorruptBundleError("something follows its end")
            self._buffer = memoryview(b"")
        if not self._decompressor.eof:
            raise CorruptBundleError("it ends too early")
        if self._decompressor.unused_data or self._compressed or self._archive.read(1):
            raise CorruptBundleError("something follows its end")
        return self._digest.hexdigest()

    def _decompress(self) -> bytes:
        """Decompress a little; empty at the end."""
        data = b""
        while not data and not self._decompressor.eof:
            if not self._compressed:
                self._compressed = memoryview(self._archive.read(_CHUNK_BYTES))
            if not self._compressed:
                break
            some, self._compressed = (
                self._compressed[:_COMPRESSED_CHUNK_BYTES],
                self._compressed[_COMPRESSED_CHUNK_BYTES:],
            )
            try:
                data = self._decompressor.decompress(some)
            except zstandard.ZstdError as error:
                raise CorruptBundleError(f"it can't be decompressed: {error}") from error
        self._size_bytes += len(data)
        if self._size_bytes > self._max_bytes:
            raise CorruptBundleError(f"it is larger than {self._max_bytes} bytes")
        self._digest.update(data)
        return data


def _read_member(source: _Decompressed) -> _Member | None:
    """Read the next header; None at the end of the archive."""
    header = _read_header(source)
    if header is None:
        return None
    extended: dict[str, str] = {}
    if header.type == tarfile.XHDTYPE:
        if header.size > _MAX_EXTENDED_HEADER_BYTES:
            raise CorruptBundleError("it has a header that is too long")
        extended = _parse_extended_header(_take_padded(source, header.size))
        header = _read_header(source)
        if header is None:
            raise CorruptBundleError("it ends too early")
    name = extended.get("path", header.name)
    return _Member(
        name=name.removesuffix("/") if header.type == tarfile.DIRTYPE else name,
        type=tarfile.REGTYPE if header.type == tarfile.AREGTYPE else header.type,
        size=header.size,
        mode=header.mode,
        link_target=extended.get("linkpath", header.linkname),
    )


def _read_header(source: _Decompressed) -> tarfile.TarInfo | None:
    block = source.take_exactly(BLOCK_BYTES)
    if not any(block):
        if any(source.take_exactly(BLOCK_BYTES)):
            raise CorruptBundleError("something follows its end")
        return None
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise CorruptBundleError(f"it has a bad header: {error}") from error
    if header.size < 0:
        raise CorruptBundleError("it has a bad header: negative size")
    return header


def _take_padded(source: _Decompressed, size: int) -> bytes:
    return source.take_exactly(size + -size % BLOCK_BYTES)[:size]


def _parse_extended_header(content: bytes) -> dict[str, str]:
    """Parse records of the form `length key=value`, of which a bundle has only names."""
    records: dict[str, str] = {}
    while content:
        digits, space, _ = content.partition(b" ")
        length = int(digits) if space and digits.isdigit() and len(digits) < 8 else 0
        if not len(digits) < length <= len(content):
            raise CorruptBundleError("it has an extended header that no bundle has")
        record, content = content[len(digits) + 1 : length], content[length:]
        key, equals, value = record.decode("utf-8", "surrogateescape").partition("=")
        if not equals or not value.endswith("\n") or key not in ("path", "linkpath", "hdrcharset"):
            raise CorruptBundleError("it has an extended header that no bundle has")
        records[key] = value[:-1]
    return records


class _Tree:
    """The directory that is being filled."""

    def __init__(self, root: Path, limits: UnpackLimits) -> None:
        self._root = root
        self._limits = limits
        self._links: list[Path] = []
        self._entries = 0
        root.mkdir()
        root.chmod(0o755)
        self._made = {root}  # what exists and is not in here is no directory

    def add(self, member: _Member, source: _Decompressed) -> None:
        self._entries += 1
        if self._entries > self._limits.max_entries:
            raise CorruptBundleError(f"it has more than {self._limits.max_entries} entries")
        self._check(member)
        path = self._root / os.fsdecode(member.name.encode("utf-8", "surrogateescape"))
        self._make_directory(path.parent, member)
        try:
            if member.type == tarfile.REGTYPE:
                self._write_file(path, member, source)
            elif member.type == tarfile.SYMTYPE:
                path.symlink_to(os.fsdecode(member.link_target.encode("utf-8", "surrogateescape")))
                self._links.append(path)
            else:
                path.mkdir()
                path.chmod(0o755)
                self._made.add(path)
        except FileExistsError:
            raise CorruptBundleError(f"it has {_shown(member.name)} twice") from None

    def check_links(self) -> None:
        """Refuse a link that leads outside, also if it takes other links to get there."""
        real_root = Path(os.path.realpath(self._root))
        for link in self._links:
            if not Path(os.path.realpath(link)).is_relative_to(real_root):
                name = link.relative_to(self._root)
                raise CorruptBundleError(f"{_shown(str(name))} is a link that leads outside")

    def _check(self, member: _Member) -> None:
        shown = _shown(member.name)
        if member.type in _KINDS_REFUSED:
            raise CorruptBundleError(f"{shown} is {_KINDS_REFUSED[member.type]}")
        if member.type not in _MODES:
            raise CorruptBundleError(f"{shown} is of the unknown type {member.type!r}")
        if member.mode not in _MODES[member.type]:
            raise CorruptBundleError(f"{shown} has the mode {member.mode:o}")
        if member.type != tarfile.REGTYPE and member.size:
            raise CorruptBundleError(f"{shown} has content and is no file")
        parts = member.name.split("/")
        if "\0" in member.name or any(part in ("", ".", "..") for part in parts):
            raise CorruptBundleError(f"{shown} is no path inside it")
        encoded = [part.encode("utf-8", "surrogateescape") for part in parts]
        if len(b"/".join(encoded)) > self._limits.max_path_bytes or max(map(len, encoded)) > _MAX_NAME_BYTES:
            raise CorruptBundleError(f"{shown} is too long a path")
        if member.type == tarfile.SYMTYPE:
            _check_link_target(member)

    def _make_directory(self, directory: Path, member: _Member) -> None:
        if directory in self._made:
            return
        self._make_directory(directory.parent, member)
        try:
            directory.mkdir()
        except FileExistsError:
            raise CorruptBundleError(f"{_shown(member.name)} leads through a link or a file") from None
        directory.chmod(0o755)
        self._made.add(directory)

    def _write_file(self, path: Path, member: _Member, source: _Decompressed) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
            remaining = member.size
            while remaining:
                chunk = source.take(min(remaining, _CHUNK_BYTES))
                remaining -= len(chunk)
                while chunk:
                    chunk = chunk[file.write(chunk) :]
            os.fchmod(file.fileno(), member.mode)
        source.take_exactly(-member.size % BLOCK_BYTES)


def _check_link_target(member: _Member) -> None:
    target = member.link_target
    inside = os.path.normpath(os.path.join(os.path.dirname(member.name), target))  # noqa: PTH118, PTH120
    if not target or "\0" in target or target.startswith("/") or inside.split("/")[0] == "..":
        raise CorruptBundleError(f"{_shown(member.name)} is a link that leads outside")
    if len(target.encode("utf-8", "surrogateescape")) > 4095:
        raise CorruptBundleError(f"{_shown(member.name)} is a link to too long a path")


def _shown(name: str) -> str:
    """Quote a name from the archive, so that it can't write to a terminal what it likes."""
    text = name if len(name) <= 200 else f"{name[:200]}…"
    return ascii(text)
