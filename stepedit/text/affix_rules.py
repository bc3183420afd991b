"""Affix rules: word forms as actions. A rule takes characters off one end of a word and puts others there.

    -0+ed    walk -> walked        -1+ies   city -> cities        un+0-    known -> unknown

Rules are learned from pairs of words and work on words that were never seen, in any language. A case sign is a token of
its own (`tokenization`), so a rule need not change the case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stepedit.editing.sequences import BoolArray, IntArray
from stepedit.errors import DataError
from stepedit.text.tokenization import CAP, CAPS, is_ending, is_word
from stepedit.text.vocabulary import Vocabulary

MAX_REMOVED, MAX_ADDED = 4, 6  # characters of one rule
MIN_STEM = 2  # characters of a word that stay
MIN_COUNT, MAX_RULES = 10, 150


@dataclass(frozen=True)
class AffixRule:
    """Take `removed` characters off the end of a word, or off its beginning, and put `added` there."""

    removed: int
    added: str
    at_end: bool = True

    def __str__(self) -> str:
        return f"-{self.removed}+{self.added}" if self.at_end else f"{self.added}+{self.removed}-"

    @classmethod
    def parse(cls, text: str) -> AffixRule:
        """Return the rule that a string names; DataError if it names none."""
        at_end = text.startswith("-")
        first, plus, second = text.removeprefix("-").partition("+") if at_end else text.rpartition("+")
        removed, added = (first, second) if at_end else (second.removesuffix("-"), first)
        if not plus or not removed.isascii() or not removed.isdecimal() or int(removed) > MAX_REMOVED:
            raise DataError(f"{text!r} is not an affix rule, such as -1+ies")
        if len(added) > MAX_ADDED or not is_ending(added):
            raise DataError(f"{text!r} is not an affix rule: it adds at most {MAX_ADDED} letters")
        return cls(int(removed), added, at_end)

    def apply(self, token: str) -> str | None:
        """Return the form of a token (its space stays before it), or None if the rule does not fit."""
        word = token.lstrip(" ")
        space = token[: len(token) - len(word)]
        if len(word) - self.removed < MIN_STEM or token in (CAP, CAPS) or not is_word(word):
            return None
        form = word[: len(word) - self.removed] + self.added if self.at_end else self.added + word[self.removed :]
        return space + form if form != word and is_word(form) else None


def rule_between(old: str, new: str) -> AffixRule | None:
    """Return the shortest rule that makes one token from another, at the end where both ends are possible."""
    found = [rule for rule in (_at_end(old, new), _at_beginning(old, new)) if rule is not None]
    fitting = [rule for rule in found if rule.apply(old) == new]
    return min(fitting, key=lambda rule: rule.removed + len(rule.added), default=None)


def _at_end(old: str, new: str) -> AffixRule | None:
    common = _common(old, new)
    return _limited(len(old) - common, new[common:], at_end=True)


def _at_beginning(old: str, new: str) -> AffixRule | None:
    if old[:1] == " " and new[:1] == " ":
        old, new = old[1:], new[1:]
    common = _common(old[::-1], new[::-1])
    return _limited(len(old) - common, new[: len(new) - common], at_end=False)


def _limited(removed: int, added: str, at_end: bool) -> AffixRule | None:
    fits = removed <= MAX_REMOVED and len(added) <= MAX_ADDED and is_ending(added)
    return AffixRule(removed, added, at_end) if fits else None


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def learn(
    words: Iterable[tuple[str, str]], min_count: int = MIN_COUNT, max_rules: int = MAX_RULES
) -> tuple[AffixRule, ...]:
    """Return the rules that make the second word of these pairs from the first, if they come often; frequent first."""
    found = Counter(rule for old, new in words if (rule := rule_between(old, new)) is not None)
    frequent = [rule for rule, count in found.items() if count >= min_count]
    return tuple(sorted(frequent, key=lambda rule: (-found[rule], str(rule)))[:max_rules])


class WordForms:
    """Rules applied to the token ids of a vocabulary."""

    def __init__(self, rules: Sequence[AffixRule], vocabulary: Vocabulary) -> None:
        self.rules, self.vocabulary = tuple(rules), vocabulary
        self._forms: dict[tuple[int, int], int | None] = {}
        self._found: dict[tuple[int, int], int] = {}

    @cached_property
    def _index(self) -> dict[AffixRule, int]:
        return {rule: index for index, rule in enumerate(self.rules)}

    def form(self, token: int, rule: int) -> int | None:
        """Return the id of a form of a token; None if the rule does not fit it."""
        key = token, rule
        if key not in self._forms:
            form = self.rules[rule].apply(self.vocabulary.name(token)) if 0 <= rule < len(self.rules) else None
            self._forms[key] = None if form is None else self.vocabulary.ids([form])[0]
        return self._forms[key]

    def rule(self, old: int, new: int) -> int:
        """Return the index of the rule that makes one token from another; -1 if there is none."""
        key = old, new
        if key not in self._found:
            known = old in self.vocabulary and new in self.vocabulary
            found = rule_between(self.vocabulary.name(old), self.vocabulary.name(new)) if known else None
            self._found[key] = -1 if found is None else self._index.get(found, -1)
        return self._found[key]

    def rules_between(self, old: IntArray, new: IntArray, where: BoolArray) -> IntArray:
        """Return the rule of each pair of ids, where wanted; -1 elsewhere and if there is none."""
        rules = np.full(old.shape, -1)
        pairs = zip(old[where].tolist(), new[where].tolist(), strict=True)
        rules[where] = [self.rule(*pair) for pair in pairs]
        return rules
