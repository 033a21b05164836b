"""Keep what is too large for the ledger (bundles, transcripts, manifests), each under its content's hash.

In the broker by default, so that two machines need nothing else; or anywhere that fsspec can write to. A blob
that is there is never written again, and a blob that arrives changed is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol, cast

import redis
import zstandard

from farm.errors import FarmError
from farm.queue.compression import compress
from farm.queue.connection import LedgerError, clear_errors

CHUNK_BYTES = 4 * 2**20
_SMALL_BYTES = 64 * 2**10
MAX_BYTES = 256 * 2**20
DEFAULT_EXPIRY_SECONDS = 14 * 24 * 3600


class BlobError(FarmError):
    """The store can't be reached, or does not let us."""

    exit_code = 3


class MissingBlobError(BlobError):
    """A blob is not in the store, or not any more."""

    def __init__(self, blob_id: str) -> None:
        super().__init__(f"blob {blob_id[:16]}… is not in the store; was it kept long enough?")


class CorruptBlobError(BlobError):
    """A blob is not what its id says."""

    def __init__(self, blob_id: str, why: str) -> None:
        super().__init__(f"blob {blob_id[:16]}… is corrupt: {why}")


class BlobStore(Protocol):
    """A place for blobs. It moves bytes; what they mean is their reader's affair."""

    def has(self, blob_id: str) -> bool:
        """Say whether a blob is there."""
        ...

    def write(self, blob_id: str, chunks: Iterable[bytes]) -> None:
        """Write a blob; nobody sees it before it is whole."""
        ...

    def read(self, blob_id: str) -> Iterator[bytes]:
        """Read a blob, a chunk at a time; MissingBlobError if it is not there."""
        ...


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn what a store or the broker raises into one clear message; a missing file stays what it is."""
    try:
        with clear_errors():
            yield
    except LedgerError as error:
        raise BlobError(str(error)) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BlobError(f"the store can't keep or give blobs: {error}") from None


@contextmanager
def written_whole() -> Iterator[None]:
    """Take it for the store's fault if a place to write to is missing: nobody asked for a file there."""
    try:
        yield
    except FileNotFoundError as error:
        raise BlobError(f"the store can't be written to: {error}") from None


def put_bytes(store: BlobStore, data: bytes) -> str:
    """Store data, compressed, under the hash of what it is; give that."""
    blob_id = hashlib.sha256(data).hexdigest()
    if not store.has(blob_id):
        compressed = compress(data)
        store.write(
            blob_id, (compressed[at : at + CHUNK_BYTES] for at in range(0, len(compressed), CHUNK_BYTES))
        )
    return blob_id


def put_file(store: BlobStore, file: IO[bytes]) -> str:
    """Store a file of any size, compressed, under the hash of what it is; give that."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    blob_id = digest.hexdigest()
    if not store.has(blob_id):
        file.seek(0)
        store.write(blob_id, zstandard.ZstdCompressor(level=3).read_to_iter(file, write_size=CHUNK_BYTES))
    return blob_id


def get_file(store: BlobStore, blob_id: str, target: IO[bytes]) -> None:
    """Write stored data of any size to a file, or raise as `get_bytes` does."""
    digest = hashlib.sha256()
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    try:
        for chunk in store.read(blob_id):
            data = decompressor.decompress(chunk)
            digest.update(data)
            target.write(data)
    except zstandard.ZstdError as error:
        raise CorruptBlobError(blob_id, str(error)) from None
    if digest.hexdigest() != blob_id:
        raise CorruptBlobError(blob_id, "its content has another hash")


def get_bytes(store: BlobStore, blob_id: str, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Give stored data, or raise: MissingBlobError, or CorruptBlobError if it is not what was stored."""
    data = bytearray()
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    try:
        for chunk in store.read(blob_id):
            # In small bites: a hostile chunk of a few kilobytes can become gigabytes.
            for at in range(0, len(chunk), 16384):
                data += decompressor.decompress(chunk[at : at + 16384])
                if len(data) > max_bytes:
                    raise CorruptBlobError(blob_id, f"it is larger than {max_bytes} bytes")
    except zstandard.ZstdError as error:
        raise CorruptBlobError(blob_id, str(error)) from None
    if hashlib.sha256(data).hexdigest() != blob_id:
        raise CorruptBlobError(blob_id, "its content has another hash")
    return bytes(data)


class BrokerBlobs:
    """Blobs in Redis or Valkey, as a list of chunks each, until they expire."""

    def __init__(self, client: redis.Redis, *, expiry_seconds: int = DEFAULT_EXPIRY_SECONDS) -> None:
        self._client = client
        self._expiry_seconds = expiry_seconds

    def has(self, blob_id: str) -> bool:
        """Say whether a blob is there, and if so, keep it for its full time again."""
        with store_errors():
            return bool(self._client.expire(_key(blob_id), self._expiry_seconds))

    def write(self, blob_id: str, chunks: Iterable[bytes]) -> None:
        """Write a blob under a name of its own, then give it its real one in a single step."""
        unfinished = f"{_key(blob_id)}:{secrets.token_hex(8)}"
        with store_errors():
            pipeline = self._client.pipeline(transaction=False)
            pipeline.rpush(unfinished, b"")  # also a blob without chunks is there
            pipeline.expire(unfinished, 3600)
            for chunk in chunks:
                pipeline.rpush(unfinished, chunk)
                if len(chunk) >= CHUNK_BYTES:  # a large one goes piece by piece, a small one in one go
                    pipeline.execute()
            pipeline.rename(unfinished, _key(blob_id))
            pipeline.expire(_key(blob_id), self._expiry_seconds)
            pipeline.execute()

    def read(self, blob_id: str) -> Iterator[bytes]:
        """Read a blob's chunks, one at a time."""
        with store_errors():
            # Most have one chunk, which comes with the first answer.
            pipeline = self._client.pipeline(transaction=False)
            pipeline.llen(_key(blob_id))
            pipeline.lrange(_key(blob_id), 1, 1)
            count, chunks = pipeline.execute()
        if not count:
            raise MissingBlobError(blob_id)
        yield from chunks
        for at in range(2, count):
            with store_errors():
                chunk = self._client.lindex(_key(blob_id), at)
            if chunk is None:
                raise MissingBlobError(blob_id)
            yield cast("bytes", chunk)


