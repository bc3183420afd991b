"""Pairs of misspelled and right words from the installed `codespell` package, as TSV on standard output.

    pip install codespell
    python examples/spelling_pairs.py > spelling.tsv

The dictionary is read where pip has put it: it is licensed under CC BY-SA 3.0, so it is no part of stepedit. Taken are
the misspellings of one word by one word with a single right answer. Every right word is also paired with itself, so
that a programmer learns to leave it alone.
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files

WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def pairs() -> list[tuple[str, str]]:
    """Misspelled and right words, in the order of the dictionary, then the right ones with themselves."""
    try:
        text = (files("codespell_lib") / "data" / "dictionary.txt").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        sys.exit("the dictionary is part of codespell: pip install codespell")
    found = [tuple(line.strip().lower().split("->")) for line in text.splitlines() if "->" in line]
    wrong = [(source, target) for source, target in found if WORD.fullmatch(source) and WORD.fullmatch(target)]
    misspelled = {source for source, _ in wrong}
    right = dict.fromkeys(target for _, target in wrong if target not in misspelled)
    return [*wrong, *((word, word) for word in right)]


if __name__ == "__main__":
    sys.stdout.write("source\ttarget\n")
    sys.stdout.writelines(f"{source}\t{target}\n" for source, target in pairs())
