"""Keep what is left of a run when it is over: its report, and where its transcripts are.

In the store if there is one, as plain files (`runs/<run id>/report.json`), so that history outlives the
broker; else in the broker, for as long as it keeps blobs. A report that was blessed is kept once more, for
good.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import IO, Any, Protocol

import zstandard

from farm.errors import FarmError
from farm.queue.blobs import (
    CHUNK_BYTES,
    BlobStore,
    CorruptBlobError,
    MissingBlobError,
    get_file,
    put_file,
    store_errors,
    written_whole,
)
from farm.queue.compression import compress
from farm.queue.signing import Signer

REPORT = "report.json"
TRANSCRIPTS = "transcripts.tsv"

_BLESSED = "farm:blessed"
_BITE_BYTES = 16 * 2**10


class NotArchivedError(FarmError):
    """A run has no report yet, or not any more."""

    exit_code = 3


class Archive(Protocol):
    """A place for the files of runs."""

    def write(self, run_id: str, name: str, file: IO[bytes]) -> None:
        """Write one of a run's files; nobody sees it before it is whole."""
        ...

    def read(self, run_id: str, name: str, target: IO[bytes]) -> None:
        """Copy one of a run's files; NotArchivedError if it is not there."""
        ...

    def lines(self, run_id: str, name: str) -> Iterator[bytes]:
        """Give one of a run's files line by line, and read no further than is asked for."""
        ...

    def runs(self) -> list[str]:
        """Name the runs that may have files here, newest first."""
        ...

    def bless(self, key: str, report: IO[bytes]) -> None:
        """Keep a report for good, in the place of an earlier one of this key."""
        ...

    def blessed(self) -> list[str]:
        """Name the keys that reports are kept under for good."""
        ...

    def read_blessed(self, key: str, target: IO[bytes]) -> None:
        """Copy a report that is kept for good; NotArchivedError if there is none of this key."""
        ...


def blessing_key(suite: str) -> str:
    """Give the key of a suite's blessed report: a name for a directory, whatever the suite is called."""
    shown = re.sub(r"[^A-Za-z0-9_.-]+", "-", suite).strip("-.")[:60]
    return f"{shown or 'suite'}-{hashlib.sha256(suite.encode(errors='replace')).hexdigest()[:12]}"


class BrokerArchive:
    """The files of runs as blobs, and their names in a hash beside the run."""

    def __init__(
        self, client: Any, blobs: BlobStore, *, expiry_seconds: int, signer: Signer | None = None
    ) -> None:
        self._client = client
        self._blobs = blobs
        self._expiry_seconds = expiry_seconds
        self._signer = signer or Signer()

    def write(self, run_id: str, name: str, file: IO[bytes]) -> None:
        """Write a blob, then its name."""
        blob_id = put_file(self._blobs, file)
        with store_errors():
            self._client.hset(_key(run_id), name, self._signer.sign(blob_id.encode(), name, run_id))
            self._client.expire(_key(run_id), self._expiry_seconds)

    def read(self, run_id: str, name: str, target: IO[bytes]) -> None:
        """Copy the blob of this name."""
        blob_id = self._blob_id(run_id, name)
        try:
            get_file(self._blobs, blob_id, target)
        except MissingBlobError:
            raise _not_archived(run_id) from None

    def lines(self, run_id: str, name: str) -> Iterator[bytes]:
        """Unpack the blob of this name bite by bite."""
        blob_id = self._blob_id(run_id, name)
        try:
            yield from _lines(_unpacked(self._blobs.read(blob_id)))
        except MissingBlobError:
            raise _not_archived(run_id) from None
        except zstandard.ZstdError as error:
            raise CorruptBlobError(blob_id, str(error)) from None

    def _blob_id(self, run_id: str, name: str) -> str:
        with store_errors():
            row = self._client.hget(_key(run_id), name)
        if row is None:
            raise _not_archived(run_id)
        return self._signer.open(row, name, run_id).decode()

    def runs(self) -> list[str]:
        """Look through all keys for those of runs: no list of them is kept."""
        prefix = _key("")
        with store_errors():
            keys = [key.decode() for key in self._client.scan_iter(match=f"{prefix}*", count=1000)]
        return sorted({key.removeprefix(prefix) for key in keys}, reverse=True)

    def bless(self, key: str, report: IO[bytes]) -> None:
        """Write it whole into a hash that does not expire: blobs do."""
        row = self._signer.sign(compress(report.read()), "blessed report", key)
        with store_errors():
            self._client.hset(_BLESSED, key, row)

    def blessed(self) -> list[str]:
        """Name the fields of the hash."""
        with store_errors():
            return sorted(key.decode() for key in self._client.hkeys(_BLESSED))

    def read_blessed(self, key: str, target: IO[bytes]) -> None:
        """Copy a field of the hash."""
        with store_errors():
            packed = self._client.hget(_BLESSED, key)
        if packed is None:
            raise _not_blessed(key)
        try:
            for data in _unpacked([self._signer.open(packed, "blessed report", key)]):
                target.write(data)
        except zstandard.ZstdError as error:
            raise NotArchivedError(f"the report that is blessed as {key} is corrupt: {error}") from None