class StoreBlobs:
    """Blobs as files under an fsspec URL: `file://`, `s3://`, …"""

    def __init__(self, url: str) -> None:
        self._files, self._root = open_store(url)

    def has(self, blob_id: str) -> bool:
        """Say whether a blob is there."""
        with store_errors():
            return bool(self._files.exists(self._path(blob_id)))

    def write(self, blob_id: str, chunks: Iterable[bytes]) -> None:
        """Write a blob beside its place, then move it there."""
        path = self._path(blob_id)
        unfinished = f"{path}.{secrets.token_hex(8)}"
        with store_errors(), written_whole():
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(unfinished, "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
            self._files.mv(unfinished, path)

    def read(self, blob_id: str) -> Iterator[bytes]:
        """Read a blob's file, a chunk at a time."""
        try:
            with store_errors():
                file = self._files.open(self._path(blob_id), "rb")
        except FileNotFoundError:
            raise MissingBlobError(blob_id) from None
        with file, store_errors():
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def _path(self, blob_id: str) -> str:
        return f"{self._root}/blobs/{blob_id[:2]}/{blob_id}"


class DirectoryBlobs:
    """Blobs as files in a directory: what a `file://` store is, at a tenth of fsspec's time."""

    def __init__(self, directory: Path) -> None:
        self._root = f"{directory}/blobs"

    def has(self, blob_id: str) -> bool:
        """Say whether a blob is there, and if so, that it is in use."""
        try:
            os.utime(self._path(blob_id))
        except OSError:
            return False
        return True

    def write(self, blob_id: str, chunks: Iterable[bytes]) -> None:
        """Write a blob beside its place, then move it there."""
        path = self._path(blob_id)
        unfinished = f"{path}.{secrets.token_hex(8)}"
        with store_errors(), written_whole():
            try:
                file = open(unfinished, "wb", buffering=0)  # noqa: PTH123, SIM115
            except FileNotFoundError:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                file = open(unfinished, "wb", buffering=0)  # noqa: PTH123, SIM115
            with file:
                for chunk in chunks:
                    file.write(chunk)
            os.replace(unfinished, path)  # noqa: PTH105

    def read(self, blob_id: str) -> Iterator[bytes]:
        """Read a blob's file, a chunk at a time."""
        try:
            with store_errors():
                file = open(self._path(blob_id), "rb", buffering=0)  # noqa: PTH123, SIM115
        except FileNotFoundError:
            raise MissingBlobError(blob_id) from None
        with file, store_errors():
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def remove_unused(self, seconds: float = DEFAULT_EXPIRY_SECONDS) -> None:
        """Remove blobs that nobody has asked for or written for so long."""
        oldest = time.time() - seconds
        for path in Path(self._root).glob("*/*"):
            with contextlib.suppress(FileNotFoundError):  # another does the same
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _path(self, blob_id: str) -> str:
        return f"{self._root}/{blob_id[:2]}/{blob_id}"


class TieredBlobs:
    """Small blobs in one store, large ones in another: to make a file takes longer than to fill it."""

    def __init__(self, small: BlobStore, large: BlobStore) -> None:
        self._small = small
        self._large = large

    def has(self, blob_id: str) -> bool:
        """Say whether a blob is in either."""
        return self._small.has(blob_id) or self._large.has(blob_id)

    def write(self, blob_id: str, chunks: Iterable[bytes]) -> None:
        """Write a blob to where it belongs by its size: more than one chunk is large."""
        waiting = iter(chunks)
        first = list(islice(waiting, 2))
        is_small = len(first) < 2 and len(first[0] if first else b"") <= _SMALL_BYTES
        (self._small if is_small else self._large).write(blob_id, chain(first, waiting))

    def read(self, blob_id: str) -> Iterator[bytes]:
        """Read a blob from where it is."""
        try:
            yield from self._small.read(blob_id)
        except MissingBlobError:
            yield from self._large.read(blob_id)


def open_blobs(url: str) -> BlobStore:
    """Give the blobs of a store."""
    if url.startswith("file://"):
        return DirectoryBlobs(Path(url.removeprefix("file://")))
    return StoreBlobs(url)


def open_store(url: str) -> tuple[Any, str]:
    """Give the file system that a URL means, and the path on it."""
    import fsspec

    if url.startswith("file://"):  # not by fsspec's own reading: it takes "::" in a path for two URLs
        return fsspec.filesystem("file"), url.removeprefix("file://")
    try:
        files, root = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise BlobError(f"FARM_STORE_URL {url}: {error}") from None
    return files, root


def _key(blob_id: str) -> str:
    return f"farm:blob:{blob_id}"
