"""Building blocks of programmers. Nothing here looks at padding, and randomness comes in.

Shapes: B texts, T tokens, M tokens of all texts, O symbols said, H hidden size, V vocabulary, N heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from stepedit.config import Attention, Cell, Options
from stepedit.tasks.task import Task

SHORT = 12  # tokens; longer texts are looked at faster by the library's attention
IMPOSSIBLE = -1e9  # not infinite: a row of nothing but these still has a gradient


def value_features(task: Task, options: Options) -> Tensor | None:
    """(V, K) what the task knows about its tokens, if the programmer is to be given it."""
    known = task.features() if options.value_features else None
    return None if known is None else torch.from_numpy(known)


def initialise(net: nn.Module, hidden: int, cell: Cell) -> None:
    """Uniform in +-sqrt(1/H) as in the paper; a Transformer's norms and biases as they are."""
    bound = hidden**-0.5
    for name, parameter in net.named_parameters():
        if cell != "transformer" or parameter.ndim > 1:
            nn.init.uniform_(parameter, -bound, bound)
        if cell == "transformer" and ("narrow" in name or "out." in name) and parameter.ndim > 1:
            parameter.data /= 2  # what is added to the stream starts small


class Memory(NamedTuple):
    """What an encoder made of B texts."""

    states: Tensor  # (B, T, H)
    mask: Tensor  # (B, T) true where there is a token
    summary: Tensor  # (B, H)


class Layout(NamedTuple):
    """Where the M tokens that there are stand in B texts of T places."""

    mask: Tensor  # (B, T)
    places: Tensor | None  # (M,) of B*T; none if all are taken, or taken for it, and then nothing has to be moved

    @classmethod
    def of(cls, mask_BT: Tensor) -> Layout:
        """Of the places where the mask is true. A graph cannot know how many those are, and takes padding along."""
        if torch.compiler.is_compiling() or bool(mask_BT.all()):
            return cls(mask_BT, None)
        return cls(mask_BT, mask_BT.flatten().nonzero()[:, 0])

    def rows(self) -> Tensor:
        """(M,) to which text each token belongs."""
        places = torch.arange(self.mask.numel(), device=self.mask.device) if self.places is None else self.places
        return places // self.mask.shape[1]

    def pack(self, x_BTH: Tensor) -> Tensor:
        """(M, H) the tokens alone."""
        x_XH = x_BTH.flatten(0, 1)
        return x_XH if self.places is None else x_XH.index_select(0, self.places)

    def spread(self, x_MH: Tensor) -> Tensor:
        """(B, T, H) with the tokens at their places and nothing elsewhere."""
        if self.places is not None:
            x_MH = x_MH.new_zeros(self.mask.numel(), x_MH.shape[1]).index_copy_(0, self.places, x_MH)
        return x_MH.view(*self.mask.shape, x_MH.shape[1])

    def seen(self) -> Tensor | None:
        """(B, 1, 1, T) what a token may look at; all, where nothing is padded."""
        free = self.places is None and not torch.compiler.is_compiling()
        return None if free else self.mask[:, None, None]


class Draw(NamedTuple):
    """Where dropout gets its randomness: a generator, and which rows of how many are drawn for.

    A process that has a part of a batch draws for the whole and takes its part, so that it makes no difference into
    how many parts a batch is split.
    """

    generator: torch.Generator
    rows: Tensor  # (B,) of the whole batch
    total: int

    def rand(self, *shape: int) -> Tensor:
        """(B, *shape) uniform numbers."""
        return torch.rand((self.total, *shape), generator=self.generator)[self.rows]


