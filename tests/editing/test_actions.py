"""Actions as people read them."""

import pytest

from stepedit.editing.actions import DONE, NOTHING, RULE, symbol
from tests.editing.templates import DELETE, INSERT, POSITION, SWAP, TEMPLATES, TOKEN

NAMES = {1: "+", 2: "-", 5: "8"}


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        ((DELETE, POSITION(5), POSITION(5)), "<delete> pos_5 pos_5"),
        ((INSERT, POSITION(0), TOKEN(2)), "<insert> pos_0 -"),
        ((SWAP, POSITION(3)), "<swap> pos_3"),
        ((POSITION(0), TOKEN(5)), "pos_0 8"),
        ((DONE, DONE), "<done> <done>"),
        ((POSITION(1), TOKEN(4)), "pos_1 ?"),  # no such token
        ((POSITION(1), TOKEN(0)), "pos_1 ?"),  # padding
        ((NOTHING, POSITION(1)), "? pos_1"),
        ((symbol(RULE, 3), POSITION(1)), "rule_3 pos_1"),
        ((INSERT + 4 * 6, POSITION(1)), "? pos_1"),  # no such operation
    ],
)
def test_an_action_is_shown_by_names(action: tuple[int, ...], shown: str) -> None:
    assert TEMPLATES["operate"].format(action, NAMES.__getitem__) == shown
