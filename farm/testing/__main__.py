"""`python -m farm.testing SCENARIO.yaml…`: serve scenarios until Ctrl-C, and print their base URLs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from farm.errors import FarmError
from farm.testing.messages_api import ScriptedApi
from farm.testing.scenario import load_scenarios


def main() -> int:
    """Serve the scenarios that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m farm.testing", description=__doc__)
    parser.add_argument("scenarios", nargs="+", type=Path, metavar="SCENARIO.yaml")
    parser.add_argument("--port", type=int, default=0, help="default: any that is free")
    arguments = parser.parse_args()
    try:
        scenarios = load_scenarios(*arguments.scenarios)
    except FarmError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    try:
        with ScriptedApi(scenarios, port=arguments.port) as api:
            for name in scenarios:
                sys.stdout.write(f"{api.base_url(name)}\n")
            sys.stdout.flush()
            api.closing.wait()
    except OSError as error:
        sys.stderr.write(f"port {arguments.port}: {error.strerror}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