class Dropout(nn.Module):
    """Drop features of a whole sequence at once: one mask for all its places, which costs a tenth of one for each."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.draw: Draw | None = None

    def forward(self, hidden_BTH: Tensor) -> Tensor:
        """The same, with some features zeroed and the others made up for it; in training only."""
        scale_BH = self._scale(hidden_BTH)
        return hidden_BTH if scale_BH is None else hidden_BTH * scale_BH[:, None]

    def packed(self, hidden_MH: Tensor, layout: Layout) -> Tensor:
        """Likewise, for the tokens of several sequences, one behind the other."""
        scale_BH = self._scale(hidden_MH)
        return hidden_MH if scale_BH is None else hidden_MH * scale_BH[layout.rows()]

    def _scale(self, hidden: Tensor) -> Tensor | None:
        if not self.training or self.rate == 0 or self.draw is None:
            return None
        return (self.draw.rand(hidden.shape[-1]).to(hidden.device) >= self.rate) / (1 - self.rate)


@contextmanager
def randomness(module: nn.Module, draw: Draw | None) -> Iterator[None]:
    """Let all dropout inside a module draw from here; without it nothing is dropped."""
    drops = [part for part in module.modules() if isinstance(part, Dropout)]
    for part in drops:
        part.draw = draw
    try:
        yield
    finally:
        for part in drops:
            part.draw = None


class Embedding(nn.Module):
    """A learned vector for each token, and, where tokens have features, a learned view of those added to it."""

    def __init__(self, size: int, width: int, features: Tensor | None = None, buckets: int = 0) -> None:
        super().__init__()
        self.size, self.buckets = size, buckets
        self.table = nn.Parameter(torch.empty(size + buckets, width))
        self.view = nn.Linear(features.shape[1], width, bias=False) if features is not None else None
        if features is not None:
            self.register_buffer("features", features, persistent=False)

    def weight(self) -> Tensor:
        """(V, H) the vectors of all tokens that are known."""
        known = self.table[: self.size]
        return known if self.view is None else known + self.view(self.features)

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors of some ids; an unknown token has that of its bucket."""
        if not self.buckets:
            return nn.functional.embedding(ids, self.weight())
        folded = torch.where(ids < self.size, ids, self.size + (ids - self.size) % self.buckets)
        return nn.functional.embedding(folded, torch.cat([self.weight(), self.table[self.size :]]))


class RecurrentEncoder(nn.Module):
    """Reads a text forward, and backward too if asked."""

    def __init__(self, cell: Cell, width: int, hidden: int, layers: int, bidirectional: bool, dropout: float) -> None:
        super().__init__()
        kind = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell]
        both = hidden * (2 if bidirectional else 1)
        sizes = [width, *[both] * (layers - 1)]
        self.forward_layers = nn.ModuleList(kind(size, hidden, batch_first=True) for size in sizes)
        self.backward_layers = nn.ModuleList(kind(size, hidden, batch_first=True) for size in sizes if bidirectional)
        self.merge = nn.Linear(both, hidden) if bidirectional else nn.Identity()
        self.drop = Dropout(dropout)

    def forward(self, embedded_BTH: Tensor, mask_BT: Tensor) -> Memory:
        """Hidden states. Padding stands behind what is read forward, and backward is read from the true end."""
        lengths = mask_BT.sum(1)
        places = torch.arange(mask_BT.shape[1], device=mask_BT.device)
        reverse = torch.where(mask_BT, lengths[:, None] - 1 - places, places)[:, :, None]
        hidden = embedded_BTH
        for index, layer in enumerate(self.forward_layers):
            inputs = self.drop(hidden) if index else hidden
            hidden = layer(inputs)[0]
            if self.backward_layers:
                turned = inputs.gather(1, reverse.expand_as(inputs))
                back = self.backward_layers[index](turned)[0]
                hidden = torch.cat([hidden, back.gather(1, reverse.expand_as(back))], 2)
        states = self.merge(hidden)
        ends = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
        first = states[:, 0] if self.backward_layers else 0
        return Memory(states, mask_BT, states.gather(1, ends)[:, 0] + first)