class StoreArchive:
    """The files of runs as files under an fsspec URL."""

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root

    def write(self, run_id: str, name: str, file: IO[bytes]) -> None:
        """Write a file beside its place, then move it there."""
        self._write(self._path(run_id, name), file)

    def _write(self, path: str, file: IO[bytes]) -> None:
        unfinished = f"{path}.{secrets.token_hex(8)}"
        with store_errors(), written_whole():
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(unfinished, "wb") as target:
                for chunk in _chunks(file):
                    target.write(chunk)
            self._files.mv(unfinished, path)

    def read(self, run_id: str, name: str, target: IO[bytes]) -> None:
        """Copy a file."""
        self._read(self._path(run_id, name), target, _not_archived(run_id))

    def _read(self, path: str, target: IO[bytes], missing: NotArchivedError) -> None:
        try:
            with store_errors(), self._files.open(path, "rb") as file:
                for chunk in _chunks(file):
                    target.write(chunk)
        except FileNotFoundError:
            raise missing from None

    def lines(self, run_id: str, name: str) -> Iterator[bytes]:
        """Read a file as far as is asked for."""
        try:
            with store_errors(), self._files.open(self._path(run_id, name), "rb") as file:
                yield from file
        except FileNotFoundError:
            raise _not_archived(run_id) from None

    def runs(self) -> list[str]:
        """Name the directories of runs."""
        return sorted(self._names("runs"), reverse=True)

    def bless(self, key: str, report: IO[bytes]) -> None:
        """Write a copy: a run's own directory may be removed."""
        self._write(self._blessed_path(key), report)

    def blessed(self) -> list[str]:
        """Name the directories of what is blessed."""
        return sorted(self._names("blessed"))

    def read_blessed(self, key: str, target: IO[bytes]) -> None:
        """Copy what is blessed."""
        self._read(self._blessed_path(key), target, _not_blessed(key))

    def _blessed_path(self, key: str) -> str:
        return f"{self._root}/blessed/{key}/{REPORT}"

    def _names(self, directory: str) -> list[str]:
        try:
            with store_errors():
                paths = self._files.ls(f"{self._root}/{directory}", detail=False)
        except FileNotFoundError:
            return []
        names = (path.rstrip("/").rpartition("/")[2] for path in paths)
        return [name for name in names if not name.startswith(".")]

    def _path(self, run_id: str, name: str) -> str:
        return f"{self._root}/runs/{run_id}/{name}"


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    for chunk in chunks:
        # In small bites: who wants the first lines does not wait for all.
        for at in range(0, len(chunk), _BITE_BYTES):
            yield decompressor.decompress(chunk[at : at + _BITE_BYTES])


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _key(run_id: str) -> str:
    return f"farm:archive:{run_id}"


def _not_blessed(key: str) -> NotArchivedError:
    return NotArchivedError(f"no report is blessed as {key}")


def _not_archived(run_id: str) -> NotArchivedError:
    return NotArchivedError(f"run {run_id} has no report, or not any more")
