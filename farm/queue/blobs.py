"""Keep what is too large for the ledger (bundles, transcripts, manifests), each under its content's hash.

In the broker by default, so that two machines need nothing else; or anywhere that fsspec can write to. A blob
that is there is never written again, and a blob that arrives changed is refused.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import redis
import zstandard

from farm.errors import FarmError

CHUNK_BYTES = 4 * 2**20
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


def put_bytes(store: BlobStore, data: bytes) -> str:
    """Store data, compressed, under the hash of what it is; give that."""
    blob_id = hashlib.sha256(data).hexdigest()
    if not store.has(blob_id):
        compressed = zstandard.ZstdCompressor(level=3).compress(data)
        store.write(
            blob_id, (compressed[at : at + CHUNK_BYTES] for at in range(0, len(compressed), CHUNK_BYTES))
        )
    return blob_id


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
        return bool(self._guarded(lambda: self._client.expire(_key(blob_id), self._expiry_seconds)))

    def write(self, blob_id: str, chunks: Iterable[bytes]) -> None:
        """Write a blob under a name of its own, then give it its real one in a single step."""
        unfinished = f"{_key(blob_id)}:{secrets.token_hex(8)}"
        self._guarded(lambda: self._client.rpush(unfinished, b""))  # also a blob without chunks is there
        self._guarded(lambda: self._client.expire(unfinished, 3600))
        for chunk in chunks:
            self._guarded(lambda chunk=chunk: self._client.rpush(unfinished, chunk))
        self._guarded(lambda: self._client.rename(unfinished, _key(blob_id)))
        self._guarded(lambda: self._client.expire(_key(blob_id), self._expiry_seconds))

    def read(self, blob_id: str) -> Iterator[bytes]:
        """Read a blob's chunks, one at a time."""
        count: int = self._guarded(lambda: self._client.llen(_key(blob_id)))
        if not count:
            raise MissingBlobError(blob_id)
        for at in range(1, count):
            chunk = self._guarded(lambda at=at: self._client.lindex(_key(blob_id), at))
            if chunk is None:
                raise MissingBlobError(blob_id)
            yield chunk

    def _guarded(self, action: Any) -> Any:
        try:
            return action()
        except redis.RedisError as error:
            raise BlobError(f"the broker can't keep or give blobs: {error}") from None


class StoreBlobs:
    """Blobs as files under an fsspec URL: `file://`, `s3://`, …"""

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise BlobError(f"FARM_STORE_URL {url}: {error}") from None

    def has(self, blob_id: str) -> bool:
        """Say whether a blob is there."""
        return bool(self._guarded(lambda: self._files.exists(self._path(blob_id))))

    def write(self, blob_id: str, chunks: Iterable[bytes]) -> None:
        """Write a blob beside its place, then move it there."""
        path = self._path(blob_id)
        unfinished = f"{path}.{secrets.token_hex(8)}"

        def write() -> None:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(unfinished, "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
            self._files.mv(unfinished, path)

        self._guarded(write)

    def read(self, blob_id: str) -> Iterator[bytes]:
        """Read a blob's file, a chunk at a time."""
        try:
            file = self._guarded(lambda: self._files.open(self._path(blob_id), "rb"))
        except FileNotFoundError:
            raise MissingBlobError(blob_id) from None
        with file:
            while chunk := self._guarded(lambda: file.read(CHUNK_BYTES)):
                yield chunk

    def _path(self, blob_id: str) -> str:
        return f"{self._root}/blobs/{blob_id[:2]}/{blob_id}"

    def _guarded(self, action: Any) -> Any:
        try:
            return action()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise BlobError(f"the store can't keep or give blobs: {error}") from None


def _key(blob_id: str) -> str:
    return f"farm:blob:{blob_id}"
