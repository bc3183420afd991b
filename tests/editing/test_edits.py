"""Edits replace spans; scripts keep what was put into them."""

import numpy as np
import pytest

from stepedit.editing.alignment import scripts
from stepedit.editing.edits import Edit, apply
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


def test_every_script_is_padded_with_an_empty_edit() -> None:
    found = scripts(Sequences.from_rows([[1, 2], [1]]), Sequences.from_rows([[1, 3], [1]]))
    assert found.starts.shape[1] == found.counts.max() + 1
    last = (found.starts[:, -1], found.stops[:, -1], found.widths[:, -1])
    assert not np.any(last)
