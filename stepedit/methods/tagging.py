"""Tagging: predict a tag for every token of the source, and tags of their own for insertions.

    source   7 * 8 / 4 8 2 - == 6
    output   <keep> <keep> <keep> <keep> <keep> <delete> <sub_-> <sub_8> <keep> <keep> <end>

    source   8 2 8 4 2
    output   <insert_-> <keep> <insert_*> <keep> <insert_/> <keep> <insert_+> <keep> <insert_==> <keep> <end>

`<keep>`, `<delete>` and `<sub_X>` consume one token of the source; `<insert_X>` consumes none, so anything can be
inserted anywhere, also after the last token. A span that is replaced by one token is `<sub_X>` and deletions. Tokens
that no tag reaches are kept.

Shapes: B states, T tokens, K edits of the longest script, M tokens of the widest edit, O tags.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from stepedit.data.states import States
from stepedit.editing import alignment
from stepedit.editing.actions import Operation
from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.methods.base import END, SinglePassMethod, before_end, indices

KEEP = END + 1
KINDS = {
    Operation.INSERT: ("insert",),
    Operation.DELETE: ("delete",),
    Operation.SUBSTITUTE: ("sub",),
    Operation.REPLACE: ("sub", "delete"),
    Operation.TRANSFORM: ("sub",),
    Operation.SWAP: ("sub", "insert", "delete"),  # state and target are aligned again
}


class Tagging(SinglePassMethod):
    """Predict tags."""

    name: ClassVar[str] = "tagging"
    title: ClassVar[str] = "predict a tag for every token"

    def output_symbols(self) -> list[str]:
        """Return end, keep, and what the task's operations need: delete, and the tokens to substitute and insert."""
        names = [self.task.vocabulary.name(token) for token in self._tokens]
        tags = [f"<{tag}_{name}>" for tag in ("sub", "insert") if tag in self._kinds for name in names]
        return ["<end>", "<keep>", *["<delete>"] * ("delete" in self._kinds), *tags]

    def output_tokens(self) -> list[int]:
        """Return the token of each output that has one."""
        return [PAD] * self._first_token + [*self._tokens] * len(self._kinds & {"sub", "insert"})

    @cached_property
    def _kinds(self) -> frozenset[str]:
        """What tags do: delete, sub, insert."""
        return frozenset(kind for operation in self.task.template.operations for kind in KINDS[operation])

    @cached_property
    def _tokens(self) -> tuple[int, ...]:
        """The tokens that tags may name: any, where actions move or copy tokens of the text."""
        template = self.task.template
        moves = template.copies or Operation.SWAP in template.operations
        return self.task.text_tokens if moves else tuple(sorted(template.tokens))

    @property
    def _delete(self) -> int:
        return KEEP + ("delete" in self._kinds)

    @property
    def _first_token(self) -> int:
        return self._delete + 1

    @property
    def _first_insertion(self) -> int:
        return self._first_token + len(self._tokens) * ("sub" in self._kinds)

    @cached_property
    def _substitutions(self) -> IntArray:
        return indices(self._tokens, self._first_token, self.task.vocabulary)

    @cached_property
    def _insertions(self) -> IntArray:
        return indices(self._tokens, self._first_insertion, self.task.vocabulary)

    @property
    def max_output_length(self) -> int:
        """A tag for every token of the longest text, as many insertions, and the end symbol."""
        return 2 * self.task.max_length + 1

    def expressible(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """Return (B,) whether all inserted tokens are known; kept ones need not be."""
        return np.asarray(np.isin(scripts.tokens, [PAD, *self._tokens]).all((1, 2)))

    def targets(self, states: States) -> tuple[IntArray, IntArray]:
        """Return the tags that turn each state into its target."""
        scripts = states.remaining
        if not scripts.left_to_right:  # later edits change what earlier ones inserted: align state and target again
            scripts = alignment.scripts(states.texts, states.targets)
        tags = Sequences.keep(self._slots(states.texts, scripts))
        wide = tags.widened(int(tags.lengths.max(initial=0)) + 1)
        wide.ids[np.arange(len(tags)), tags.lengths] = END
        return wide.ids, tags.lengths + 1

    def _slots(self, texts: Sequences, scripts: Scripts) -> IntArray:
        """Return (B, T+1, K*M+1): at each position the insertions of every edit, then its own tag; PAD elsewhere."""
        width, (_, columns, most) = texts.ids.shape[1], scripts.tokens.shape
        slots = np.full((len(texts), width + 1, columns * most + 1), PAD, np.int64)
        slots[:, :width, -1] = np.where(texts.mask(), KEEP, PAD)
        grown = np.cumsum(scripts.growth, axis=1) - scripts.growth
        for index in range(scripts.starts.shape[1] - 1):
            rows = np.flatnonzero(index < scripts.counts)
            start = scripts.starts[rows, index] - grown[rows, index]
            span, count = scripts.stops[rows, index] - scripts.starts[rows, index], scripts.widths[rows, index]
            for offset in range(int(span.max(initial=0))):
                at = offset < span
                token = np.minimum(scripts.tokens[rows, index, min(offset, most - 1)], len(self._substitutions) - 1)
                tag = np.where(offset < count, self._substitutions[token], self._delete)
                slots[rows[at], start[at] + offset, -1] = tag[at]
            for offset in range(int(count.max(initial=0))):
                at = (offset >= span) & (offset < count)
                token = np.minimum(scripts.tokens[rows, index, offset], len(self._insertions) - 1)
                slots[rows[at], (start + span)[at], index * most + offset] = self._insertions[token][at]
        return slots

    def cut_off(self, texts: Sequences, symbols: IntArray, length: int) -> Sequences:
        """Return the texts of the first `length` tags, without the tokens that no tag reaches."""
        kept = np.where(before_end(symbols), symbols, PAD)[:, :length]
        consumed = ((kept > END) & (kept < self._first_insertion)).sum(1)
        reached = np.where(np.arange(texts.ids.shape[1]) < consumed[:, None], texts.ids, PAD)
        return self.rewrite(Sequences.keep(reached), kept)

    def rewrite(self, texts: Sequences, symbols: IntArray) -> Sequences:
        """Return the texts that tags make of texts."""
        ids, lengths = texts.ids, texts.lengths
        valid = before_end(symbols) & (symbols > END)
        inserts = valid & (symbols >= self._first_insertion)
        consumes = valid & ~inserts
        position = consumes.cumsum(1) - consumes
        inside = position < lengths[:, None]
        padded = np.pad(ids, ((0, 0), (0, 1)), constant_values=PAD)
        current = np.take_along_axis(padded, np.minimum(position, ids.shape[1]), 1)
        new = np.array(self.output_tokens())[symbols]
        slots = np.where(inserts | (consumes & inside), new, PAD)
        slots = np.where(consumes & inside & (symbols == KEEP), current, slots)
        beyond = np.arange(ids.shape[1]) >= consumes.sum(1)[:, None]
        return Sequences.keep(np.concatenate([slots, np.where(beyond, ids, PAD)], 1))
