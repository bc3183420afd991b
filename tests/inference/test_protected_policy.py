"""A draft: where an edit of it is made in the text that it is a draft of."""

import pytest

from stepedit.editing.edits import Edit
from stepedit.inference.protected_policy import Draft


def drafted(*edits: Edit[int]) -> Draft:
    draft = Draft([10, 11, 12])
    for edit in edits:
        assert draft.apply(edit)
    return draft


REPLACED = Edit(1, 2, (99, 98))  # 10 99 98 12
FIRST = Edit(0, 1, (99,))  # 99 11 12
DELETED = Edit[int](1, 2, ())  # 10 12


@pytest.mark.parametrize(
    ("made", "edit", "position"),
    [
        (REPLACED, Edit(3, 4, (5,)), 2),
        (REPLACED, Edit[int](0, 1, ()), 0),
        (REPLACED, Edit(1, 2, (5,)), None),  # a token of the draft only
        (REPLACED, Edit(0, 2, (5,)), None),  # in part
        (REPLACED, Edit(0, 0, (5,)), 0),
        (REPLACED, Edit(1, 1, (5,)), 1),  # behind the token before it
        (REPLACED, Edit(2, 2, (5,)), None),
        (REPLACED, Edit(3, 3, (5,)), 2),
        (REPLACED, Edit(4, 4, (5,)), 3),  # at the end
        (FIRST, Edit(0, 0, (5,)), 0),
        (FIRST, Edit(1, 3, (5,)), 1),
        (DELETED, Edit(0, 2, (5,)), None),  # what is between them is still in the text
        (DELETED, Edit(1, 2, (5,)), 2),
    ],
)
def test_an_edit_of_a_draft_is_made_where_its_tokens_are_in_the_text(
    made: Edit[int], edit: Edit[int], position: int | None
) -> None:
    assert drafted(made).position(edit) == position


def test_a_draft_that_was_there_before_is_not_new() -> None:
    draft = drafted(REPLACED)
    assert draft.row == [10, 99, 98, 12]
    assert not draft.apply(Edit(1, 3, (11,)))
    assert draft.apply(Edit(0, 0, (7,)))
    assert not draft.apply(Edit[int](0, 1, ()))
