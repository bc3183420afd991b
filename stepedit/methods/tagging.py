"""Tagging: write a tag for every token of the source, and tags of their own for what is to be inserted.

    source   7 * 8 / 4 8 2 - == 6
    output   <keep> <keep> <keep> <keep> <keep> <delete> <sub_-> <sub_8> <keep> <keep> <end>

    source   8 2 8 4 2
    output   <insert_-> <keep> <insert_*> <keep> <insert_/> <keep> <insert_+> <keep> <insert_==> <keep> <end>

`<keep>`, `<delete>` and `<sub_X>` each go one token further in the source; `<insert_X>` stays where it is, so anything
can be inserted anywhere, also behind the last token. A span that becomes one token is `<sub_X>` and deletions. What no
tag reaches is kept.

Shapes: B states, T tokens, K edits of the longest script, M tokens of the widest edit, O tags.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from stepedit import edits
from stepedit.batches import States
from stepedit.edits import Scripts
from stepedit.methods.method import END, OneShot, before_end, close_gaps
from stepedit.sequences import PAD, BoolArray, IntArray, Pairs, Sequences

KEEP, DELETE, FIRST_TOKEN = 2, 3, 4


class Tagging(OneShot):
    """Write tags."""

    name: ClassVar[str] = "tagging"
    title: ClassVar[str] = "write a tag for every token"

    def symbols(self) -> list[str]:
        """The end, keep, delete, and for every token to substitute and to insert it."""
        tokens = self.task.vocabulary.tokens[1:]
        return ["<end>", "<keep>", "<delete>", *(f"<{tag}_{token}>" for tag in ("sub", "insert") for token in tokens)]

    def token_of(self) -> list[int]:
        """The token of each output that has one."""
        return [PAD] * FIRST_TOKEN + [*range(1, len(self.task.vocabulary))] * 2

    @property
    def longest(self) -> int:
        """A tag for every token of the longest text, as many to insert, and the end."""
        return 2 * self.task.longest + 1

    @property
    def _tokens(self) -> int:
        return len(self.task.vocabulary) - 1

    def sayable(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """(B,) whether all tokens are known that edits bring; what is kept need not be."""
        return np.asarray((scripts.tokens < len(self.task.vocabulary)).all((1, 2)))

    def render(self, states: States) -> tuple[Tensor, Tensor]:
        """Tags that make the target of each state."""
        texts = Sequences(states.ids.numpy(), states.lengths.numpy())
        scripts = states.left
        if not scripts.run_right:  # later edits meet earlier ones' tokens: only the whole change can be tagged
            scripts = edits.scripts(texts, states.targets)
        slots = self._slots(texts, scripts)
        tags = Sequences.keep(slots)
        wide = tags.widened(int(tags.lengths.max(initial=0)) + 1)
        wide.ids[np.arange(len(tags)), tags.lengths] = END
        return torch.from_numpy(wide.ids), torch.from_numpy(tags.lengths + 1)

    def _slots(self, texts: Sequences, scripts: Scripts) -> IntArray:
        """(B, T+1, K*M+1) for each place every edit's insertions before it and its own tag, PAD where there is none."""
        width, (_, columns, most) = texts.ids.shape[1], scripts.tokens.shape
        slots = np.full((len(texts), width + 1, columns * most + 1), PAD, np.int64)
        slots[:, :width, -1] = np.where(texts.mask(), KEEP, PAD)
        grown = np.cumsum(scripts.growth, axis=1) - scripts.growth
        for index in range(scripts.starts.shape[1] - 1):
            rows = np.flatnonzero(index < scripts.counts)
            start = scripts.starts[rows, index] - grown[rows, index]
            span, brings = scripts.stops[rows, index] - scripts.starts[rows, index], scripts.widths[rows, index]
            for ahead in range(int(span.max(initial=0))):
                at = ahead < span
                token = scripts.tokens[rows, index, min(ahead, most - 1)]
                tag = np.where(ahead < brings, FIRST_TOKEN + token - 1, DELETE)
                slots[rows[at], start[at] + ahead, -1] = tag[at]
            for place in range(int(brings.max(initial=0))):
                at = (place >= span) & (place < brings)
                inserted = FIRST_TOKEN + self._tokens + scripts.tokens[rows, index, place] - 1
                slots[rows[at], (start + span)[at], index * most + place] = inserted[at]
        return slots

    def realise(self, ids: Tensor, lengths: Tensor, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """The texts that tags make of states."""
        said = before_end(symbols) & (symbols > END)
        inserts = said & (symbols >= FIRST_TOKEN + self._tokens)
        moves = said & ~inserts
        place = moves.cumsum(1) - moves.long()
        inside = place < lengths[:, None]
        padded = torch.nn.functional.pad(ids, (0, 1), value=PAD)
        current = padded.gather(1, place.clamp(max=ids.shape[1]))
        new = torch.where(inserts, symbols - FIRST_TOKEN - self._tokens + 1, symbols - FIRST_TOKEN + 1)
        slots = torch.where(inserts | (moves & inside & (symbols >= FIRST_TOKEN)), new, PAD)
        slots = torch.where(moves & inside & (symbols == KEEP), current, slots)
        beyond = torch.arange(ids.shape[1]) >= moves.sum(1)[:, None]
        return close_gaps(torch.cat([slots, torch.where(beyond, ids, PAD)], 1))
