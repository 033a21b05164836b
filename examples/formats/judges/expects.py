"""Judge whether the case's expected messages, as the farm passes them on, are those in `config`."""

import json
import sys

session = json.load(sys.stdin)


def short(message: dict) -> dict:
    """Leave out what was not written."""
    calls = [{"tool": call["tool"], "input": call["input"]} for call in message["tool_calls"]]
    return {
        "role": message["role"],
        **({"content": message["content"]} if message["content"] is not None else {}),
        **({"tool_calls": calls} if calls else {}),
    }


given = [short(message) for message in session["expected_messages"]]
wanted = session["config"]["messages"]
json.dump({"score": float(given == wanted), "misses": [] if given == wanted else [str(given)]}, sys.stdout)
