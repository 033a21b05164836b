"""Start a worker: what `farm worker` and the embedded engine run."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading

from farm.queue.names import URL_VARIABLE


def main() -> None:
    """Start a worker with Celery's arguments made from ours."""
    parser = argparse.ArgumentParser(prog="farm worker")
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--pool", choices=("threads", "prefork"), default="threads")
    parser.add_argument("--name", default=None)
    parser.add_argument("--loglevel", default="INFO")
    arguments = parser.parse_args()
    if arguments.embedded:
        sys.exit(_run_embedded(arguments.concurrency))
    from celery.bin.celery import celery

    celery_arguments = ["worker", "--concurrency", str(arguments.concurrency)]
    celery_arguments += ["--pool", arguments.pool, "--loglevel", arguments.loglevel]
    if arguments.name:
        celery_arguments += ["--hostname", f"{arguments.name}@%h"]
    # Not app.worker_main(): it ends with exit code 0, whatever happened.
    celery.main(args=["--app", "workers.app", *celery_arguments])


def _run_embedded(concurrency: int) -> int:
    """Run the worker of one embedded run: for nobody else, so nobody needs to hear of it or to talk to it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _share_temporary_directory()
    # Imports make many objects and no garbage; and what is frozen stays shared with the pool.
    gc.disable()
    from workers.app import app

    app.loader.import_default_modules()
    gc.freeze()
    gc.enable()

    app.conf.worker_send_task_events = False
    app.conf.worker_enable_remote_control = False
    # Not by Celery's command line: to import that takes a quarter of a second.
    worker = app.Worker(
        pool_cls="prefork",
        concurrency=concurrency,
        loglevel="WARNING",
        quiet=True,
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
    )
    worker.start()
    return worker.exitcode or 0


def _share_temporary_directory() -> None:
    """Let the pool's own files lie beside the server's socket: nobody else would remove them at our end."""
    from multiprocessing.process import current_process
    from urllib.parse import urlsplit

    socket = urlsplit(os.environ[URL_VARIABLE]).path
    current_process()._config["tempdir"] = os.path.dirname(socket)  # type: ignore[attr-defined]  # noqa: PTH120


def _end_with_parent() -> None:
    """End at once when standard input does: who started us has gone, or wants us gone."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
