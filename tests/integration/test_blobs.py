"""The same promises of every store of blobs: a real server, real files."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator

import pytest
import redis
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.queue.blobs import (
    CHUNK_BYTES,
    BlobError,
    BlobStore,
    BrokerBlobs,
    CorruptBlobError,
    DirectoryBlobs,
    MissingBlobError,
    StoreBlobs,
    TieredBlobs,
    get_bytes,
    open_blobs,
    put_bytes,
)


@pytest.fixture
def nowhere() -> str:
    """The id of a blob that nobody has stored: the server is shared by many tests."""
    return secrets.token_hex(32)


@pytest.fixture(params=["broker", "fsspec", "directory", "tiered"])
def store(request, client, tmp_path) -> BlobStore:
    match request.param:
        case "broker":
            return BrokerBlobs(client)
        case "fsspec":
            return StoreBlobs(f"file://{tmp_path}/store")
        case "tiered":
            return TieredBlobs(BrokerBlobs(client), open_blobs(f"file://{tmp_path}/store"))
        case _:
            return open_blobs(f"file://{tmp_path}/store")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=5000))
def test_what_is_stored_comes_back(store, data):
    assert get_bytes(store, put_bytes(store, data)) == data


def test_a_blob_of_many_chunks_comes_back(store):
    data = os.urandom(CHUNK_BYTES * 2 + 12345)
    assert get_bytes(store, put_bytes(store, data)) == data


def test_the_same_data_is_stored_once(store):
    class Counted:
        writes = 0

        def has(self, blob_id):
            return store.has(blob_id)

        def write(self, blob_id, chunks):
            self.writes += 1
            store.write(blob_id, chunks)

        def read(self, blob_id):
            return store.read(blob_id)

    counted = Counted()
    data = secrets.token_bytes(4000)  # the server is shared by many tests
    first = put_bytes(counted, data)
    assert put_bytes(counted, data) == first
    assert counted.writes == 1


def test_a_blob_that_is_not_there_is_one_clear_error(store, nowhere):
    assert not store.has(nowhere)
    with pytest.raises(MissingBlobError, match="is not in the store"):
        get_bytes(store, nowhere)


@pytest.mark.parametrize("damage", ["cut", "flip", "other", "garbage"])
def test_a_blob_that_arrives_changed_is_refused(store, damage):
    data = os.urandom(3000)
    good = zstandard.ZstdCompressor().compress(data)
    bad = {
        "cut": good[:-100],
        "flip": good[:1500] + bytes([good[1500] ^ 1]) + good[1501:],
        "other": zstandard.ZstdCompressor().compress(b"something else"),
        "garbage": b"not zstd at all",
    }[damage]
    blob_id = put_bytes(store, data)
    store.write(blob_id, [bad])
    with pytest.raises(CorruptBlobError, match="is corrupt"):
        get_bytes(store, blob_id)


def test_a_blob_that_grows_without_end_is_refused(store, nowhere):
    bomb = zstandard.ZstdCompressor().compress(bytes(50 * 2**20))
    store.write(nowhere, [bomb])
    with pytest.raises(CorruptBlobError, match="larger than 1000000 bytes"):
        get_bytes(store, nowhere, max_bytes=1_000_000)


def test_a_half_written_blob_is_not_there(store, nowhere):
    def breaks() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("the submitter died")

    with pytest.raises(RuntimeError):
        store.write(nowhere, breaks())
    assert not store.has(nowhere)


def test_many_writers_of_the_same_blob_do_not_disturb_each_other(server, tmp_path):
    data = os.urandom(200_000)
    found: list[bytes] = []

    def work(store: BlobStore) -> None:
        found.extend(get_bytes(store, put_bytes(store, data)) for _ in range(5))

    stores: list[BlobStore] = [StoreBlobs(f"file://{tmp_path}/store") for _ in range(4)]
    clients = [redis.Redis.from_url(server.url) for _ in range(4)]
    stores += [BrokerBlobs(client) for client in clients]
    threads = [threading.Thread(target=work, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    assert found == [data] * 40


def test_blobs_in_the_broker_expire_unless_they_are_wanted_again(client):
    store = BrokerBlobs(client, expiry_seconds=1000)
    blob_id = put_bytes(store, b"kept for a while")
    key = f"farm:blob:{blob_id}"
    assert 0 < client.ttl(key) <= 1000
    client.expire(key, 5)
    put_bytes(store, b"kept for a while")
    assert client.ttl(key) > 900


def test_a_store_that_can_not_be_written_to_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BlobError, match="the store can't keep or give blobs"):
        put_bytes(StoreBlobs(f"file://{tmp_path}/file"), b"data")
    with pytest.raises(BlobError, match="FARM_STORE_URL nope://x"):
        StoreBlobs("nope://x")


def test_a_broker_that_is_down_is_one_clear_error(tmp_path):
    with (
        redis.Redis(unix_socket_path=str(tmp_path / "nothing")) as nobody,
        pytest.raises(BlobError, match="the broker can't be reached"),
    ):
        put_bytes(BrokerBlobs(nobody), b"data")


def test_what_nobody_has_used_for_long_is_removed_from_a_directory(tmp_path):
    store = DirectoryBlobs(tmp_path)
    old, used = put_bytes(store, b"old"), put_bytes(store, b"used")
    for blob_id in (old, used):
        os.utime(tmp_path / "blobs" / blob_id[:2] / blob_id, (0, 0))
    assert store.has(used)
    store.remove_unused(seconds=60)
    assert store.has(used)
    assert not store.has(old)
