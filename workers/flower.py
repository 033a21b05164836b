"""Start Flower on the farm's application: what `farm flower` becomes."""

from __future__ import annotations

import os
import sys

from farm.queue.names import FLOWER_AUTH_VARIABLE


def main() -> None:
    """Start Flower with its own options as arguments, and the accounts that the environment has."""
    from celery.bin.celery import celery
    from flower.options import options  # type: ignore[import-untyped]
    from tornado.options import Error

    arguments = sys.argv[1:]
    # Flower itself passes over what it does not know.
    known = {name.replace("-", "_") for name in options}
    names = [argument.removeprefix("--").partition("=")[0] for argument in arguments]
    if unknown := [name for name in names if name.replace("-", "_") not in known]:
        sys.stderr.write(f"farm: Flower has no option --{unknown[0]}\n")
        sys.exit(2)
    # Not as an argument, which every user of the machine could read; nor by Flower's own variable, in which
    # a comma in a password would make two accounts of one, the second without a user.
    if accounts := os.environ.pop(FLOWER_AUTH_VARIABLE, ""):
        os.environ.pop("FLOWER_BASIC_AUTH", None)
        options.basic_auth = accounts.split("\n")
    try:
        celery.main(args=["--app", "workers.app", "flower", *arguments])
    except (OSError, ValueError, Error) as error:  # the port is taken, a file is not there, a value is none
        sys.stderr.write(f"farm: Flower can't be started so: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
