"""Padded arrays behave like the lists they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.errors import DataError
from stepedit.sequences import PAD, Sequences
from stepedit.vocabulary import Vocabulary

rows = st.lists(st.lists(st.integers(1, 9), max_size=6), max_size=8)


@given(rows)
def test_rows_come_back(lists: list[list[int]]) -> None:
    packed = Sequences.from_rows(lists)
    assert packed.rows() == lists
    assert (packed.ids[~packed.mask()] == PAD).all()


@given(rows, rows)
def test_joining_is_concatenation(first: list[list[int]], second: list[list[int]]) -> None:
    assert Sequences.join([Sequences.from_rows(first), Sequences.from_rows(second)]).rows() == first + second


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), max_size=8))
def test_keep_closes_the_gaps(slots: list[list[int]]) -> None:
    kept = Sequences.keep(np.array(slots, np.int64).reshape(-1, 2, 2))
    assert kept.rows() == [[token for token in row if token != PAD] for row in slots]


@given(
    st.lists(st.tuples(st.lists(st.integers(1, 2), max_size=3), st.lists(st.integers(1, 2), max_size=3)), max_size=8)
)
def test_equality_is_row_by_row(pairs: list[tuple[list[int], list[int]]]) -> None:
    first, second = (Sequences.from_rows([pair[side] for pair in pairs]) for side in (0, 1))
    assert first.equals(second).tolist() == [a == b for a, b in pairs]


@given(st.lists(st.lists(st.integers(1, 2), max_size=3), max_size=20))
def test_distinct_rows_are_the_first_of_each(lists: list[list[int]]) -> None:
    expected = [list(row) for row in dict.fromkeys(map(tuple, lists))]
    assert Sequences.from_rows(lists).distinct().rows() == expected


def test_taking_rows_drops_columns_nobody_needs() -> None:
    assert Sequences.from_rows([[1, 2, 3], [4]]).take([1]).ids.shape == (1, 1)


def test_text_and_ids_are_inverse() -> None:
    vocabulary = Vocabulary(["<pad>", "a", "b"])
    lines = ["a b a", "", "b"]
    assert vocabulary.decode(vocabulary.encode(lines)) == lines


@pytest.mark.parametrize(("lines", "complaint"), [(["a", "a c"], "pair 2: unknown token 'c'"), (["<pad>"], "padding")])
def test_a_token_that_cannot_be_is_named_with_its_line(lines: list[str], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        Vocabulary(["<pad>", "a", "b"]).encode(lines)


@pytest.mark.parametrize("tokens", [[], ["a"], ["<pad>", "a", "a"]])
def test_a_vocabulary_starts_with_padding_and_has_no_doubles(tokens: list[str]) -> None:
    with pytest.raises(ValueError, match="a vocabulary"):
        Vocabulary(tokens)


@given(st.lists(st.lists(st.integers(1, 3), max_size=4), min_size=1, max_size=30), st.integers(0, 9))
def test_keys_tell_rows_apart_whatever_the_padding(rows: list[list[int]], more: int) -> None:
    texts = Sequences.from_rows(rows)
    keys = texts.widened(texts.ids.shape[1] + more).keys().tolist()
    assert keys == texts.keys().tolist()
    assert len(set(keys)) == len({tuple(row) for row in rows})
