"""Synthetic errors: those of pairs, made again in their targets.

Pairs say which phrases, endings and additional tokens their sources have by mistake, and how often the targets have
what is right there. Each is made again at about that rate, wherever it is possible:

    phrase    in    where `on` is right, in one of so many `on`
    ending    -s    where a word has none, also in words that were always right so far
    token     the   behind `of`, where there should be none

So a target gets another source in every epoch, with errors that people make, and a network memorizes the pairs later.
There are somewhat fewer errors than in the pairs: rates are smoothed, and phrases of more than three tokens left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

import numpy as np

from stepedit.editing.edits import edit_spans
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.text.affix_rules import MAX_REMOVED, MIN_COUNT, MIN_STEM, rule_between
from stepedit.text.tokenization import CAP, CAPS, is_word
from stepedit.text.vocabulary import Vocabulary

MAX_TOKENS = 3  # of a phrase
SMOOTHING = 5.0  # occurrences without the error, so that what was seen once is not always wrong
START = -1  # what stands before a text

Phrase = tuple[int, ...]
Key = TypeVar("Key", bound=Hashable)
Form = TypeVar("Form", bound=Hashable)  # what is written by mistake


@dataclass(frozen=True)
class Errors(Generic[Form]):
    """The errors that are made in one place, and how often."""

    rate: float
    wrong: list[Form]
    weights: list[int]  # cumulative

    @classmethod
    def of(cls, counts: Counter[Form], occurrences: int) -> Errors[Form]:
        """Return errors from how often each was made."""
        total = counts.total()
        return cls(total / (max(total, occurrences) + SMOOTHING), list(counts), list(accumulate(counts.values())))

    def draw(self, rng: Random) -> Form | None:
        """Return an error at its rate, or None."""
        return rng.choices(self.wrong, cum_weights=self.weights)[0] if rng.random() < self.rate else None


class ErrorModel:
    """The errors of pairs."""

    def __init__(self, pairs: Pairs, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        phrases, behind = defaultdict[Phrase, Counter[Phrase]](Counter), defaultdict[int, Counter[Phrase]](Counter)
        endings = Counter[tuple[str, str]]()
        rows = list(zip(pairs.sources.rows(), pairs.targets.rows(), strict=True))
        for source, target in rows:
            for edit in edit_spans(target, source):  # what makes the source of the target
                right, wrong = tuple(target[edit.start : edit.stop]), edit.tokens
                if not right:
                    behind[target[edit.start - 1] if edit.start else START][wrong] += 1
                elif len(right) <= MAX_TOKENS:
                    phrases[right][wrong] += 1
                    endings.update(self._ending(right, wrong))
        targets = [target for _, target in rows]
        self.phrases = _with_rates(phrases, _phrases(targets, phrases))
        self.behind = _with_rates(behind, Counter(token for target in targets for token in (START, *target)))
        self.endings = self._endings(endings, targets)

    def _ending(self, right: Phrase, wrong: Phrase) -> list[tuple[str, str]]:
        """Return the ending of a word and the wrong one, if the words differ in nothing else."""
        if len(right) != 1 or len(wrong) != 1:
            return []
        old, new = self.vocabulary.name(right[0]), self.vocabulary.name(wrong[0])
        rule = rule_between(old, new)
        if rule is None or not rule.at_end:
            return []
        return [(old[len(old) - rule.removed :], rule.added)]

    def _endings(self, found: Counter[tuple[str, str]], targets: Iterable[Sequence[int]]) -> dict[str, Errors[str]]:
        """Return the errors of each ending that are made often."""
        errors, occurrences = defaultdict[str, Counter[str]](Counter), Counter[str]()
        for (right, wrong), count in found.items():
            if count >= MIN_COUNT:
                errors[right][wrong] = count
        for token, count in Counter(token for target in targets for token in target).items():
            for ending in self._endings_of(self.vocabulary.name(token)):
                occurrences[ending] += count
        return _with_rates(errors, occurrences)

    @staticmethod
    def _endings_of(token: str) -> list[str]:
        word = token.removeprefix(" ")
        if not is_word(word):
            return []
        longest = min(MAX_REMOVED, len(word) - MIN_STEM)
        return [word[len(word) - size :] for size in range(longest, -1, -1)]

    def corrupt(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Return each target with errors of its own."""
        drawn = Random(int(rng.integers(1 << 62)))
        return Sequences.from_rows([self.corrupt_row(row, drawn) for row in targets.rows()])

    def corrupt_row(self, target: Sequence[int], rng: Random) -> list[int]:
        """Return a target with errors, in the tokens of its text: ` use` and `it` without a space are `useit`."""
        made = self._with_errors(target, rng)
        if not made or made == target:
            return made
        names, vocabulary = list(map(self.vocabulary.name, made)), self.vocabulary
        written = vocabulary.split(vocabulary.join(names))
        if written == names:
            return made
        inside = _is_inside(list(map(vocabulary.name, target)))
        return vocabulary.ids(_without_first_space(written) if inside else written)

    def _with_errors(self, target: Sequence[int], rng: Random) -> list[int]:
        made, at = self._insertion(START, rng), 0
        while at < len(target):
            width, written = self._replacement(target, at, rng)
            made += written
            at += width
            made += self._insertion(target[at - 1], rng)
        return made

    def _replacement(self, target: Sequence[int], at: int, rng: Random) -> tuple[int, Phrase]:
        """Return how many tokens of a target are written next, and what is written there."""
        for width in range(min(MAX_TOKENS, len(target) - at), 0, -1):
            errors = self.phrases.get(tuple(target[at : at + width]))
            if errors and (wrong := errors.draw(rng)) is not None:
                return width, wrong
        token = target[at]
        name = self.vocabulary.name(token)
        for right in self._endings_of(name) if (token,) not in self.phrases else ():  # those have been drawn
            ending = self.endings.get(right)
            if ending and (added := ending.draw(rng)) is not None:
                return 1, tuple(self.vocabulary.ids([name.removesuffix(right) + added]))
        return 1, (token,)

    def _insertion(self, token: int, rng: Random) -> list[int]:
        errors = self.behind.get(token)
        return list(errors.draw(rng) or ()) if errors else []


def _first(names: Sequence[str]) -> int:
    """Return the position of the first token that is no case sign."""
    return next((index for index, name in enumerate(names) if name not in (CAP, CAPS)), 0)


def _is_inside(names: Sequence[str]) -> bool:
    """Whether a text is a window of a longer one that begins right behind a token, without a space."""
    return bool(names) and not names[_first(names)][:1].isspace()


def _without_first_space(names: list[str]) -> list[str]:
    first = _first(names)
    stripped = names[first].removeprefix(" ") or names[first]
    return [*names[:first], stripped, *names[first + 1 :]]


def _phrases(targets: Iterable[Sequence[int]], wanted: Mapping[Phrase, object]) -> Counter[Phrase]:
    """Return how often the wanted phrases are in the targets."""
    found = Counter[Phrase]()
    for target in targets:
        for width in range(1, MAX_TOKENS + 1):
            windows = zip(*(target[begin:] for begin in range(width)), strict=False)
            found.update(phrase for phrase in windows if phrase in wanted)
    return found


def _with_rates(counts: Mapping[Key, Counter[Form]], occurrences: Mapping[Key, int]) -> dict[Key, Errors[Form]]:
    return {right: Errors.of(wrong, occurrences[right]) for right, wrong in counts.items()}
