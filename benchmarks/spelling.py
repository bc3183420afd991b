"""Spelling: a run beside two spelling correctors that are used as they come, on the same held-out words.

    pip install codespell symspellpy pyspellchecker
    python examples/spelling_pairs.py > spelling.tsv
    stepedit train --data spelling.tsv --mode augmented --out runs/spelling
    python -m benchmarks.spelling runs/spelling [RUN...] [--words 1000]

The words are of the run's test split, of which no right form was seen in training. symspellpy has the list of words it
comes with, and so has a run, which also does without; pyspellchecker has its own.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from stepedit.datasets import for_training
from stepedit.editor import Editor
from stepedit.lexicon import Lexicon

Corrector = Callable[[Sequence[str]], list[str]]


def word_list() -> Path:
    """The list that symspellpy comes with."""
    return Path(str(files("symspellpy") / "frequency_dictionary_en_82_765.txt"))


def symspell() -> Corrector:
    """symspellpy with its own list, two changes at the most, as its documentation shows it."""
    from symspellpy import SymSpell, Verbosity

    corrector = SymSpell(max_dictionary_edit_distance=2, prefix_length=7)
    corrector.load_dictionary(str(word_list()), term_index=0, count_index=1)

    def correct(words: Sequence[str]) -> list[str]:
        found = (corrector.lookup(word, Verbosity.TOP, max_edit_distance=2, include_unknown=True) for word in words)
        return [each[0].term for each in found]

    return correct


def pyspell() -> Corrector:
    """pyspellchecker with its own list."""
    from spellchecker import SpellChecker

    corrector = SpellChecker()
    return lambda words: [corrector.correction(word) or word for word in words]


def edited(folder: Path, lexicon: Lexicon | None) -> Corrector:
    """A run, with a list of words or without."""
    editor = Editor.load(folder)
    return lambda words: [one.text for one in editor.edit(words, lexicon=lexicon, least=0.0)]


def line(name: str, correct: Corrector, wrong: Sequence[tuple[str, str]], right: Sequence[str]) -> str:
    """How many misspelled words came out right, how many right ones stayed, how fast."""
    began = time.perf_counter()
    mended = correct([source for source, _ in wrong])
    seconds = time.perf_counter() - began
    share = sum(word == target for word, (_, target) in zip(mended, wrong, strict=True)) / len(wrong)
    kept = sum(map(str.__eq__, correct(right), right)) / max(1, len(right))
    return f"{name:<44} {share:>9.2%} {kept:>12.2%} {len(wrong) / seconds:>10,.0f}"


def main(folders: Sequence[Path], words: int) -> None:
    """Compare on some of the words."""
    run = Editor.load(folders[0]).run
    assert run.data is not None, "a run on pairs of words was expected"
    test = for_training(run.data, run.targets, run.source, run.target).splits["test"]
    pairs = list(zip(test.sources, test.targets, strict=True))
    random.Random(0).shuffle(pairs)
    wrong, right = [pair for pair in pairs if pair[0] != pair[1]], [word for word, target in pairs if word == target]
    wrong, right = wrong[:words], right[:words]
    lexicon = Lexicon.read(word_list())
    listed = sum(lexicon.knows(target) for _, target in wrong) / len(wrong)
    print(f"{len(wrong):,} misspelled words, {len(right):,} right ones; {listed:.1%} of the targets are in the list\n")
    print(f"{'':<44} {'mended':>9} {'left right':>12} {'words/s':>10}")
    print(line("nothing done", list, wrong, right))
    print(line("symspellpy", symspell(), wrong, right))
    print(line("pyspellchecker", pyspell(), wrong, right))
    for folder in folders:
        method = Editor.load(folder).run.method
        print(line(f"{folder.name} ({method})", edited(folder, None), wrong, right))
        if method == "recurrence":
            name = f"{folder.name} ({method}), the same list"
            print(line(name, edited(folder, Lexicon.read(word_list())), wrong, right))


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description="Compare runs with two spelling correctors.")
    asked.add_argument("runs", nargs="+", type=Path)
    asked.add_argument("--words", type=int, default=1_000, help="of each kind at the most: pyspellchecker is slow")
    said = asked.parse_args()
    main(said.runs, said.words)
