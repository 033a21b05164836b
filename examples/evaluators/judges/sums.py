"""Judge whether the answer is the sum of a column of a CSV file in the workspace.

A judge reads what it needs to know as JSON from stdin, and prints its verdict as JSON.
"""

import csv
import json
import sys
from pathlib import Path

session = json.load(sys.stdin)
config = session["config"]  # the evaluator's keys that the farm does not know

with (Path(session["workspace_path"]) / config["table"]).open(encoding="utf-8", newline="") as file:
    total = sum(float(row[config["column"]]) for row in csv.DictReader(file))

right = f"{total:.2f}" in session["candidate_answer"]
looked = bool((session["trace_summary"] or {}).get("tool_names"))

verdict = {
    "score": 0.8 * right + 0.2 * looked,
    "hits": [words for holds, words in ((right, f"says {total:.2f}"), (looked, "looked it up")) if holds],
    "misses": [
        words for holds, words in ((right, f"does not say {total:.2f}"), (looked, "guessed")) if not holds
    ],
    "reasoning": f"The column {config['column']} adds up to {total:.2f}.",
}
json.dump(verdict, sys.stdout)