class RecurrentDecoder(nn.Module):
    """Says symbols one after the other, looking back at the text by Luong's attention."""

    def __init__(self, cell: Cell, hidden: int, layers: int, attention: Attention, dropout: float) -> None:
        super().__init__()
        kind = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell]
        self.cell = kind(hidden, hidden, num_layers=layers, batch_first=True)
        self.attention = attention
        self.score = nn.Linear(hidden, hidden, bias=False) if attention in ("general", "concat") else nn.Identity()
        self.query = nn.Linear(hidden, hidden, bias=False) if attention == "concat" else nn.Identity()
        self.collapse = nn.Linear(hidden, 1, bias=False) if attention == "concat" else nn.Identity()
        self.combine = nn.Linear(2 * hidden, hidden) if attention != "none" else nn.Identity()
        self.drop = Dropout(dropout)

    def forward(self, embedded_BOH: Tensor, memory: Memory, state: object = None) -> tuple[Tensor, object]:
        """Hidden states for the next symbols, and the state to go on from."""
        if state is None:
            begin = memory.summary.expand(self.cell.num_layers, -1, -1).contiguous()
            state = (begin, torch.zeros_like(begin)) if isinstance(self.cell, nn.LSTM) else begin
        hidden_BOH, state = self.cell(embedded_BOH.expand(len(memory.states), -1, -1), state)
        hidden_BOH = self.drop(hidden_BOH)
        if self.attention == "none":
            return hidden_BOH, state
        context_BOH = self._attend(hidden_BOH, memory)
        return torch.tanh(self.combine(torch.cat([context_BOH, hidden_BOH], 2))), state

    def _attend(self, hidden_BOH: Tensor, memory: Memory) -> Tensor:
        keys_BTH = self.score(memory.states)
        if self.attention == "concat":
            mixed_BOTH = torch.tanh(self.query(hidden_BOH)[:, :, None] + keys_BTH[:, None])
            scores_BOT = self.collapse(mixed_BOTH)[..., 0]
        else:
            scores_BOT = hidden_BOH @ keys_BTH.transpose(1, 2)
        weights_BOT = scores_BOT.masked_fill(~memory.mask[:, None], float("-inf")).softmax(2)
        # a text of no tokens has nothing to look at
        return torch.nan_to_num(weights_BOT) @ memory.states


def split_heads(x_BTH: Tensor, heads: int) -> Tensor:
    """(B, N, T, H/N)"""
    return x_BTH.view(*x_BTH.shape[:2], heads, -1).transpose(1, 2)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """What queries (B, N, O, D) see of T values. Short texts, where nothing is learned, are looked at step by step."""
    if torch.is_grad_enabled() or causal or torch.compiler.is_compiling() or key.shape[2] > SHORT:
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
    scores = query @ key.transpose(2, 3) * query.shape[3] ** -0.5
    return (scores.softmax(3) if mask is None else _shares(scores, mask)) @ value


def _shares(scores: Tensor, mask: Tensor) -> Tensor:
    """How much each place is looked at; where there is nothing to look at, nothing is."""
    return scores.masked_fill(~mask, IMPOSSIBLE).softmax(-1).masked_fill(~mask, 0.0)


class Heads(nn.Module):
    """Attention with several heads."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value = nn.Linear(hidden, hidden), nn.Linear(hidden, 2 * hidden)
        self.out = nn.Linear(hidden, hidden)

    def keys_values(self, x_BTH: Tensor) -> tuple[Tensor, Tensor]:
        """What can be looked at."""
        keys, values = self.key_value(x_BTH).chunk(2, 2)
        return split_heads(keys, self.heads), split_heads(values, self.heads)

    def forward(self, x_BTH: Tensor, seen: tuple[Tensor, Tensor], mask: Tensor | None, causal: bool = False) -> Tensor:
        """Each place's look at what can be seen."""
        query = split_heads(self.query(x_BTH), self.heads)
        return self.out(attend(query, *seen, mask, causal).transpose(1, 2).flatten(2))

    def once(self, x_B1H: Tensor, memory: Memory) -> Tensor:
        """A single place's look at a text: the query is turned towards the states instead of all of them to it.

        What looks may be the same for all texts, and then there is one of it.
        """
        (batch, _, hidden), heads = x_B1H.shape, self.heads
        turns = self.key_value.weight.view(2, heads, -1, hidden)
        turn_key, turn_value = turns[0], turns[1]
        query_NBD = self.query(x_B1H).view(batch, heads, -1).transpose(0, 1)
        scores_BNT = (query_NBD @ turn_key).transpose(0, 1) @ memory.states.transpose(1, 2)
        shares_BNT = _shares(scores_BNT * turn_key.shape[1] ** -0.5, memory.mask[:, None])
        looked_NBD = (shares_BNT @ memory.states).transpose(0, 1) @ turn_value.transpose(1, 2)
        bias_BND = shares_BNT.sum(2, keepdim=True) * self.key_value.bias[hidden:].view(heads, -1)
        return self.out((looked_NBD.transpose(0, 1) + bias_BND).flatten(1))[:, None]


