"""A very small agent. It understands two requests, and tells the farm which tools it used.

Started as `python3 agent.py PROMPT_FILE OUTPUT_FILE`, in the workspace.
"""

import json
import re
import sys
from pathlib import Path

messages: list[dict[str, object]] = []


def remember_call(tool: str, **call: object) -> None:
    """Note a tool call for the farm."""
    messages.append({"role": "assistant", "tool_calls": [{"tool": tool, **call}]})


def read(path: str) -> str:
    """Read a file of the workspace."""
    content = Path(path).read_text(encoding="utf-8")
    remember_call("Read", input={"file_path": path}, output=content)
    return content


def write(path: str, content: str) -> None:
    """Write a file of the workspace."""
    Path(path).write_text(content, encoding="utf-8")
    remember_call("Write", input={"file_path": path, "content": content})


def answer(prompt: str) -> str:
    """Do what is asked."""
    stock = dict(line.split(",") for line in read("stock.csv").splitlines())
    if asked := re.search(r"How many (\w+)", prompt):
        item = asked[1]
        return f"There are {stock[item]} {item} in stock." if item in stock else f"We don't sell {item}."
    if asked := re.search(r"Order (\d+) (\w+)", prompt):
        # The fault that a test is there to find: what is ordered is not in stock yet.
        stock[asked[2]] = asked[1]
        write("stock.csv", "".join(f"{item},{count}\n" for item, count in stock.items()))
        return f"{asked[1]} {asked[2]} are on their way."
    sys.exit(f"I don't understand: {prompt}")


prompt_file, output_file = map(Path, sys.argv[1:])
text = answer(prompt_file.read_text(encoding="utf-8"))
messages.append({"role": "assistant", "content": text})
usage = {"input": 40, "output": len(text.split())}
record = {"output_messages": messages, "token_usage": usage, "cost_usd": 0.0001}
output_file.write_text(json.dumps(record), encoding="utf-8")
