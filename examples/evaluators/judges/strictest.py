"""Aggregate a composite: as good as its worst member."""

import json
import sys

results = json.load(sys.stdin)["results"]
worst = min(results, key=lambda name: results[name]["score"])
json.dump({"score": results[worst]["score"], "reasoning": f"the worst is {worst}"}, sys.stdout)
