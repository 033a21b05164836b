"""Start a worker or a beat: what `farm worker`, the embedded engine and `farm beat` run."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading

_BEAT_OPTIONS = ("max-interval", "pidfile", "logfile")


def main() -> None:
    """Start a worker, or a beat, with Celery's arguments made from ours."""
    parser = argparse.ArgumentParser(prog="farm worker")
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--beat", action="store_true")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--pool", choices=("threads", "prefork"), default="threads")
    parser.add_argument("--name", default=None)
    parser.add_argument("--loglevel", default="INFO")
    for option in _BEAT_OPTIONS:
        parser.add_argument(f"--{option}", default=None)
    arguments = parser.parse_args()
    if arguments.embedded:
        sys.exit(_run_embedded(arguments.concurrency))
    from celery.bin.celery import celery

    if arguments.beat:
        celery_arguments = ["beat", "--loglevel", arguments.loglevel]
        for option in _BEAT_OPTIONS:
            if (value := getattr(arguments, option.replace("-", "_"))) is not None:
                celery_arguments += [f"--{option}", value]
        celery.main(args=["--quiet", "--app", "workers.app", *celery_arguments])
        return
    celery_arguments = ["worker", "--concurrency", str(arguments.concurrency)]
    celery_arguments += ["--pool", arguments.pool, "--loglevel", arguments.loglevel]
    if arguments.name:
        celery_arguments += ["--hostname", f"{arguments.name}@%h"]
    # Not app.worker_main(): it ends with exit code 0, whatever happened.
    celery.main(args=["--app", "workers.app", *celery_arguments])


def _run_embedded(concurrency: int) -> int:
    """Run the worker of one embedded run: for nobody else, so nobody needs to hear of it or to talk to it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Imports make many objects and no garbage, and later collections need not look at them again.
    gc.disable()
    from workers.app import app

    app.loader.import_default_modules()
    gc.freeze()
    gc.enable()

    app.conf.worker_send_task_events = False
    app.conf.worker_enable_remote_control = False
    # Not by Celery's command line: to import that takes a quarter of a second.
    worker = app.Worker(
        pool_cls="threads",
        concurrency=concurrency,
        loglevel="WARNING",
        quiet=True,
        without_heartbeat=True,
        without_mingle=True,
        without_gossip=True,
    )
    worker.start()
    return worker.exitcode or 0


def _end_with_parent() -> None:
    """End at once when standard input does: who started us has gone, or wants us gone."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