class Wide(nn.Module):
    """The part of a Transformer layer that treats every place by itself."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm, self.widen, self.narrow = (
            nn.LayerNorm(hidden),
            nn.Linear(hidden, 4 * hidden),
            nn.Linear(4 * hidden, hidden),
        )

    def forward(self, x: Tensor) -> Tensor:
        """What is to be added to each place."""
        return self.narrow(self.widen(self.norm(x)).relu_())


class DecoderBlock(nn.Module):
    """A decoder's layer, normalised first: a look at what was said, a look at the text."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.self_norm, self.self_look = nn.LayerNorm(hidden), Heads(hidden, heads)
        self.cross_norm, self.cross_look = nn.LayerNorm(hidden), Heads(hidden, heads)
        self.wide = Wide(hidden)
        self.drop = Dropout(dropout)

    def forward(
        self, x_BOH: Tensor, memory: Memory, before: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The next hidden states, and what later places can see of these."""
        normed = self.self_norm(x_BOH)
        seen = self.self_look.keys_values(normed)
        if before is not None:
            seen = (torch.cat([before[0], seen[0]], 2), torch.cat([before[1], seen[1]], 2))
        causal = before is None and x_BOH.shape[1] > 1
        x_BOH = x_BOH + self.drop(self.self_look(normed, seen, None, causal))
        x_BOH = x_BOH + self.drop(self._read(self.cross_norm(x_BOH), memory))
        return x_BOH + self.drop(self.wide(x_BOH)), seen

    def _read(self, x_BOH: Tensor, memory: Memory) -> Tensor:
        """A look at the text."""
        if x_BOH.shape[1] == 1:
            return self.cross_look.once(x_BOH, memory)
        return self.cross_look(x_BOH, self.cross_look.keys_values(memory.states), memory.mask[:, None, None])


class EncoderBlock(nn.Module):
    """An encoder's layer, normalised first, for the M tokens that there are: padding costs only the look around."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.query_key_value = nn.LayerNorm(hidden), nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.wide = Wide(hidden)
        self.drop = Dropout(dropout)

    def forward(self, x_MH: Tensor, layout: Layout) -> Tensor:
        """The next hidden states of tokens that stand at some places of B texts, one behind the other."""
        x_MH = x_MH + self.drop.packed(self.out(self.look(self.norm(x_MH), layout)), layout)
        return x_MH + self.drop.packed(self.wide(x_MH), layout)

    def look(self, x_MH: Tensor, layout: Layout) -> Tensor:
        """What each token sees of its text."""
        spread = layout.spread(self.query_key_value(x_MH))
        query, key, value = (split_heads(part, self.heads) for part in spread.chunk(3, 2))
        return layout.pack(attend(query, key, value, layout.seen()).transpose(1, 2).flatten(2))


class TransformerEncoder(nn.Module):
    """Reads a text all at once."""

    def __init__(self, hidden: int, layers: int, heads: int, dropout: float, places: int) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.empty(places, hidden))
        self.blocks = nn.ModuleList(EncoderBlock(hidden, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, embedded_BTH: Tensor, mask_BT: Tensor) -> Memory:
        """Hidden states; places beyond the last known one share its vector."""
        at = torch.arange(embedded_BTH.shape[1], device=mask_BT.device).clamp(max=len(self.places) - 1)
        layout = Layout.of(mask_BT)
        hidden = layout.pack(embedded_BTH + self.places[at])
        for block in self.blocks:
            hidden = block(hidden, layout)
        states = layout.spread(self.norm(hidden))
        return Memory(states, mask_BT, states[:, 0])


class TransformerDecoder(nn.Module):
    """Says symbols one after the other, each with a look at all before it and at the text."""

    def __init__(self, hidden: int, layers: int, heads: int, dropout: float, places: int) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.empty(places, hidden))
        self.blocks = nn.ModuleList(DecoderBlock(hidden, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, embedded_BOH: Tensor, memory: Memory, state: object = None) -> tuple[Tensor, object]:
        """Hidden states for the next symbols, and the state to go on from."""
        before = state if isinstance(state, list) else [None] * len(self.blocks)
        said = before[0][0].shape[2] if before[0] is not None else 0
        at = torch.arange(said, said + embedded_BOH.shape[1], device=embedded_BOH.device).clamp(
            max=len(self.places) - 1
        )
        hidden, seen = embedded_BOH + self.places[at], []
        for block, earlier in zip(self.blocks, before, strict=True):
            hidden, now = block(hidden, memory, earlier)
            seen.append(now)
        return self.norm(hidden), seen
