"""The optimized paths of the layers give the same as the plain ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from stepedit.config import TrainingConfig
from stepedit.programmers.nn.attention import SHORT, EncoderOutput, MultiHeadAttention, attend
from stepedit.programmers.nn.embedding import Embedding
from stepedit.programmers.nn.transformer import DecoderBlock, EncoderBlock, Layout
from stepedit.programmers.pointer import Pointer
from stepedit.registry import METHODS, PROGRAMMERS, TASKS

HIDDEN, HEADS = 16, 4


def mask_of(lengths: list[int]) -> Tensor:
    """Return (B, T), true where a text of that length has a token."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("tokens", [1, 5, SHORT])
@pytest.mark.parametrize("padded", [False, True])
def test_attention_without_gradients_is_the_same(tokens: int, padded: bool) -> None:
    query, key, value = (torch.randn(3, HEADS, tokens, 8) for _ in range(3))
    mask = mask_of([tokens, 0, tokens - 1])[:, None, None] if padded else None
    with torch.no_grad():
        attended = attend(query, key, value, mask)
    torch.testing.assert_close(attended, scaled_dot_product_attention(query, key, value, attn_mask=mask))


@pytest.mark.parametrize("shared", [False, True])
def test_attention_from_a_single_query_is_the_same(shared: bool) -> None:
    attention, mask = MultiHeadAttention(HIDDEN, HEADS), mask_of([6, 0, 4])
    encoded = EncoderOutput(torch.randn(3, 6, HIDDEN), mask, torch.zeros(3, HIDDEN))
    x = torch.randn(1 if shared else 3, 1, HIDDEN)
    plain = attention(x.expand(3, -1, -1), attention.keys_values(encoded.states), mask[:, None, None])
    torch.testing.assert_close(attention.single_query(x, encoded), plain)


def test_the_first_of_several_decoder_positions_is_the_same_as_alone() -> None:
    block, mask = DecoderBlock(HIDDEN, HEADS, 0.0), mask_of([5, 3])
    encoded = EncoderOutput(torch.randn(2, 5, HIDDEN), mask, torch.zeros(2, HIDDEN))
    x = torch.randn(2, 3, HIDDEN)
    torch.testing.assert_close(block(x[:, :1], encoded)[0], block(x, encoded)[0][:, :1])


@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5), gradients=st.booleans())
def test_a_text_is_encoded_the_same_alone_and_in_a_padded_batch(lengths: list[int], gradients: bool) -> None:
    torch.manual_seed(0)
    block, mask = EncoderBlock(HIDDEN, HEADS, 0.0), mask_of(lengths)
    x, layout = torch.randn(*mask.shape, HIDDEN), Layout.of(mask)
    with torch.set_grad_enabled(gradients):
        together = layout.unpack(block(layout.pack(x), layout))
        assert not together[~mask].any()
        for row, length in enumerate(lengths):
            single = Layout.of(torch.ones(1, length, dtype=torch.bool))
            assert single.positions is None
            alone = single.unpack(block(single.pack(x[row : row + 1, :length]), single))
            torch.testing.assert_close(together[row, :length], alone[0])


def test_position_logits_are_products_with_each_operations_projection_of_each_position() -> None:
    method = METHODS["recurrence"](TASKS["aec"]())
    config = TrainingConfig.model_validate({"num_layers": 1, "hidden_size": HIDDEN, "plan_loss_weight": 0.0})
    net = PROGRAMMERS["pointer"].from_config(method, config)
    assert isinstance(net, Pointer)
    plan, states = torch.randn(2, 3, HIDDEN), torch.randn(2, 5, HIDDEN)
    projected = net.position_head(states).view(2, -1, HIDDEN)
    torch.testing.assert_close(net._position_products(plan, states), plan @ projected.transpose(1, 2))


def test_a_layout_knows_the_text_of_each_packed_token() -> None:
    assert Layout.of(mask_of([2, 3])).rows().tolist() == [0, 0, 1, 1, 1]
    assert Layout.of(mask_of([2, 2])).rows().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("features", [None, torch.randn(3, 2)])
def test_a_spelled_token_has_the_vectors_of_its_buckets(features: Tensor | None) -> None:
    """Three known tokens with buckets 0, 5 and 11; buckets are 4 * second digit + first digit."""
    embedding = Embedding(3, HIDDEN, features, (4, 3), (0, 5, 11))
    torch.nn.init.normal_(embedding.table)
    table = embedding.table.detach()  # rows 0 to 2: tokens, 3 to 6: first digits, 7 to 9: second digits
    spelled = torch.stack([table[3] + table[7], table[4] + table[8], table[6] + table[9]])
    mapped = 0 if embedding.feature_map is None else embedding.feature_map(embedding.features)
    known = table[:3] + spelled + mapped
    unknown = [3 + 5, 3 + 12 * 7 + 11]  # of buckets 5 and 11
    torch.testing.assert_close(embedding.weight(), known)
    torch.testing.assert_close(embedding(torch.tensor([[2, 0], [1, 2]])), known[torch.tensor([[2, 0], [1, 2]])])
    torch.testing.assert_close(embedding(torch.tensor(unknown)), spelled[1:])
