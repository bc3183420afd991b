"""Write a list of right English words, from word lists of SCOWL, as `keep.txt.gz`.

    apt-get install wamerican wamerican-small wamerican-large wbritish-small wbritish wbritish-large
    python examples/right_words.py --out keep.txt.gz        # --folder, if the lists are not in /usr/share/dict

SCOWL (Kevin Atkinson, http://wordlist.aspell.net) is free for any use if its notice is kept. The words come in blocks,
the most common ones first, each after a comment that names SCOWL's size: 35, 50, 70. Possessives are left out, because
`Keep` knows them, and so is every word that codespell (`pip install codespell`) lists as a misspelling. The last block
has words with accents without them, and words of computing that SCOWL does not have (`computing_words.txt`, part of
stepedit); models are not trained on it.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import unicodedata
from importlib.resources import files
from pathlib import Path

COMPUTING = Path(__file__).with_name("computing_words.txt")
SIZES = {35: "-small", 50: "", 70: "-large"}  # SCOWL's size and the name of Debian's list


def misspellings() -> set[str]:
    """Return the misspelled words of codespell's main dictionary."""
    try:
        text = (files("codespell_lib") / "data" / "dictionary.txt").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        sys.exit("the misspellings are part of codespell: pip install codespell")
    return {line.partition("->")[0].strip().lower() for line in text.splitlines() if "->" in line}


def blocks(folder: Path) -> dict[int, list[str]]:
    """Return the words of each size that are not in a smaller one, in alphabetical order."""
    seen, found = misspellings(), dict[int, list[str]]()
    for size, ending in SIZES.items():
        lists = [folder / f"{country}-english{ending}" for country in ("american", "british")]
        words = {word.lower() for path in lists for word in path.read_text(encoding="utf-8").split()}
        found[size] = sorted(word for word in words if word not in seen and not word.endswith("'s"))
        seen |= words
    return found


def without_accents(word: str) -> str:
    """Return a word in plain letters."""
    return "".join(letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))


def main(folder: Path, out: Path) -> None:
    """Write the list; the same words always give the same bytes."""
    lines = ["# English words of SCOWL, Copyright 2000-2011 by Kevin Atkinson; see KEEP-NOTICE.txt"]
    for size, words in blocks(folder).items():
        lines += [f"# size {size}", *words]
    more = {*COMPUTING.read_text().split(), *map(without_accents, lines)}
    lines += ["# without accents; words of computing", *sorted(more - set(lines) - misspellings())]
    out.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), 9, mtime=0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a list of right English words.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("/usr/share/dict"))
    args = parser.parse_args()
    main(args.folder, args.out)
