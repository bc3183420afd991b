"""Print pairs of misspelled and correct words from the installed `codespell` package as TSV.

    pip install codespell
    python examples/spelling_pairs.py > spelling.tsv

The dictionary is read from the installed package: it is licensed under CC BY-SA 3.0, so it is not part of stepedit.
Entries of one word with a single correction are used. Every correct word is also paired with itself, so that a model
learns to leave correct words unchanged.
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files

WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def pairs() -> list[tuple[str, str]]:
    """Return misspelled words with their corrections, in the order of the dictionary, then correct words."""
    try:
        text = (files("codespell_lib") / "data" / "dictionary.txt").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        sys.exit("the dictionary is part of codespell: pip install codespell")
    entries = [tuple(line.strip().lower().split("->")) for line in text.splitlines() if "->" in line]
    misspelled = [(source, target) for source, target in entries if WORD.fullmatch(source) and WORD.fullmatch(target)]
    sources = {source for source, _ in misspelled}
    correct = dict.fromkeys(target for _, target in misspelled if target not in sources)
    return [*misspelled, *((word, word) for word in correct)]


if __name__ == "__main__":
    sys.stdout.write("source\ttarget\n")
    sys.stdout.writelines(f"{source}\t{target}\n" for source, target in pairs())
