"""Spelling correction: models beside symspellpy and pyspellchecker, on words that none of them was made from.

    pip install codespell symspellpy pyspellchecker
    python examples/spelling_pairs.py --out spelling
    python -m benchmarks.spelling spelling MODEL [MODEL...] [--words 1000] [--other NAME=FILE...]

The first argument is the folder of pairs. The test split has families of words of which nothing was seen in training,
neither a misspelled nor a right form. `--other` names a list of misspellings from elsewhere: lines of a right word and
its misspellings (nlpaug's `spelling_en.txt`), or JSON of the same (augly's `misspelling.json`). Of these, only pairs
are used whose source and target are not in the training split, so that no corrector was made from them; and no source
that a word list knows, because a corrector of single words cannot tell that it is wrong.

Models run as they come (threshold and word list), without the threshold, with a beam, and with symspellpy's lexicon.
Shares have 95 % intervals (Wilson).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from stepedit.data.dataset import read_splits
from stepedit.data.readers import Lines
from stepedit.evaluation.intervals import wilson
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.text.lexicon import Lexicon

Corrector = Callable[[Sequence[str]], list[str]]
Pair = tuple[str, str]
Item = TypeVar("Item")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


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


def model(editor: Editor, decoding: Decoding | None = None) -> Corrector:
    """Return a model as a corrector."""
    return lambda words: [result.text for result in editor.edit(words, decoding)]


def correctors(names: Sequence[str], fast: bool) -> Iterator[tuple[str, Corrector]]:
    """Yield all that is compared."""
    yield "copied source", list
    yield "symspellpy", symspell()
    if not fast:
        yield "pyspellchecker", pyspell()
    for name in names:
        editor, title = Editor.load(name), Path(name).name
        yield title, model(editor)
        yield f"{title}, beam size 5", model(editor, Decoding(beam_size=5))
        yield f"{title}, no threshold", model(editor, Decoding(min_confidence=0))
        yield f"{title}, no threshold, no word list", model(replace(editor, keep=None), Decoding(min_confidence=0))
        known = Lexicon.read(lexicon_path())
        yield f"{title}, symspellpy's lexicon", model(editor, Decoding(min_confidence=0, lexicon=known))


def shown(successes: int, total: int) -> str:
    """Return a share and its 95 % interval, in percent."""
    share = successes / max(1, total)
    low, high = wilson(share, max(1, total))
    return f"{share:>6.1%} ({low:.1%} to {high:.1%})"


def row(name: str, corrector: Corrector, misspelled: Sequence[Pair], right: Sequence[str]) -> str:
    """Return one line: the shares of misspelled words corrected and of right words kept, and words per second."""
    started = time.perf_counter()
    results = corrector([source for source, _ in misspelled])
    speed = len(misspelled) / (time.perf_counter() - started)
    corrected = sum(word == target for word, (_, target) in zip(results, misspelled, strict=True))
    kept = shown(sum(map(str.__eq__, corrector(right), right)), len(right)) if right else ""
    return f"{name:<42} {shown(corrected, len(misspelled)):<24} {kept:<24} {speed:>8,.0f}"


def read_other(path: Path) -> list[Pair]:
    """Return the pairs of a list of misspellings: lines of words, the right one first, or a JSON object."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        entries = [(right, list(wrong)) for right, wrong in json.loads(text).items()]
    else:
        entries = [(words[0], words[1:]) for words in map(str.split, text.splitlines()) if words]
    pairs = dict.fromkeys((source, right) for right, wrong in entries for source in wrong if source != right)
    return [pair for pair in pairs if all(WORD.fullmatch(text) for text in pair)]


def unseen(pairs: Sequence[Pair], train: Lines, known: Callable[[str], bool]) -> list[Pair]:
    """Return the pairs of which nothing is in the training split, and whose source is not a known word."""
    seen = {*train.sources, *train.targets}
    return [(source, target) for source, target in pairs if not {source, target} & seen and not known(source)]


def sample(some: Sequence[Item], size: int) -> list[Item]:
    """Return so many of them, always the same ones."""
    return random.Random(0).sample(some, min(size, len(some)))


def main(data: str, names: Sequence[str], num_words: int, others: dict[str, Path], fast: bool) -> None:
    """Compare on a sample of the test split, and on other lists."""
    splits, lexicon, keep = read_splits(data).splits, Lexicon.read(lexicon_path()), Editor.load(names[0]).keep
    test = list(zip(splits["test"].sources, splits["test"].targets, strict=True))
    sets = {"test split": ([pair for pair in test if pair[0] != pair[1]], [one for one, other in test if one == other])}
    for title, path in others.items():
        pairs = unseen(
            read_other(path), splits["train"], lambda word: lexicon.knows(word) or (keep is not None and word in keep)
        )
        sets[title] = pairs, []
    compared = list(correctors(names, fast))
    for title, (misspelled, right) in sets.items():
        misspelled, right = sample(misspelled, num_words), sample(right, num_words)
        in_lexicon = sum(lexicon.knows(target) for _, target in misspelled) / max(1, len(misspelled))
        in_keep = sum(keep is not None and target in keep for _, target in misspelled) / max(1, len(misspelled))
        print(
            f"\n{title}: {len(misspelled):,} misspelled, {len(right):,} right words; targets in symspellpy's lexicon ",
            end="",
        )
        print(f"{in_lexicon:.1%}, in the model's word list {in_keep:.1%}")
        print(f"{'':<42} {'corrected':<24} {'right words kept':<24} {'words/s':>8}")
        for name, corrector in compared:
            print(row(name, corrector, misspelled, right), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare models with two spelling correctors.")
    parser.add_argument("data", help="folder of pairs in splits by family")
    parser.add_argument("models", nargs="+", help="names or folders")
    parser.add_argument("--words", type=int, default=1_000, help="words of each kind, at most; pyspellchecker is slow")
    parser.add_argument("--other", action="append", default=[], metavar="NAME=FILE", help="list of misspellings")
    parser.add_argument("--fast", action="store_true", help="leave out pyspellchecker, which takes a second per word")
    args = parser.parse_args()
    lists = {name: Path(path) for name, _, path in (one.partition("=") for one in args.other)}
    main(args.data, args.models, args.words, lists, args.fast)
