"""Judge whether the answer is short enough: no longer than a share of the letter it was made from."""

import json
import sys
from pathlib import Path

session = json.load(sys.stdin)
letter = Path(session["input_files"][0]).read_text(encoding="utf-8")
share = len(session["candidate_answer"]) / len(letter)
most = float(sys.argv[1])
json.dump(
    {"score": float(share <= most), "reasoning": f"{share:.0%} of the letter's length, at most {most:.0%}"},
    sys.stdout,
)
