"""Edits replace spans; scripts keep what was put into them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.editing.alignment import scripts
from stepedit.editing.edits import Edit, Scripts, apply, apply_spans, edit_spans
from stepedit.editing.sequences import Sequences


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (Edit(0, 0, ("-",)), "- 3 4"),
        (Edit(2, 2, ("+",)), "3 4 +"),
        (Edit(0, 1, ()), "4"),
        (Edit(1, 2, ("7",)), "3 7"),
        (Edit(0, 2, ("4", "3")), "4 3"),
        (Edit(0, 2, ("1",)), "1"),
    ],
)
def test_an_edit_replaces_a_span(edit: Edit[str], expected: str) -> None:
    assert " ".join(apply(["3", "4"], edit)) == expected


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("teh", "the", [Edit(1, 1, ("h",)), Edit(2, 3, ())]),
        ("abc", "abc", []),
        ("abc", "axxc", [Edit(1, 2, ("x", "x"))]),
        ("", "ab", [Edit(0, 0, ("a", "b"))]),
        ("abcd", "xd", [Edit(0, 3, ("x",))]),
    ],
)
def test_edit_spans_are_spans_of_the_source(source: str, text: str, expected: list[Edit[str]]) -> None:
    assert edit_spans(source, text) == expected


@given(source=st.text("abc ", max_size=8), text=st.text("abc ", max_size=8))
def test_edit_spans_lead_to_the_text(source: str, text: str) -> None:
    assert "".join(apply_spans(source, edit_spans(source, text))) == text


def test_scripts_of_several_batches_are_joined() -> None:
    wide = Scripts.from_rows([[Edit(0, 1, (1, 2, 3))], []])
    long = Scripts.from_rows([[Edit(0, 0, (4,)), Edit[int](1, 2, ()), Edit(1, 1, (5,))]])
    back = Scripts.from_rows([[Edit(2, 2, (1,)), Edit(0, 0, (2,))]])
    both = Scripts.join([wide, long])
    assert [both.row(index) for index in range(len(both))] == [wide.row(0), [], long.row(0)]
    assert (both.counts.tolist(), both.left_to_right) == ([1, 0, 3], True)
    assert both.growth.tolist() == [[2, 0, 0, 0], [0, 0, 0, 0], [1, -1, 1, 0]]
    assert not Scripts.join([wide, back]).left_to_right
    assert Scripts.join([back, wide]).row(0) == back.row(0)


def test_some_edits_of_a_script_keep_their_positions() -> None:
    found = Scripts.from_rows([[Edit(0, 0, (4,)), Edit[int](1, 2, ()), Edit(1, 1, (5,))], [Edit(3, 4, (6,))]])
    kept = np.ones_like(found.present)
    kept[0, 1] = False
    assert [found.where(kept).row(index) for index in range(2)] == [[Edit(0, 0, (4,)), Edit(1, 1, (5,))], found.row(1)]
    edits = found.at(np.array([2, 0]))
    assert (edits.starts.tolist(), edits.stops.tolist(), edits.tokens[:, 0].tolist()) == ([1, 3], [1, 4], [5, 6])


def test_every_script_is_padded_with_an_empty_edit() -> None:
    found = scripts(Sequences.from_rows([[1, 2], [1]]), Sequences.from_rows([[1, 3], [1]]))
    assert found.starts.shape[1] == found.counts.max() + 1
    last = (found.starts[:, -1], found.stops[:, -1], found.widths[:, -1])
    assert not np.any(last)
