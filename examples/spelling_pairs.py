"""Make pairs of misspelled and right words for training, in splits by family, from codespell and a list of right words.

    pip install codespell
    python examples/spelling_pairs.py --out spelling

Misspellings are those of the installed `codespell`: entries of one word with a single correction. They are licensed
under CC BY-SA 3.0, so they are not part of stepedit. Right words are their corrections and the words that come with the
model `spelling` (SCOWL). All pairs are split by family (`stepedit.data.families`), so no word of the test split, nor
one of its stem, is in the training split, neither misspelled nor right.

In a text, nearly all words are right, and most of them are common. So the training split has each misspelling twice, a
right word up to three times, the more common the more often, and one or two misspellings made up for each common word:
with the errors that codespell's misspellings of the training split have, in the same context of letters.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

from stepedit.data import dataset
from stepedit.data.families import families
from stepedit.data.readers import Lines
from stepedit.inference.model_folder import find

Pair = tuple[str, str]

WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")
COPIES = {35: 3, 50: 2, 70: 1}  # of a right word in training, by SCOWL's size
MADE_UP = {35: 2, 50: 1, 70: 0}  # misspellings made up for each
MISSPELLED_COPIES = 2
SECOND_ERROR = 0.15  # probability that a made-up misspelling has two


def misspelled() -> tuple[list[Pair], set[str]]:
    """Return misspelled words with their only correction, and all words that codespell lists as misspelled."""
    try:
        text = (files("codespell_lib") / "data" / "dictionary.txt").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        sys.exit("the dictionary is part of codespell: pip install codespell")
    entries = [line.strip().lower().split("->") for line in text.splitlines() if "->" in line]
    pairs = [(source, target) for source, target in entries if WORD.fullmatch(source) and WORD.fullmatch(target)]
    return pairs, {source for source, _ in entries}


def right_words() -> dict[str, int]:
    """Return the words that come with the model `spelling`, with their size in SCOWL: the smaller, the more common."""
    import gzip

    size, found = 0, dict[str, int]()
    for line in gzip.decompress((find("spelling") / "keep.txt.gz").read_bytes()).decode().splitlines():
        if line.startswith("#"):
            size = int(line.removeprefix("# size ")) if line.startswith("# size ") else 0
        elif size and WORD.fullmatch(line):
            found[line] = size
    return found


class Errors:
    """Errors of misspelled words in the context of the letters around them."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        seen, contexts = Counter[tuple[str, int, str]](), Counter[str]()
        for source, target in pairs:
            contexts.update(_contexts(target))
            error = _error(source, target)
            if error is not None:
                seen[error] += 1
        self.rates: dict[str, list[tuple[int, str, float]]] = {}
        for (context, width, written), count in sorted(seen.items()):
            if count > 1:
                self.rates.setdefault(context, []).append((width, written, count / contexts[context]))

    def misspell(self, word: str, rng: np.random.Generator) -> str:
        """Return a word with one error; the word itself if no error is known for its letters."""
        found = [(at, *error) for at, context in enumerate(_contexts(word)) for error in self.rates.get(context, [])]
        if not found:
            return word
        weights = np.array([rate for *_, rate in found])
        at, width, written, _ = found[int(rng.choice(len(found), p=weights / weights.sum()))]
        return word[:at] + written + word[at + width :]


def _contexts(word: str) -> list[str]:
    """Return the letters around each place of a word, the one behind it included."""
    padded = f" {word} "
    return [padded[at : at + 3] for at in range(len(word) + 1)]


def _error(source: str, target: str) -> tuple[str, int, str] | None:
    """Return the error of a misspelled word, in one place: the letters around, how many go, what comes; or None."""
    wrong, right = f" {source} ", f" {target} "
    start = _common_prefix(wrong, right)
    end = min(_common_prefix(wrong[::-1], right[::-1]), min(len(wrong), len(right)) - start)
    gone, come = right[start : len(right) - end], wrong[start : len(wrong) - end]
    return (right[start - 1 : start + 2], len(gone), come) if max(len(gone), len(come)) <= 2 else None


def _common_prefix(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def made_up(words: dict[str, int], pairs: Sequence[Pair], refused: set[str], rng: np.random.Generator) -> list[Pair]:
    """Return misspellings of right words; none is a word that is refused."""
    errors, found = Errors(pairs), dict[Pair, None]()
    for word, size in words.items():
        for _ in range(MADE_UP[size] if len(word) > 3 else 0):
            source = errors.misspell(word, rng)
            if rng.random() < SECOND_ERROR:
                source = errors.misspell(source, rng)
            if source not in refused and WORD.fullmatch(source):
                found[source, word] = None
    return list(found)


def splits() -> dict[str, Lines]:
    """Return pairs in splits by family; made-up misspellings and copies are in the training split only."""
    pairs, listed = misspelled()
    sizes = right_words()
    corrections = dict.fromkeys(target for _, target in pairs if target not in listed)
    own = [*pairs, *((word, word) for word in corrections)]
    parts = {name: list(zip(part.sources, part.targets, strict=True)) for name, part in _split(own).items()}
    held_out = [pair for name in ("val", "test") for pair in parts[name]]
    others = _unrelated([word for word in sizes if word not in corrections], held_out)
    words = {word: sizes.get(word, 70) for word in others}
    words |= {word: sizes.get(word, 70) for word, right in parts["train"] if word == right}
    real = [pair for pair in parts["train"] if pair[0] != pair[1]]
    refused = listed | sizes.keys() | corrections.keys()
    extra = made_up(words, real, refused, np.random.default_rng(0))
    copies = [(word, word) for word, size in words.items() for _ in range(COPIES[size])]
    parts["train"] = [*real * MISSPELLED_COPIES, *extra, *copies]
    return {name: Lines([source for source, _ in part], [target for _, target in part]) for name, part in parts.items()}


def _split(pairs: Sequence[Pair]) -> dict[str, Lines]:
    return dataset.split_by_family(Lines([source for source, _ in pairs], [target for _, target in pairs]))


def _unrelated(words: Sequence[str], held_out: Sequence[Pair]) -> list[str]:
    """Return the words that are in no family of a held-out pair."""
    sources = [*(source for source, _ in held_out), *words]
    groups = families(Lines(sources, [*(target for _, target in held_out), *words]))
    refused = set(groups[: len(held_out)])
    return [word for word, group in zip(words, groups[len(held_out) :], strict=True) if group not in refused]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write pairs of words in splits by family.")
    parser.add_argument("--out", type=Path, required=True, help="folder, to be created")
    found = splits()
    dataset.write(parser.parse_args().out, found, dataset.Card())
    for name, lines in found.items():
        wrong = sum(map(str.__ne__, lines.sources, lines.targets))
        print(f"{name}: {wrong:,} misspelled, {len(lines) - wrong:,} right")
