import errno
import fcntl
import io
import json
import multiprocessing
import os
import random
import signal
import stat
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from farm.errors import FarmError
from farm.sessions.bundle import build_bundle
from farm.sessions.bundle_cache import BundleCache
from farm.sessions.file_clone import FileCloner
from farm.sessions.unpacking import CorruptBundleError
from farm.sessions.workspace import open_workspace

BLOCK = 4096
SPAWN = multiprocessing.get_context("spawn")  # a fork could copy a lock that another thread holds


class Store:
    """Archives by id, and how often each was asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fetched: list[str] = []
        directory.mkdir()

    def add(self, name: str, *, files: int = 3, bytes_per_file: int = 10) -> str:
        source = self.directory / f"source-{name}"
        (source / "sub").mkdir(parents=True)
        for number in range(files):
            (source / f"sub/{number}").write_bytes(f"{name}{number}".encode().ljust(bytes_per_file, b"."))
        (source / "run.sh").write_text(name)
        (source / "run.sh").chmod(0o755)
        (source / "link").symlink_to("sub/0")
        (source / "empty").mkdir()
        with build_bundle(source) as bundle:
            (self.directory / bundle.id).write_bytes(bundle.path.read_bytes())
        return bundle.id

    def fetch(self, bundle_id: str) -> io.BufferedReader:
        self.fetched.append(bundle_id)
        return (self.directory / bundle_id).open("rb")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def cache(tmp_path):
    return BundleCache(tmp_path / "cache")


def id_of(directory: Path) -> str:
    with build_bundle(directory) as bundle:
        return bundle.id


def entries(cache_directory: Path) -> set[str]:
    assert list((cache_directory / "partial").iterdir()) == []
    return {path.name for path in (cache_directory / "entries").iterdir()}


def test_each_target_gets_a_fresh_copy_and_the_bundle_is_fetched_once(cache, store, tmp_path):
    bundle_id = store.add("a")
    for name in ("one", "two"):
        cache.materialise(bundle_id, store.fetch, tmp_path / name)
        assert id_of(tmp_path / name) == bundle_id
        (tmp_path / name / "run.sh").write_text("changed by the agent")
        (tmp_path / name / "sub/0").unlink()
    cache.materialise(bundle_id, store.fetch, tmp_path / "three")
    assert id_of(tmp_path / "three") == bundle_id
    assert store.fetched == [bundle_id]


def test_a_workspace_can_be_filled_from_the_cache(cache, store):
    bundle_id = store.add("a")
    with open_workspace(lambda target: cache.materialise(bundle_id, store.fetch, target)) as workspace:
        assert id_of(workspace.directory) == bundle_id
        (workspace.directory / "run.sh").write_text("changed")
        assert workspace.changes().modified == ("run.sh",)
    assert not workspace.root.exists()


def test_a_workspace_that_can_not_be_filled_leaves_nothing(cache, store, tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))

    def fetch(_):
        raise FarmError("no such blob")

    with pytest.raises(FarmError, match="no such blob"):  # noqa: SIM117
        with open_workspace(lambda target: cache.materialise("0" * 64, fetch, target)):
            pass
    assert list((tmp_path / "scratch").iterdir()) == []


def test_files_have_bundle_modes_and_all_the_same_time_whatever_the_umask(cache, store, tmp_path):
    bundle_id = store.add("a")
    before = os.umask(0o077)
    try:
        started = time.time()
        cache.materialise(bundle_id, store.fetch, tmp_path / "out")
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and not path.is_symlink()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644, 0o755}
    (modified,) = {path.stat().st_mtime for path in files}
    assert modified >= started - 1
    assert stat.S_IMODE((tmp_path / "out/sub").stat().st_mode) == 0o755


def test_the_cache_is_closed_to_other_users(cache, tmp_path):
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


@pytest.mark.parametrize("bundle_id", ["", "../../etc", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_what_is_no_id_is_refused(cache, store, tmp_path, bundle_id):
    with pytest.raises(FarmError, match="no id of a bundle"):
        cache.materialise(bundle_id, store.fetch, tmp_path / "out")


def test_a_corrupt_archive_is_an_error_and_the_next_fetch_may_succeed(cache, store, tmp_path):
    bundle_id = store.add("a")
    good = (store.directory / bundle_id).read_bytes()
    (store.directory / bundle_id).write_bytes(good[:-20])
    with pytest.raises(CorruptBundleError):
        cache.materialise(bundle_id, store.fetch, tmp_path / "out")
    assert entries(tmp_path / "cache") == set()
    (store.directory / bundle_id).write_bytes(good)
    cache.materialise(bundle_id, store.fetch, tmp_path / "out")
    assert id_of(tmp_path / "out") == bundle_id


def spoil_size(tree):
    (tree / "sub/1").write_text("short")


def spoil_same_size_and_time(tree):
    before = (tree / "sub/1").stat()
    (tree / "sub/1").write_bytes(b"x" * before.st_size)
    os.utime(tree / "sub/1", ns=(before.st_atime_ns, before.st_mtime_ns))


def spoil_mode(tree):
    (tree / "run.sh").chmod(0o644)


def spoil_link(tree):
    (tree / "link").unlink()
    (tree / "link").symlink_to("/etc/passwd")


def spoil_missing(tree):
    (tree / "sub/1").unlink()


def spoil_added(tree):
    (tree / "sub/new").touch()


def spoil_tree(tree):
    tree.rename(tree.with_name("elsewhere"))


def spoil_kind(tree):
    (tree / "sub/1").unlink()
    os.mkfifo(tree / "sub/1")


def spoil_manifest(tree):
    (tree.parent / "manifest").write_text("100\n{not json\n")


def spoil_manifest_fields(tree):
    (tree.parent / "manifest").write_text("100\n" + json.dumps({"path": "x", "odd": 1}))


def spoil_manifest_whole(tree):
    (tree.parent / "manifest").unlink()


@pytest.mark.parametrize(
    "spoil",
    [
        *(
            spoil_size,
            spoil_same_size_and_time,
            spoil_mode,
            spoil_link,
            spoil_missing,
            spoil_added,
            spoil_tree,
        ),
        *(spoil_kind, spoil_manifest, spoil_manifest_fields, spoil_manifest_whole),
    ],
)
def test_an_entry_that_was_written_to_is_fetched_again(cache, store, tmp_path, spoil):
    bundle_id = store.add("a")
    cache.materialise(bundle_id, store.fetch, tmp_path / "one")
    spoil(tmp_path / "cache/entries" / bundle_id / "tree")
    cache.materialise(bundle_id, store.fetch, tmp_path / "two")
    assert id_of(tmp_path / "two") == bundle_id
    cache.materialise(bundle_id, store.fetch, tmp_path / "three")
    assert store.fetched == [bundle_id] * 2


def test_the_least_recently_used_goes_first(store, tmp_path):
    a, b, c = (store.add(name, files=4, bytes_per_file=BLOCK) for name in "abc")
    cache = BundleCache(tmp_path / "cache", max_bytes=16 * BLOCK)  # two of them
    for number, bundle_id in enumerate((a, b, a, c)):
        cache.materialise(bundle_id, store.fetch, tmp_path / str(number))
        time.sleep(0.01)
    assert entries(tmp_path / "cache") == {a, c}
    assert {path.name for path in (tmp_path / "cache/locks").iterdir()} == {a, c, "trim"}


def test_a_bundle_larger_than_the_cache_is_used_and_dropped(store, tmp_path):
    bundle_id = store.add("a")
    cache = BundleCache(tmp_path / "cache", max_bytes=1)
    for name in ("one", "two"):
        cache.materialise(bundle_id, store.fetch, tmp_path / name)
        assert id_of(tmp_path / name) == bundle_id
    assert entries(tmp_path / "cache") == set()


def test_an_entry_in_use_is_not_dropped_until_later(store, tmp_path):
    a, b = store.add("a"), store.add("b")
    cache = BundleCache(tmp_path / "cache", max_bytes=1)
    with cache._lock(a, fcntl.LOCK_EX):
        cache._store(a, store.fetch)
    with cache._lock(a, fcntl.LOCK_SH):
        cache.materialise(b, store.fetch, tmp_path / "b")
        assert entries(tmp_path / "cache") == {a}
    cache.materialise(b, store.fetch, tmp_path / "b2")
    assert entries(tmp_path / "cache") == set()


def test_damaged_entries_and_leftovers_of_killed_processes_are_removed(store, tmp_path):
    bundle_id = store.add("a")
    cache = BundleCache(tmp_path / "cache")
    (tmp_path / "cache/entries" / ("0" * 64) / "tree").mkdir(parents=True)
    (tmp_path / "cache/partial" / f"{'1' * 64}.abc" / "tree").mkdir(parents=True)
    cache.materialise(bundle_id, store.fetch, tmp_path / "out")
    assert entries(tmp_path / "cache") == {bundle_id}


def test_leftovers_of_a_living_process_are_left_alone(store, tmp_path):
    cache = BundleCache(tmp_path / "cache")
    partial = tmp_path / "cache/partial" / f"{'1' * 64}.abc"
    partial.mkdir()
    with cache._lock("1" * 64, fcntl.LOCK_EX):
        BundleCache(tmp_path / "cache").trim()
        assert partial.exists()
    cache.trim()
    assert not partial.exists()


def test_many_threads_fetch_once(cache, store, tmp_path):
    bundle_id = store.add("a", files=50)

    def slow_fetch(wanted):
        time.sleep(0.1)
        return store.fetch(wanted)

    with ThreadPoolExecutor(12) as pool:
        futures = [
            pool.submit(cache.materialise, bundle_id, slow_fetch, tmp_path / f"out{n}") for n in range(12)
        ]
        for future in futures:
            future.result()
    assert store.fetched == [bundle_id]
    assert {id_of(tmp_path / f"out{n}") for n in range(12)} == {bundle_id}


def test_different_bundles_are_fetched_at_the_same_time(cache, store, tmp_path):
    both = threading.Barrier(2, timeout=10)
    ids = [store.add("a"), store.add("b")]

    def fetch(wanted):
        both.wait()
        return store.fetch(wanted)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda bundle_id: cache.materialise(bundle_id, fetch, tmp_path / bundle_id), ids))
    assert sorted(store.fetched) == sorted(ids)


def test_a_failed_fetch_does_not_stop_who_waits(cache, store, tmp_path):
    bundle_id = store.add("a")
    started = threading.Event()

    def failing_fetch(_):
        started.set()
        time.sleep(0.2)
        raise FarmError("the store is down")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.materialise, bundle_id, failing_fetch, tmp_path / "one")
        started.wait(5)
        second = pool.submit(cache.materialise, bundle_id, store.fetch, tmp_path / "two")
        with pytest.raises(FarmError, match="the store is down"):
            first.result()
        second.result()
    assert id_of(tmp_path / "two") == bundle_id


def hammer(directory: Path, store: Path, ids: list[str], seed: int, rounds: int, max_bytes: int) -> None:
    """Materialise at random and check what comes out: one process of many."""
    pick = random.Random(seed)
    cache = BundleCache(directory, max_bytes=max_bytes)
    for number in range(rounds):
        bundle_id = pick.choice(ids)
        target = directory.parent / f"target-{seed}-{number}"
        cache.materialise(bundle_id, lambda wanted: (store / wanted).open("rb"), target)
        assert id_of(target) == bundle_id


@pytest.mark.parametrize("room", [1, 12 * BLOCK])
def test_eight_processes_with_little_room_all_get_what_they_asked_for(store, tmp_path, room):
    ids = [store.add(name, files=6) for name in "abc"]
    processes = [
        SPAWN.Process(target=hammer, args=(tmp_path / "cache", store.directory, ids, seed, 8, room))
        for seed in range(8)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 8
    BundleCache(tmp_path / "cache", max_bytes=room).trim()
    kept = entries(tmp_path / "cache")
    assert kept <= set(ids)
    assert len(kept) == (1 if room > 1 else 0)


class Stuck(io.BytesIO):
    """An archive of which the second half never comes."""

    def __init__(self, content: bytes, says: Path) -> None:
        super().__init__(content[: len(content) // 2])
        self.says = says

    def read(self, size: int | None = -1) -> bytes:
        if chunk := super().read(size):
            return chunk
        self.says.touch()
        time.sleep(60)
        raise AssertionError("should have been killed")


def get_stuck(directory: Path, store: Path, bundle_id: str) -> None:
    content = (store / bundle_id).read_bytes()
    fetch = lambda _: Stuck(content, directory.parent / "stuck")  # noqa: E731
    BundleCache(directory).materialise(bundle_id, fetch, directory.parent / "killed")


def kill(process: multiprocessing.process.BaseProcess) -> None:
    process.kill()
    process.join(10)
    assert process.exitcode == -signal.SIGKILL


def test_a_process_killed_while_it_unpacks_leaves_a_usable_cache(store, tmp_path):
    bundle_id = store.add("a", files=600, bytes_per_file=500)
    process = SPAWN.Process(target=get_stuck, args=(tmp_path / "cache", store.directory, bundle_id))
    process.start()
    while not (tmp_path / "stuck").exists():
        assert process.is_alive()
        time.sleep(0.01)
    waiting = threading.Thread(
        target=BundleCache(tmp_path / "cache").materialise, args=(bundle_id, store.fetch, tmp_path / "waited")
    )
    waiting.start()
    time.sleep(0.1)
    assert store.fetched == []  # it waits for the other process's fetch
    assert list((tmp_path / "cache/partial").iterdir()) != []
    kill(process)
    waiting.join(10)

    assert id_of(tmp_path / "waited") == bundle_id
    assert entries(tmp_path / "cache") == {bundle_id}


def test_processes_killed_at_any_moment_leave_a_usable_cache(store, tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "theirs"))  # the killed can't clean up after themselves
    ids = [store.add(name, files=20) for name in "abc"]
    pick = random.Random(0)
    for seed in range(5):
        arguments = (tmp_path / "cache", store.directory, ids, seed, 10**6, 24 * BLOCK)
        process = SPAWN.Process(target=hammer, args=arguments)
        process.start()
        while not (tmp_path / f"target-{seed}-0").exists():
            assert process.is_alive()
            time.sleep(0.002)
        time.sleep(pick.uniform(0, 0.05))
        kill(process)
    cache = BundleCache(tmp_path / "cache")
    for bundle_id in ids:
        cache.materialise(bundle_id, store.fetch, tmp_path / bundle_id)
        assert id_of(tmp_path / bundle_id) == bundle_id
    assert entries(tmp_path / "cache") == set(ids)


@pytest.fixture
def pair(tmp_path):
    content = random.Random(0).randbytes(300_000)
    (tmp_path / "from").write_bytes(content)
    with (tmp_path / "from").open("rb") as source, (tmp_path / "to").open("wb") as target:
        yield source.fileno(), target.fileno()
        assert (tmp_path / "to").read_bytes() == content


def test_blocks_are_shared_where_the_file_system_can(pair, monkeypatch):
    source, target = pair
    asked = []

    def ioctl(to, request, argument):
        asked.append((to, request, argument))
        os.pwrite(to, os.pread(argument, 10**6, 0), 0)

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    FileCloner().copy(source, target)
    assert asked == [(target, 0x40049409, source)]


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_that_can_not_share_is_asked_once(pair, monkeypatch, tmp_path, code):
    asked = []

    def ioctl(*_):
        asked.append(1)
        raise OSError(code, "no")

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    cloner = FileCloner()
    cloner.copy(*pair)
    with (tmp_path / "from").open("rb") as source, (tmp_path / "again").open("wb") as target:
        cloner.copy(source.fileno(), target.fileno())
    assert (tmp_path / "again").read_bytes() == (tmp_path / "from").read_bytes()
    assert asked == [1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies in the kernel")
@pytest.mark.parametrize("copied_before", [0, 5000])
def test_a_kernel_that_can_not_copy_is_done_without(pair, monkeypatch, copied_before):
    def copy_file_range(source, target, _count):
        os.write(target, os.read(source, copied_before))
        raise OSError(errno.EIO if copied_before else errno.EXDEV, "no")

    monkeypatch.setattr(fcntl, "ioctl", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "no")))
    monkeypatch.setattr(os, "copy_file_range", copy_file_range)
    FileCloner().copy(*pair)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies in the kernel")
def test_a_full_disk_is_a_clear_error(cache, store, tmp_path, monkeypatch):
    bundle_id = store.add("a")
    cache.materialise(bundle_id, store.fetch, tmp_path / "one")

    def copy_file_range(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", copy_file_range)
    monkeypatch.setattr(fcntl, "ioctl", lambda *_: (_ for _ in ()).throw(OSError(errno.EXDEV, "no")))
    with pytest.raises(FarmError, match=r"can't fill the workspace .*: No space left on device"):
        cache.materialise(bundle_id, store.fetch, tmp_path / "two")
