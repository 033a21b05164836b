"""Keep what is left of a run when it is over: its report, and where its transcripts are.

In the store if there is one, as plain files (`runs/<run id>/report.json`), so that history outlives the
broker; else in the broker, for as long as it keeps blobs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import IO, Any, Protocol

from farm.errors import FarmError
from farm.queue.blobs import (
    CHUNK_BYTES,
    BlobStore,
    MissingBlobError,
    get_file,
    put_file,
    store_errors,
    written_whole,
)

REPORT = "report.json"
TRANSCRIPTS = "transcripts.tsv"


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


class BrokerArchive:
    """The files of runs as blobs, and their names in a hash beside the run."""

    def __init__(self, client: Any, blobs: BlobStore, *, expiry_seconds: int) -> None:
        self._client = client
        self._blobs = blobs
        self._expiry_seconds = expiry_seconds

    def write(self, run_id: str, name: str, file: IO[bytes]) -> None:
        """Write a blob, then its name."""
        blob_id = put_file(self._blobs, file)
        with store_errors():
            self._client.hset(_key(run_id), name, blob_id)
            self._client.expire(_key(run_id), self._expiry_seconds)

    def read(self, run_id: str, name: str, target: IO[bytes]) -> None:
        """Copy the blob of this name."""
        with store_errors():
            blob_id = self._client.hget(_key(run_id), name)
        if blob_id is None:
            raise _not_archived(run_id)
        try:
            get_file(self._blobs, blob_id.decode(), target)
        except MissingBlobError:
            raise _not_archived(run_id) from None


class StoreArchive:
    """The files of runs as files under an fsspec URL."""

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root

    def write(self, run_id: str, name: str, file: IO[bytes]) -> None:
        """Write a file beside its place, then move it there."""
        path = self._path(run_id, name)
        unfinished = f"{path}.{secrets.token_hex(8)}"
        with store_errors(), written_whole():
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(unfinished, "wb") as target:
                for chunk in _chunks(file):
                    target.write(chunk)
            self._files.mv(unfinished, path)

    def read(self, run_id: str, name: str, target: IO[bytes]) -> None:
        """Copy a file."""
        try:
            with store_errors(), self._files.open(self._path(run_id, name), "rb") as file:
                for chunk in _chunks(file):
                    target.write(chunk)
        except FileNotFoundError:
            raise _not_archived(run_id) from None

    def _path(self, run_id: str, name: str) -> str:
        return f"{self._root}/runs/{run_id}/{name}"


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _key(run_id: str) -> str:
    return f"farm:archive:{run_id}"


def _not_archived(run_id: str) -> NotArchivedError:
    return NotArchivedError(f"run {run_id} has no report, or not any more")
