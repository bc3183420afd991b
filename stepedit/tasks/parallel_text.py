"""A person's own text: lines that are wrong beside the same lines put right, in any language.

    source   teh cat satt
    target   the cat sat

    step     action           text
    1        swap pos_1       the cat satt
    2        delete pos_10    the cat sat
    3        DONE

Text is cut into tokens without loss (see `tokens`), letters or words. An edit inserts, deletes or substitutes one token
or swaps two neighbours; longer changes are several of them. What an edit may bring is learned from the pairs: whatever
they bring often enough, and, always, any token that is in the text already, be it known or not: that is how a word
that nobody has seen before is moved.

A line longer than `window` tokens is edited window by window; nothing is cut off.

Nothing but the pairs says what is right, so the check accepts everything. Without pairs, made-up words with typing
errors stand in for them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Annotated, Any, ClassVar, Self
from unicodedata import combining

import numpy as np
from pydantic import Field
from rapidfuzz.distance import Levenshtein

from stepedit import edits, text_metrics
from stepedit.actions import Operation, Template
from stepedit.edits import Scripts
from stepedit.equation_sampling import Progress
from stepedit.errors import DataError
from stepedit.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.tasks.task import Task
from stepedit.tokens import CAP, CAPS, Level
from stepedit.vocabulary import PAD_TOKEN, OpenVocabulary, Vocabulary

LETTERS = tuple("abcdefghijklmnopqrstuvwxyz ")
WINDOW = 64  # tokens of a text that are looked at together, at the most
WHOLE, CELLS = 4096, 1 << 25  # tokens of a line that is scored as a whole, at the most; of all, with their padding
MOST_KNOWN, MOST_BROUGHT = 20_000, 8_000  # tokens
LEAST, MANY = 2, 1_000  # how often a token must have been seen to be known; of how many pairs one that is brought
MOST_EDITS = 32
BLURRED = 0.1  # of the known tokens
FARTHEST = 20_000  # tokens of a text that two texts are compared over
ENDS = tuple(".!?;。！？؟।")
CODE = re.compile(r"://|[^\W_][@_\\/.:][^\W_]")  # addresses, paths, names of things
TOO_DIFFERENT = "the sources and targets that differ have too little in common to be compared"


@dataclass(frozen=True)
class ParallelText(Task):
    """Repair text as the pairs do."""

    level: Level = "char"
    window: Annotated[int, Field(ge=2, le=1024)] = 12
    longest_target: Annotated[int, Field(ge=1)] = 12  # of a window
    most: Annotated[int, Field(ge=1)] = 4  # edits of a window
    known: tuple[str, ...] = LETTERS  # tokens
    brought: tuple[str, ...] = LETTERS  # of these, the tokens that edits may bring

    name: ClassVar[str] = "text"
    title: ClassVar[str] = "your own text"
    example: ClassVar[tuple[str, str]] = ("teh cat satt", "the cat sat")
    redraws: ClassVar[bool] = False
    independent: ClassVar[bool] = True
    checks: ClassVar[bool] = False
    learned: ClassVar[frozenset[str]] = frozenset({"window", "longest_target", "most", "known", "brought"})
    metrics: ClassVar[tuple[str, ...]] = ("sequence",)
    stop_metric: ClassVar[str] = "sequence"

    @classmethod
    def fitted(cls, sources: Sequence[str], targets: Sequence[str]) -> Self:
        """The letters, and what edits bring, learned from these pairs."""
        return cls.for_data(sources, targets, {})

    @classmethod
    def for_data(cls, sources: Sequence[str], targets: Sequence[str], options: Mapping[str, Any]) -> Self:
        """The words, and what edits bring, learned from these pairs."""
        task = cls.from_options({"window": WINDOW, "known": (), "brought": (), **options})
        words = task.vocabulary
        cut = [pair for texts in zip(sources, targets, strict=True) for pair in task._cut(*map(words.split, texts))]
        if not any(source != target for source, target in cut):
            reason = "every source is its target already" if all(map(str.__eq__, sources, targets)) else TOO_DIFFERENT
            raise DataError(f"there is nothing to learn: {reason}")
        known = _often((token for pair in cut for token in {*pair[0], *pair[1]}), MOST_KNOWN, LEAST)
        signs = [CAP, CAPS] if task.level == "word" else []
        pairs = task._encoded(cut)
        scripts = task.edits(pairs.sources, pairs.targets)
        brings = scripts.tokens[scripts.widths == 1][:, 0].tolist()
        often = _often(map(words.name, brings), MOST_BROUGHT, LEAST if len(cut) >= MANY else 1)
        return replace(
            task,
            window=max(2, min(task.window, int(pairs.sources.lengths.max()))),
            longest_target=max(1, int(pairs.targets.lengths.max())),
            most=max(4, min(MOST_EDITS, int(scripts.counts.max()))),
            known=tuple(dict.fromkeys([*signs, *known, *often])),
            brought=tuple(dict.fromkeys([*signs, *often])),
        )

    @cached_property
    def vocabulary(self) -> OpenVocabulary:
        """What is known; other tokens are kept as they are."""
        return _shared(self.known, self.level)

    @cached_property
    def template(self) -> Template:
        """Insert, delete or substitute a token, or swap two."""
        return Template(
            fields=("operation", "position", "token"),
            operations=(Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE, Operation.SWAP),
            tokens=frozenset(self.vocabulary.ids(self.brought)),
            copies=True,
        )

    @property
    def longest(self) -> int:
        """A window, or what becomes of it."""
        return max(self.window, self.longest_target) + 4

    @property
    def most_edits(self) -> int:
        """As many as a window of the pairs needed."""
        return self.most

    def generate_targets(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Sequences:
        """Made-up words: tokens at random."""
        few, ids = max(2, self.window // 4), np.arange(1, len(self.vocabulary))
        found = Sequences(np.zeros((0, 0), np.int64), np.zeros(0, np.int64))
        for _ in range(20):
            lengths = rng.integers(few, max(few, self.window // 2) + 1, 2 * size)
            found = Sequences.join([found, Sequences.pack(rng.choice(ids, int(lengths.sum())), lengths)]).distinct()
            if len(found) >= size:
                return found.take(slice(size))
        raise DataError(f"task {self.name}: {len(found)} made-up texts were found, not {size}")

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Each with none to two typing errors."""
        return Sequences.from_rows([self._mistyped(row, rng) for row in targets.rows()])

    def _mistyped(self, row: list[int], rng: np.random.Generator) -> list[int]:
        row = list(row)
        for _ in range(int(rng.integers(0, 3))):
            place, stray = int(rng.integers(0, max(len(row) - 1, 1))), int(rng.integers(1, len(self.vocabulary)))
            match int(rng.integers(0, 4)):
                case 0:
                    row.insert(place, stray)
                case 1 if len(row) > 1:
                    del row[place]
                case 2:
                    row[place] = stray
                case _:
                    row[place : place + 2] = row[place : place + 2][::-1]
        return row

    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """A shortest script of single tokens, in which two neighbours that change places do so at once."""
        return edits.with_swaps(edits.scripts(sources, targets), sources)

    def sayable(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """(B,) whether every edit brings a token that may be brought, or one that is in the text by then."""
        single = scripts.present & (scripts.widths == 1)
        token = np.where(single, scripts.tokens[:, :, 0], PAD)
        fine = ~single | np.isin(token, sorted(self.template.tokens))
        rows, columns = (~fine).nonzero()
        # left of an edit stands the finished target, right of it the source as it was
        start, grown = scripts.starts[rows, columns], (np.cumsum(scripts.growth, 1) - scripts.growth)[rows, columns]
        wanted = token[rows, columns][:, None]
        left = np.arange(pairs.targets.ids.shape[1]) < start[:, None]
        right = np.arange(pairs.sources.ids.shape[1]) >= (start - grown)[:, None]
        fine[rows, columns] = ((pairs.targets.ids[rows] == wanted) & left).any(1)
        fine[rows, columns] |= ((pairs.sources.ids[rows] == wanted) & right).any(1)
        return np.asarray(fine.all(1))

    def summary(self, pairs: Pairs, predictions: Sequences, chrf: bool = False) -> dict[str, dict[str, float]]:
        """The metrics of text, and beside them those of doing nothing."""
        words, targets = self.vocabulary, self.vocabulary.decode(pairs.targets)
        said = {}
        for name, results in (("edited", predictions), ("left as it is", pairs.sources)):
            rows = zip(pairs.sources.rows(), pairs.targets.rows(), results.rows(), strict=True)
            edits = text_metrics.total([text_metrics.counts(*row) for row in rows])
            said[name] = text_metrics.summary(targets, words.decode(results), edits, chrf)
        return said

    def blur(self, rng: np.random.Generator) -> IntArray:
        """(V,) known tokens as they are, but for some, other ones each time, that are taken for unknown.

        What edits bring stays known. All else could turn up unknown one day, and that has to be learned.
        """
        words = self.vocabulary
        ids = np.arange(len(words))
        chosen = np.flatnonzero(rng.random(len(words)) < BLURRED)
        fixed = {PAD, *self.template.tokens}
        for index in chosen.tolist():
            if index not in fixed:
                ids[index] = words.disguised(index)
        return ids

    def check(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """Nobody can tell."""
        return np.ones(len(sources), np.bool_)

    def encode(self, sources: Sequence[str], targets: Sequence[str], whole: bool = False) -> Pairs:
        """Lines of text as pairs of ids: one for each window, or each as it is, if it is no book among many lines."""
        cut, words = list[tuple[list[str], list[str]]](), self.vocabulary
        longest = min(WHOLE, CELLS // max(1, len(sources)))
        for source, target in zip(map(words.split, sources), map(words.split, targets), strict=True):
            as_is = whole and max(len(source), len(target)) <= longest
            cut += [(source, target)] if as_is else self._cut(source, target)
        return self._encoded(cut)

    def _encoded(self, cut: Sequence[tuple[list[str], list[str]]]) -> Pairs:
        return Pairs(*(Sequences.from_rows([self.vocabulary.ids(pair[side]) for pair in cut]) for side in (0, 1)))

    def windows(self, row: Sequence[int], words: Vocabulary) -> list[list[int]]:
        """A long text in parts, cut behind the end of a sentence or before a blank where there is one.

        What was learned from single words is done word by word.
        """
        if not self._of_words:
            return self._windows(row, words)
        parts = list[list[int]]()
        for _, chunk in groupby(row, key=lambda token: words.name(token).isspace()):
            tokens = list(chunk)
            if CODE.search("".join(map(words.name, tokens))):
                parts.append(tokens)
                continue
            runs = groupby(tokens, key=lambda token: self._inside(words.name(token)))
            parts += [part for _, run in runs for part in self._windows(list(run), words)]
        return parts

    def editable(self, part: Sequence[int], words: Vocabulary) -> bool:
        """Where words are edited one by one, all that is no word is left alone: addresses, and what has digits, too."""
        names = [words.name(token) for token in part]
        strange = any(name.isdigit() and name not in self._known for name in names)
        return not self._of_words or (all(map(self._inside, names)) and not strange)

    @cached_property
    def _of_words(self) -> bool:
        """Whether the pairs were single words: letters, and no blank among them."""
        return self.level == "char" and not any(token.isspace() for token in self.known)

    def _inside(self, name: str) -> bool:
        """Whether a token is part of a word."""
        return name in self._known or all(letter.isalnum() or combining(letter) for letter in name)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.known)

    def _windows(self, row: Sequence[int], words: Vocabulary) -> list[list[int]]:
        parts, begin = list[list[int]](), 0
        while len(row) - begin > self.window:
            ends = range(begin + self.window, begin + self.window // 2, -1)
            names = {end: (words.name(row[end - 1]), words.name(row[end])) for end in ends}
            best = max(ends, key=lambda end: (_good_cut(*names[end]), end))
            parts.append(list(row[begin:best]))
            begin = best
        return [*parts, list(row[begin:])] if begin < len(row) else parts

    def _cut(self, source: list[str], target: list[str]) -> list[tuple[list[str], list[str]]]:
        """A pair in parts with sources no longer than a window, cut where both agree; what cannot be is left out."""
        if len(source) <= self.window and len(target) <= self._widest:
            return [(source, target)]
        return [part for pieces in _slices(source, target) for part in self._cut_where_equal(*pieces)]

    @property
    def _widest(self) -> int:
        """How many tokens may become of a window."""
        return max(2 * self.window, self.longest_target)

    def _cut_where_equal(self, source: list[str], target: list[str]) -> list[tuple[list[str], list[str]]]:
        blocks = Levenshtein.opcodes(source, target)
        same = [
            (block.src_start + k, block.dest_start + k)
            for block in blocks
            if block.tag == "equal"
            for k in range(1, block.src_end - block.src_start)  # not right behind an edit, which may belong to both
        ]
        parts, begin, here = list[tuple[list[str], list[str]]](), (0, 0), 0
        while len(source) - begin[0] > self.window or len(target) - begin[1] > self._widest:
            while here < len(same) and same[here][0] <= begin[0]:
                here += 1
            last = here
            while last < len(same) and same[last][0] - begin[0] <= self.window:
                last += 1
            near = [at for at in same[here:last] if at[1] - begin[1] <= self._widest]
            if not near:
                if here >= len(same):
                    return parts
                begin = same[here]  # too different for one window: goes on where both agree again
                continue
            late = near[len(near) // 2 :]
            end = max(late, key=lambda at: (_good_cut(source[at[0] - 1], source[at[0]]), at))
            parts.append((source[begin[0] : end[0]], target[begin[1] : end[1]]))
            begin = end
        return [*parts, (source[begin[0] :], target[begin[1] :])]


@lru_cache(maxsize=8)
def _shared(known: tuple[str, ...], level: Level) -> OpenVocabulary:
    """One for all tasks of the same setting: the ids it gives to unknown tokens are understood by all of them."""
    return OpenVocabulary((PAD_TOKEN, *known), level)


def _slices(source: list[str], target: list[str]) -> list[tuple[list[str], list[str]]]:
    """Two very long texts as what they begin with alike, what differs, and what they end with alike.

    What differs is left out if it is too long to be compared.
    """
    if max(len(source), len(target)) <= FARTHEST:
        return [(source, target)]
    first = max(_alike(source, target) - WINDOW, 0)
    most = min(len(source), len(target)) - first
    last = max(min(_alike(source[::-1], target[::-1]), most) - WINDOW, 0)
    ends = len(source) - last, len(target) - last
    middle = source[first : ends[0]], target[first : ends[1]]
    kept = [middle] if max(map(len, middle)) <= FARTHEST else []
    same = [source[at : at + WINDOW] for at in (*range(0, first, WINDOW), *range(ends[0], len(source), WINDOW))]
    return [*kept, *((part, part) for part in same)]


def _alike(one: list[str], other: list[str]) -> int:
    """How many tokens two texts begin with alike."""
    return next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _good_cut(before: str, behind: str) -> int:
    """How good a place between two tokens is to cut at; never behind a sign, which raises what comes next."""
    if before in (CAP, CAPS):
        return -1
    return 2 if before.endswith((*ENDS, "\n")) else int(behind[:1].isspace() or behind in (CAP, CAPS))


def _often(tokens: Iterable[str], most: int, least: int) -> list[str]:
    """The most frequent tokens, those that are as frequent in order."""
    counts = Counter(tokens)
    kept = sorted((token for token, count in counts.items() if count >= least), key=lambda t: (-counts[t], t))
    return kept[:most]
