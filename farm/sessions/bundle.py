"""Turn a directory into an archive that is the same on every machine, named by its content.

A bundle is a tar stream in order of names, without times and owners, compressed with zstd. Its id is the
SHA-256 of the stream before compression, so that another version of zstd does not make it another bundle.
Knows nothing of where bundles are kept; `unpacking` turns one back into a directory.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import zstandard

from farm.errors import FarmError
from farm.sessions.source_tree import FARM_IGNORE, TreeEntry, list_tree

DEFAULT_MAX_BYTES = 512 * 2**20
DEFAULT_MAX_ENTRIES = 250_000
# A workspace lies some directories deep itself, and macOS takes paths of 1024 bytes in all.
MAX_PATH_BYTES = 900
BLOCK_BYTES = 512

# Of 2,000 source files level 1 makes half as many bytes again as level 3, to save 10 to 20% of the time.
_COMPRESSION_LEVEL = 3
_CHUNK_BYTES = 256 * 1024
_NAMED_IN_ERRORS = 5


@dataclass(frozen=True)
class Bundle:
    """A workspace as one file. Whoever built it removes the file; `with` does so at its end."""

    id: str  # 64 hexadecimal digits
    path: Path  # the compressed archive
    size_bytes: int  # uncompressed: what limits are about
    compressed_bytes: int
    file_count: int  # links count as files

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.path.unlink(missing_ok=True)


def build_bundle(
    source: Path,
    *,
    exclude: Collection[Path] = (),
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_entries: int = DEFAULT_MAX_ENTRIES,
    directory: Path | None = None,
) -> Bundle:
    """Archive what `copy_tree` would copy; the file is made in `directory` (None: the temporary one)."""
    if not source.is_dir():
        raise FarmError(f"{source}: no such directory; a workspace is copied from an existing one")
    entries = sorted(list_tree(source, exclude=exclude), key=lambda entry: os.fsencode(entry.path))
    _check_size(source, entries, max_bytes, max_entries)
    descriptor, name = tempfile.mkstemp(prefix="farm-bundle-", suffix=".tar.zst", dir=directory)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            writer = _TarWriter(file)
            for entry in entries:
                writer.add(entry)
            bundle_id = writer.finish()
        if writer.size_bytes > max_bytes:  # long names need longer headers, and files may have grown
            raise _too_large(source, entries, max_bytes, max_entries)
        return Bundle(bundle_id, path, writer.size_bytes, path.stat().st_size, writer.file_count)
    except OSError as error:
        path.unlink(missing_ok=True)
        where = error.filename or path
        raise FarmError(f"can't make a bundle of {source}: {where}: {error.strerror}") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


class _TarWriter:
    """Writes the canonical stream; remembers nothing of what it has written but the digest."""

    def __init__(self, file: IO[bytes]) -> None:
        self.size_bytes = 0
        self.file_count = 0
        self._digest = hashlib.sha256()
        # No threads: they cut the stream into jobs, and where depends on the machine.
        compressor = zstandard.ZstdCompressor(
            level=_COMPRESSION_LEVEL, threads=0, write_checksum=True, write_content_size=False
        )
        self._output = compressor.stream_writer(file, closefd=False)

    def add(self, entry: TreeEntry) -> None:
        if entry.kind == "file":
            self._add_file(entry)
            return
        header = _header(entry)
        if entry.kind == "link":
            header.type = tarfile.SYMTYPE
            header.mode = 0o777
            header.linkname = _as_text(entry.link_target)
            self.file_count += 1
        else:
            header.type = tarfile.DIRTYPE
            header.mode = 0o755
        self._write_header(header)

    def _add_file(self, entry: TreeEntry) -> None:
        try:
            # It was a file when it was listed; a pipe in its place must not block us.
            descriptor = os.open(entry.original, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:  # deleted since it was listed: `copy_tree` leaves it out as well
            return
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            header = _header(entry)
            header.size = os.fstat(descriptor).st_size
            header.mode = 0o755 if entry.is_executable else 0o644
            self._write_header(header)
            remaining = header.size
            while remaining and (chunk := file.read(min(remaining, _CHUNK_BYTES))):
                self._write(chunk)
                remaining -= len(chunk)
            if remaining:
                raise FarmError(
                    f"{entry.original} became shorter while it was read; stop what writes to the workspace, "
                    f"or name the file in {FARM_IGNORE}"
                )
            self._write(bytes(-header.size % BLOCK_BYTES))
            self.file_count += 1

    def _write_header(self, header: tarfile.TarInfo) -> None:
        self._write(header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self._output.write(data)
        self.size_bytes += len(data)

    def finish(self) -> str:
        self._write(bytes(2 * BLOCK_BYTES))
        self._output.flush(zstandard.FLUSH_FRAME)
        return self._digest.hexdigest()


def _header(entry: TreeEntry) -> tarfile.TarInfo:
    """Begin a header: TarInfo's time, owner and group are already 0 and empty."""
    name = _as_text(entry.path)
    if len(os.fsencode(entry.path)) > MAX_PATH_BYTES:
        raise FarmError(
            f"{entry.original}: its path is longer than {MAX_PATH_BYTES} bytes; "
            f"shorten it, or name it in {FARM_IGNORE}"
        )
    return tarfile.TarInfo(name)


def _as_text(path: Path) -> str:
    """Give a path's bytes as UTF-8 text, whatever this machine's own encoding is."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def _check_size(source: Path, entries: list[TreeEntry], max_bytes: int, max_entries: int) -> None:
    """Refuse before anything is read. Headers count: a million empty files are large too."""
    if len(entries) > max_entries or _sum_bytes(entries) + 2 * BLOCK_BYTES > max_bytes:
        raise _too_large(source, entries, max_bytes, max_entries)


def _sum_bytes(entries: Iterable[TreeEntry]) -> int:
    return sum(BLOCK_BYTES + _content_bytes(entry) for entry in entries)


def _content_bytes(entry: TreeEntry) -> int:
    size = entry.status.st_size if entry.kind == "file" else 0
    return size + -size % BLOCK_BYTES


def _too_large(source: Path, entries: list[TreeEntry], max_bytes: int, max_entries: int) -> FarmError:
    directories: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for entry in entries:
        size = BLOCK_BYTES + _content_bytes(entry)
        files[str(entry.path)] = size
        directories.update({f"{parent}/": size for parent in entry.path.parents if parent.parts})
    largest = [
        f"  {_human_size(size)}  {os.fsencode(name).decode('utf-8', 'backslashreplace')}"
        for counter in (directories, files)
        for name, size in counter.most_common(_NAMED_IN_ERRORS)
    ]
    return FarmError(
        f"{source}: {len(entries)} files with {_human_size(_sum_bytes(entries))} are more than a workspace "
        f"may have ({max_entries} files, {_human_size(max_bytes)}). The largest:\n"
        + "\n".join(largest)
        + f"\nname what the agent does not need in {source / FARM_IGNORE}; its syntax is that of .gitignore"
    )


def _human_size(size_bytes: int) -> str:
    for unit, bytes_per_unit in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= bytes_per_unit:
            return f"{size_bytes / bytes_per_unit:.1f} {unit}"
    return f"{size_bytes} bytes"
