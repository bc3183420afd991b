"""Families of pairs and the splits that keep them together."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.data.dataset import Dataset, overlap_warning, split_by_family
from stepedit.data.families import MAX_SHARE, MIN_LIMIT, families, overlap
from stepedit.data.readers import Lines
from stepedit.errors import DataError


def lines_of(*pairs: tuple[str, str]) -> Lines:
    return Lines([source for source, _ in pairs], [target for _, target in pairs], "f")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a cat", "the cat"), ("a cat", "one cat")),  # a source with two references
        (("a cat", "the cat"), ("teh cat", "the cat")),
        (("a cat", "the cat"), ("the cat", "The cat.")),  # a target that is a source elsewhere
        (("starnge", "strange"), ("starngely", "strangely")),
        (("adn", "and"), ("and", "and")),
        (("starnge", "strange"), ("starngely", "oddly")),  # misspelled forms are words, too
        (("Recieve", "Receive"), ("recieved", "received")),
        (("conect", "connect"), ("disconect", "disconnect")),
        (("abandonned", "abandoned"), ("abandonning", "abandoning")),
    ],
)
def test_pairs_that_share_a_text_or_a_stem_are_one_family(one: tuple[str, str], other: tuple[str, str]) -> None:
    others = [(f"x{letter * 9}", f"y{letter * 9}") for letter in "abc"]
    numbers = families(lines_of(one, *others, other))
    assert numbers[0] == numbers[-1]
    assert len(set(numbers)) == 1 + len(others)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("teh", "the"), ("thier", "their")),
        (("starnge", "strange"), ("stret", "street")),
        (("strange cats", "strange cat"), ("strangely cats", "strangely cat")),  # stems are for single words
        (("form", "forms"), ("information", "informations")),
    ],
)
def test_pairs_that_share_neither_are_two_families(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert len(set(families(lines_of(one, other)))) == 2


def test_stems_do_not_chain_words_into_one_giant_family() -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("ab"), rng.integers(5, 12))) for _ in range(20_000)]
    started = time.perf_counter()
    numbers = families(lines_of(*((word, word) for word in dict.fromkeys(words))))
    assert time.perf_counter() - started < 10, "near-linear"
    assert max(Counter(numbers).values()) <= max(MIN_LIMIT, len(numbers) // MAX_SHARE)


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.sampled_from("cdefghij")), min_size=1, max_size=60))
def test_no_family_is_in_two_splits_and_no_pair_is_lost(rows: list[tuple[str, str]]) -> None:
    lines = lines_of(*rows)
    if len(set(families(lines))) < 3:
        with pytest.raises(DataError, match="number of families"):
            split_by_family(lines)
        return
    splits = split_by_family(lines)
    texts = [{*split.sources, *split.targets} for split in splits.values()]
    assert all(texts)
    assert len(set().union(*texts)) == sum(map(len, texts)), "no text is in two splits"
    kept = [pair for split in splits.values() for pair in zip(split.sources, split.targets, strict=True)]
    assert sorted(kept) == sorted(rows)


def test_a_very_large_family_is_for_training() -> None:
    others = [(f"{one}{other}x", f"{one}{other}y") for one in "abcdefgh" for other in "qrstuvwxyz"]
    for letter in "abcdefghijklmnopqrstuvwxyz":
        large = [(letter * (5 + size), letter * 5) for size in range(20)]
        train = split_by_family(lines_of(*large, *others))["train"]
        assert set(large) <= set(zip(train.sources, train.targets, strict=True))


def test_the_split_of_a_family_does_not_depend_on_the_order_of_the_pairs() -> None:
    letters = "abcdefghijklmnopqrst"
    rows = [(f"{one}{other}n{one}", f"{one}{other}m{one}") for one in letters for other in letters]
    forwards, backwards = (split_by_family(lines_of(*order)) for order in (rows, rows[::-1]))
    assert {name: set(part.sources) for name, part in forwards.items()} == {
        name: set(part.sources) for name, part in backwards.items()
    }
    assert 0.72 < len(forwards["train"]) / len(rows) < 0.88


def test_overlap_counts_sources_targets_and_families_that_are_in_train() -> None:
    train = lines_of(("starnge", "strange"), ("teh", "the"), ("adn", "and"))
    other = lines_of(("starngely", "strangely"), ("teh", "they"), ("nad", "and"), ("wierd", "weird"))
    found = overlap(train, other)
    assert (found.pairs, found.sources, found.targets, found.families) == (4, 1, 1, 3)
    assert overlap(train, other, text=False).families == 0
    assert not overlap(train, lines_of(("wierd", "weird")))


def test_test_pairs_that_are_in_val_are_warned_about_too() -> None:
    same, other = lines_of(("a cat", "the cat"), ("a dog", "the dog")), lines_of(("x y", "x z"))
    data = Dataset({"train": other, "val": same, "test": same}, path="d")
    assert overlap_warning(data, text=True) == (
        "d: of 2 test pairs 2 share a source, 2 share a target, 2 share a family with val"
    )
    assert overlap_warning(data, text=True, scored="val") is None
    assert overlap_warning(Dataset({"train": same, "val": other, "test": same}, path="d"), True, "test") is not None
