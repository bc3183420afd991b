"""Padded arrays behave like the lists they stand for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepedit.editing.sequences import PAD, Pairs, Sequences

rows = st.lists(st.lists(st.integers(1, 9), max_size=6), max_size=8)


@given(rows)
def test_rows_are_the_inverse_of_from_rows(lists: list[list[int]]) -> None:
    packed = Sequences.from_rows(lists)
    assert packed.rows() == lists
    assert (packed.ids[~packed.mask()] == PAD).all()


@given(rows, rows)
def test_joining_is_concatenation(first: list[list[int]], second: list[list[int]]) -> None:
    assert Sequences.join([Sequences.from_rows(first), Sequences.from_rows(second)]).rows() == first + second


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), max_size=8))
def test_keep_drops_padding_between_tokens(slots: list[list[int]]) -> None:
    kept = Sequences.keep(np.array(slots, np.int64).reshape(-1, 2, 2))
    assert kept.rows() == [[token for token in row if token != PAD] for row in slots]


@given(
    st.lists(st.tuples(st.lists(st.integers(1, 2), max_size=3), st.lists(st.integers(1, 2), max_size=3)), max_size=8)
)
def test_equality_is_row_by_row(pairs: list[tuple[list[int], list[int]]]) -> None:
    first, second = (Sequences.from_rows([pair[side] for pair in pairs]) for side in (0, 1))
    assert first.equals(second).tolist() == [a == b for a, b in pairs]


@given(st.lists(st.lists(st.integers(1, 2), max_size=3), max_size=20))
def test_distinct_keeps_the_first_of_equal_rows(lists: list[list[int]]) -> None:
    expected = [list(row) for row in dict.fromkeys(map(tuple, lists))]
    assert Sequences.from_rows(lists).distinct().rows() == expected


def test_ids_of_another_vocabulary_are_replaced_and_larger_ones_stay() -> None:
    texts, ids = Sequences.from_rows([[1, 2, 3], [4, 2]]), np.array([PAD, 7, 9])
    assert texts.mapped(ids).rows() == [[7, 9, 3], [4, 9]]
    both = Pairs(texts, texts.take([1, 0])).mapped(ids)
    assert (both.sources.rows(), both.targets.rows()) == ([[7, 9, 3], [4, 9]], [[4, 9], [7, 9, 3]])


def test_taking_rows_drops_empty_columns() -> None:
    assert Sequences.from_rows([[1, 2, 3], [4]]).take([1]).ids.shape == (1, 1)


@given(st.lists(st.lists(st.integers(1, 3), max_size=4), min_size=1, max_size=30), st.integers(0, 9))
def test_keys_distinguish_rows_and_ignore_padding(rows: list[list[int]], more: int) -> None:
    texts = Sequences.from_rows(rows)
    keys = texts.widened(texts.ids.shape[1] + more).keys().tolist()
    assert keys == texts.keys().tolist()
    assert len(set(keys)) == len({tuple(row) for row in rows})
