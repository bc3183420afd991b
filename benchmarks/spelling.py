"""Spelling correction: runs beside symspellpy and pyspellchecker, on the same held-out words.

    pip install codespell symspellpy pyspellchecker
    python examples/spelling_pairs.py > spelling.tsv
    stepedit train --data spelling.tsv --mode augmented --out runs/spelling
    python -m benchmarks.spelling runs/spelling [RUN...] [--words 1000]

The words are from the test split of the first run: no target among them was seen in training. Runs are measured without
a lexicon and with that of symspellpy; pyspellchecker has its own.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from stepedit.data.dataset import read_splits
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.text.lexicon import Lexicon

Corrector = Callable[[Sequence[str]], list[str]]


def lexicon_path() -> Path:
    """Return the lexicon that comes with symspellpy."""
    return Path(str(files("symspellpy") / "frequency_dictionary_en_82_765.txt"))


def symspell() -> Corrector:
    """Return symspellpy with its lexicon and at most two edits, as in its documentation."""
    from symspellpy import SymSpell, Verbosity

    corrector = SymSpell(max_dictionary_edit_distance=2, prefix_length=7)
    corrector.load_dictionary(str(lexicon_path()), term_index=0, count_index=1)

    def correct(words: Sequence[str]) -> list[str]:
        found = (corrector.lookup(word, Verbosity.TOP, max_edit_distance=2, include_unknown=True) for word in words)
        return [suggestions[0].term for suggestions in found]

    return correct


def pyspell() -> Corrector:
    """Return pyspellchecker with its lexicon."""
    from spellchecker import SpellChecker

    corrector = SpellChecker()
    return lambda words: [corrector.correction(word) or word for word in words]


def model(editor: Editor, lexicon: Lexicon | None = None) -> Corrector:
    """Return a run as a corrector, with a lexicon or without, and without a confidence threshold."""
    decoding = Decoding(lexicon=lexicon, min_confidence=0.0)
    return lambda words: [result.text for result in editor.edit(words, decoding)]


def row(name: str, corrector: Corrector, misspelled: Sequence[tuple[str, str]], correct_words: Sequence[str]) -> str:
    """Return one line: the shares of misspelled words corrected and of correct words kept, and words per second."""
    started = time.perf_counter()
    results = corrector([source for source, _ in misspelled])
    seconds = time.perf_counter() - started
    corrected = sum(word == target for word, (_, target) in zip(results, misspelled, strict=True)) / len(misspelled)
    kept = sum(map(str.__eq__, corrector(correct_words), correct_words)) / max(1, len(correct_words))
    return f"{name:<44} {corrected:>9.2%} {kept:>12.2%} {len(misspelled) / seconds:>10,.0f}"


def main(folders: Sequence[Path], num_words: int) -> None:
    """Compare on a sample of the words."""
    editors = [Editor.load(folder) for folder in folders]
    run = editors[0].run
    if run.data is None:
        raise SystemExit(f"{folders[0]}: expected a run on pairs of words")
    test = read_splits(run.data, run.target_file, run.source_column, run.target_column).splits["test"]
    pairs = list(zip(test.sources, test.targets, strict=True))
    random.Random(0).shuffle(pairs)
    misspelled = [pair for pair in pairs if pair[0] != pair[1]][:num_words]
    correct_words = [source for source, target in pairs if source == target][:num_words]
    lexicon = Lexicon.read(lexicon_path())
    known = sum(lexicon.knows(target) for _, target in misspelled) / len(misspelled)
    print(f"{len(misspelled):,} misspelled words, {known:.1%} of their targets in the lexicon; ", end="")
    print(f"{len(correct_words):,} correct words\n")
    print(f"{'':<44} {'corrected':>9} {'correct kept':>12} {'words/s':>10}")
    baselines = {"copied source": list, "symspellpy": symspell(), "pyspellchecker": pyspell()}
    for name, corrector in baselines.items():
        print(row(name, corrector, misspelled, correct_words))
    for folder, editor in zip(folders, editors, strict=True):
        name = f"{folder.name} ({editor.run.method})"
        print(row(name, model(editor), misspelled, correct_words))
        if editor.method.iterative:
            fresh = Lexicon.read(lexicon_path())  # without the words that an earlier run has cached
            print(row(f"{name}, lexicon", model(editor, fresh), misspelled, correct_words))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare runs with two spelling correctors.")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--words", type=int, default=1_000, help="words of each kind, at most; pyspellchecker is slow")
    args = parser.parse_args()
    main(args.runs, args.words)
