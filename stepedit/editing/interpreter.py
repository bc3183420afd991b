"""The interpreter: applies actions. It has no parameters and makes no decisions.

`step` is the specification, for one sequence in plain Python. `step_batch` does the same to padded arrays without a
loop over rows; a property test compares the two. The loop around it is in `inference.greedy`.

Shapes: B states, T tokens of the longest, F fields of an action, M tokens of the widest edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from stepedit.editing import edits
from stepedit.editing.actions import (
    DONE,
    NOTHING,
    OPERATION,
    POSITION,
    SPANNING,
    TOKEN,
    Operation,
    Template,
    operation,
)
from stepedit.editing.edits import Edit, EditBatch
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Sequences

FloatArray = npt.NDArray[np.floating]
StopReason = Literal["done", "confidence", "limit", "cycle"]


class Prediction(NamedTuple):
    """What a policy predicts for B states: actions, or the whole output of a single-pass method."""

    symbols: IntArray  # (B, F)
    log_probs: FloatArray  # (B,)


class StepResult(NamedTuple):
    """B states after one action each."""

    texts: Sequences
    done: BoolArray  # (B,) the action was DONE
    skipped: BoolArray  # (B,) the action did not fit and nothing changed


@dataclass(frozen=True)
class AppliedAction:
    """One action and what it changed, in token ids; `editing.trace.Step` is its form with strings."""

    operation: str  # insert, delete, substitute, replace, swap, transform, rewrite or skip
    start: int | None  # None if it was skipped
    before: tuple[int, ...]  # tokens removed at start
    after: tuple[int, ...]  # tokens inserted at start
    action: tuple[int, ...] = ()
    confidence: float = 1.0  # probability of the action

    @property
    def edit(self) -> Edit[int]:
        """The edit, for `edits.replay`; an empty one if it was skipped."""
        start = self.start or 0
        return Edit(start, start + len(self.before), self.after)


@dataclass(frozen=True)
class Outcome:
    """The result of editing one text, and why it ended.

    done        the programmer predicted DONE, or a single-pass method the end of its output
    confidence  the next edit was below the minimum confidence
    limit       the largest number of steps, or of output symbols, was reached
    cycle       the text was an earlier one again, or an action did not fit it: the same prediction would follow
    """

    tokens: tuple[int, ...]
    steps: int
    stop_reason: StopReason
    trace: list[AppliedAction] = field(default_factory=list)
    score: float = 0.0  # log-probability, from beam search

    @property
    def finished(self) -> bool:
        """Whether the programmer ended it."""
        return self.stop_reason == "done"

    @property
    def truncated(self) -> bool:
        """A limit or a cycle came before DONE."""
        return self.stop_reason in ("limit", "cycle")


def step(state: Sequence[int], action: Sequence[int], template: Template) -> tuple[tuple[int, ...], bool, bool]:
    """Return the state after one action, whether it was DONE, and whether it was skipped."""
    if tuple(action) == template.done():
        return tuple(state), True, False
    edit = template.edit(action, state)
    if edit is None:
        return tuple(state), False, True
    return edits.apply(state, edit), False, False


def step_batch(texts: Sequences, actions_BF: IntArray, template: Template) -> StepResult:
    """Apply one action to each state: `step` for arrays."""
    if actions_BF.shape[1] != len(template.fields):
        nowhere = np.zeros(len(texts), np.bool_)
        return StepResult(texts, nowhere, ~nowhere)
    done_B = (actions_BF == DONE).all(1)
    batch, valid_B = edits_of(actions_BF, texts, template)
    return StepResult(splice(texts, batch), done_B, ~valid_B & ~done_B)


def edits_of(actions_BF: IntArray, texts: Sequences, template: Template) -> tuple[EditBatch, BoolArray]:
    """Return the edits of actions and (B,) which actions fit; other edits are empty: `Template.edit` batched."""
    values, lengths_B = dict(zip(template.fields, actions_BF.T, strict=True)), texts.lengths
    named = values.get("operation", np.full_like(lengths_B, operation(template.operations[0])))
    first, last = (values[name] if name in values else values["position"] for name in ("first", "last"))
    inserted = values.get("token", np.full_like(lengths_B, NOTHING))
    start, end = first >> 2, last >> 2
    well_formed = (named & 3 == OPERATION) & (first & 3 == POSITION) & (last & 3 == POSITION) & (start >= 0)
    has_token = (inserted & 3 == TOKEN) & _allowed(inserted >> 2, texts.ids, template)
    inside = (start <= end) & (end < lengths_B)
    no_token = values.get("token", first) == first
    cases = {  # operation: (whether it fits, its stop, its number of tokens)
        Operation.INSERT: (has_token & (start <= lengths_B), start, 1),
        Operation.SUBSTITUTE: (has_token & inside, end + 1, 1),
        Operation.REPLACE: (has_token & inside, end + 1, 1),
        Operation.DELETE: (no_token & inside, end + 1, 0),
        Operation.SWAP: (no_token & (start < lengths_B - 1), start + 2, 2),
        Operation.TRANSFORM: ((inserted & 3 == TOKEN) & (inserted >> 2 > 0) & inside, end + 1, 1),
    }
    valid, stop, width = np.zeros_like(has_token), np.zeros_like(start), np.zeros_like(start)
    for which in template.operations:
        fits, its_stop, its_width = cases[which]
        chosen = well_formed & fits & (named >> 2 == which) & ((start == end) | (which in SPANNING))
        valid, stop, width = valid | chosen, np.where(chosen, its_stop, stop), width + chosen * its_width
    start = np.where(valid, start, 0)
    tokens_BM = np.where(width > 0, inserted >> 2, PAD)[:, None]
    if Operation.SWAP in template.operations:
        tokens_BM = np.where((width == 2)[:, None], _swapped(texts.ids, start), np.pad(tokens_BM, ((0, 0), (0, 1))))
    return EditBatch(start, stop, tokens_BM, width), valid


def _swapped(ids_BT: IntArray, start_B: IntArray) -> IntArray:
    """(B, 2) the two tokens at each start, exchanged."""
    padded = np.pad(ids_BT, ((0, 0), (0, 2)))  # so that every start can be read, also of rows that do not swap
    return np.take_along_axis(padded, np.stack([start_B + 1, start_B], 1), 1)


def _allowed(tokens_B: IntArray, ids_BT: IntArray, template: Template) -> BoolArray:
    """(B,) whether each id is a token that an action may insert."""
    table = _token_table(template.tokens)
    inside = (tokens_B >= 0) & (tokens_B < len(table))
    allowed: BoolArray = inside & table[np.where(inside, tokens_B, 0)]
    if template.copies:
        allowed |= (tokens_B != PAD) & (ids_BT == tokens_B[:, None]).any(1)
    return allowed


@lru_cache(maxsize=16)
def _token_table(tokens: frozenset[int]) -> BoolArray:
    table = np.zeros(max(tokens, default=0) + 1, np.bool_)
    table[sorted(tokens)] = True
    return table


def actions_for(batch: EditBatch, done_B: BoolArray, template: Template, texts: Sequences | None = None) -> IntArray:
    """Return the actions (B, F) that name these edits, or DONE; with the texts, word forms are transformations."""
    first = batch.starts * 4 + POSITION
    operations_B = operations_of(batch, template, texts)
    columns = {
        "operation": operations_B * 4 + OPERATION,
        "position": first,
        "first": first,
        "last": np.where(np.isin(operations_B, list(SPANNING)), batch.stops - 1, batch.starts) * 4 + POSITION,
        "token": np.where(batch.widths == 1, batch.tokens[:, 0] * 4 + TOKEN, first),
    }
    return np.where(done_B[:, None], DONE, np.stack([columns[name] for name in template.fields], 1))


def operations_of(batch: EditBatch, template: Template, texts: Sequences | None = None) -> IntArray:
    """Return the operation of each edit: `Template.operation_of` batched; with the texts, of word forms too."""
    if len(template.operations) == 1:
        return np.full_like(batch.starts, template.operations[0])
    spans = batch.stops - batch.starts
    changed = np.where(spans > 1, int(Operation.REPLACE), int(Operation.SUBSTITUTE))
    if texts is not None and template.num_rules:
        changed = np.where(rules_of(batch, template, texts) >= 0, int(Operation.TRANSFORM), changed)
    changed = np.where(batch.widths > 0, changed, int(Operation.DELETE))
    changed = np.where(batch.widths == 2, int(Operation.SWAP), changed)
    return np.where(spans == 0, int(Operation.INSERT), changed)


def rules_of(batch: EditBatch, template: Template, texts: Sequences) -> IntArray:
    """Return the affix rule of each edit, (B,) or (B, K), that makes a word into another form of it; -1 for others."""
    if template.rules_between is None:
        return np.full_like(batch.starts, -1)
    single = (batch.widths == 1) & (batch.stops - batch.starts == 1)
    starts = batch.starts.reshape(len(texts), -1).clip(0, max(texts.ids.shape[1] - 1, 0))
    old = np.take_along_axis(texts.widened(1).ids, starts, 1).reshape(batch.starts.shape)
    return template.rules_between(old, batch.tokens[..., 0], single)


def splice(texts: Sequences, batch: EditBatch) -> Sequences:
    """Replace ids[start:stop] by tokens in every row; an empty edit leaves its row unchanged."""
    growth_B = batch.widths - (batch.stops - batch.starts)
    lengths = texts.lengths + growth_B
    column_T = np.arange(int(lengths.max(initial=0)))
    offset_BT = column_T - batch.starts[:, None]  # within the new tokens
    behind_BT = offset_BT >= batch.widths[:, None]
    source_BT = np.where(behind_BT, column_T - growth_B[:, None], column_T)
    source_BT = source_BT.clip(0, max(texts.ids.shape[1] - 1, 0))
    kept_BT = np.take_along_axis(texts.widened(1).ids, source_BT, 1)
    new_BT = np.take_along_axis(batch.tokens, offset_BT.clip(0, batch.tokens.shape[1] - 1), 1)
    ids = np.where((offset_BT >= 0) & ~behind_BT, new_BT, kept_BT)
    return Sequences(np.where(column_T < lengths[:, None], ids, PAD), lengths)


def describe(state: Sequence[int], action: Sequence[int], template: Template, confidence: float = 1.0) -> AppliedAction:
    """Return what one action other than DONE does to a state."""
    edit = template.edit(action, state)
    if edit is None:
        return AppliedAction("skip", None, (), (), tuple(action), confidence)
    name = template.operation_named(action).name.lower()
    before = tuple(state[edit.start : edit.stop])
    return AppliedAction(name, edit.start, before, edit.tokens, tuple(action), confidence)
