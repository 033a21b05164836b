"""The pool of threads: whoever waits for a free slot hears of it."""

from __future__ import annotations

import select

import pytest
from celery.concurrency import get_implementation
from kombu.asynchronous import Hub

from workers.pool import TaskPool, use_for_threads

PATIENCE_SECONDS = 10.0


@pytest.fixture
def pool():
    pool = TaskPool(2)
    pool.start()
    yield pool
    pool.stop()


def test_a_thread_that_is_done_wakes_the_loop_of_its_worker(pool: TaskPool) -> None:
    hub = Hub()
    pool.register_with_event_loop(hub)
    (watched,) = hub.readers
    assert select.select([watched], [], [], 0)[0] == []
    ended: list[str] = []
    pool.apply_async(lambda: "done", callback=ended.append)
    assert select.select([watched], [], [], PATIENCE_SECONDS)[0] == [watched]
    assert ended == ["done"], "the slot is free before the loop hears of it"
    callback, arguments = hub.readers[watched]
    callback(*arguments)
    assert select.select([watched], [], [], 0)[0] == [], "one wake-up is enough"
    hub.close()


def test_more_ends_than_anybody_listens_to_disturb_no_thread(pool: TaskPool) -> None:
    for _ in range(100_000):
        pool._tell(None)
    assert pool.apply_async(lambda: "done", callback=lambda _: None).get(PATIENCE_SECONDS) is None


def test_celery_takes_it_for_its_own_threads() -> None:
    use_for_threads()
    assert get_implementation("threads") is TaskPool
