"""Faster ways through a layer give what the plain one gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from stepedit.config import Options
from stepedit.programmers.layers import SHORT, DecoderBlock, EncoderBlock, Heads, Layout, Memory, attend
from stepedit.programmers.pointer import Pointer
from stepedit.registry import METHODS, PROGRAMMERS, TASKS

HIDDEN, HEADS = 16, 4


def masked(lengths: list[int]) -> Tensor:
    """(B, T) true where a text of that length has a token."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("tokens", [1, 5, SHORT])
@pytest.mark.parametrize("padded", [False, True])
def test_attention_without_gradients_is_the_same(tokens: int, padded: bool) -> None:
    query, key, value = (torch.randn(3, HEADS, tokens, 8) for _ in range(3))
    mask = masked([tokens, 0, tokens - 1])[:, None, None] if padded else None
    with torch.no_grad():
        got = attend(query, key, value, mask)
    torch.testing.assert_close(got, scaled_dot_product_attention(query, key, value, attn_mask=mask))


@pytest.mark.parametrize("shared", [False, True])
def test_a_single_look_is_like_any_other(shared: bool) -> None:
    look, mask = Heads(HIDDEN, HEADS), masked([6, 0, 4])
    memory = Memory(torch.randn(3, 6, HIDDEN), mask, torch.zeros(3, HIDDEN))
    x = torch.randn(1 if shared else 3, 1, HIDDEN)
    plain = look(x.expand(3, -1, -1), look.keys_values(memory.states), mask[:, None, None])
    torch.testing.assert_close(look.once(x, memory), plain)


def test_the_first_of_several_places_is_what_it_is_alone() -> None:
    block, mask = DecoderBlock(HIDDEN, HEADS, 0.0), masked([5, 3])
    memory = Memory(torch.randn(2, 5, HIDDEN), mask, torch.zeros(2, HIDDEN))
    x = torch.randn(2, 3, HIDDEN)
    torch.testing.assert_close(block(x[:, :1], memory)[0], block(x, memory)[0][:, :1])


@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5), taught=st.booleans())
def test_texts_of_one_length_are_read_as_among_others(lengths: list[int], taught: bool) -> None:
    torch.manual_seed(0)
    block, mask = EncoderBlock(HIDDEN, HEADS, 0.0), masked(lengths)
    x, layout = torch.randn(*mask.shape, HIDDEN), Layout.of(mask)
    with torch.set_grad_enabled(taught):
        together = layout.spread(block(layout.pack(x), layout))
        assert not together[~mask].any()
        for row, length in enumerate(lengths):
            alone = Layout.of(torch.ones(1, length, dtype=torch.bool))
            assert alone.places is None
            read = alone.spread(block(alone.pack(x[row : row + 1, :length]), alone))
            torch.testing.assert_close(together[row, :length], read[0])


def test_pointing_is_a_product_with_each_place_as_an_operation_sees_it() -> None:
    method = METHODS["recurrence"](TASKS["aec"]())
    net = PROGRAMMERS["pointer"].for_method(method, Options.preset("fast", layers=1, hidden=HIDDEN, others=0.0))
    assert isinstance(net, Pointer)
    turns, states = torch.randn(2, 3, HIDDEN), torch.randn(2, 5, HIDDEN)
    seen = net.place(states).view(2, -1, HIDDEN)
    torch.testing.assert_close(net._pointing(turns, states), turns @ seen.transpose(1, 2))


def test_tokens_know_their_texts() -> None:
    assert Layout.of(masked([2, 3])).rows().tolist() == [0, 0, 1, 1, 1]
    assert Layout.of(masked([2, 2])).rows().tolist() == [0, 0, 1, 1]
