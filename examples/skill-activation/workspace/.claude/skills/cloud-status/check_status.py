"""Print the state of each service, from the last known state in services.json."""

import json
import sys
from pathlib import Path

services = json.loads(Path("services.json").read_text(encoding="utf-8"))
sys.stdout.writelines(f"{service}: {state}\n" for service, state in services.items())
