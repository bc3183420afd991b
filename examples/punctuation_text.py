"""Print clean sentences for a punctuation model: Python's help topics, and the questions of a JSONL file.

    python examples/punctuation_text.py disflqa/train.jsonl > clean.txt

The help topics have hardly any question. Disfl-QA (Google, CC BY 4.0; github.com/google-research-datasets/disfl-qa) has
thousands; `target` (or `original`) is the fluent question. As many of them are taken as there are help sentences.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stepedit.text.noise import help_sentences


def questions(path: Path) -> list[str]:
    """Return the distinct questions of a file that begin with a capital and end with a question mark."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = dict.fromkeys(str(row.get("target", row.get("original", ""))) for row in rows)
    return [question for question in found if question[:1].isupper() and question.endswith("?")]


if __name__ == "__main__":
    sentences = help_sentences()
    asked = questions(Path(sys.argv[1])) if len(sys.argv) > 1 else []
    print("\n".join([*sentences, *asked[: len(sentences)]]))
