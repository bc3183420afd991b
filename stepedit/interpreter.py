"""The interpreter: applies actions, knows nothing else. It has no parameters and decides nothing.

`step` is the specification, for one sequence in plain Python. `step_batch` does the same to whole padded tensors
without a loop over rows. `run` feeds the edited texts back to a programmer until it says DONE, goes in a circle or
comes to a limit.

Shapes: B states, T tokens of the longest, F fields of an action, M tokens of the widest edit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from stepedit import edits
from stepedit.actions import DONE, NOTHING, OPERATION, POSITION, TOKEN, Operation, Template, operation
from stepedit.sequences import PAD, Sequences

# ids (B, T), lengths (B,) -> actions (B, F), and how sure it is of each (B,)
Programmer = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Step:
    """One action and what came of it. Tokens are ids; `before` and `after` are what stood at start and stands now."""

    action: tuple[int, ...]
    operation: str  # insert, delete, substitute, replace, swap, or skip
    start: int | None  # None if nothing was done
    before: tuple[int, ...]
    after: tuple[int, ...]
    state: tuple[int, ...]  # the whole text after the step
    skipped: bool
    confidence: float = 1.0  # the probability that the programmer gave to the action


@dataclass(frozen=True)
class Outcome:
    """How the editing of one text went: `finished` if the programmer said DONE; a limit or a circle is no decision."""

    tokens: tuple[int, ...]
    steps: int
    finished: bool
    trace: list[Step] = field(default_factory=list)
    score: float = 0.0  # its log-probability, where it was searched for

    @property
    def truncated(self) -> bool:
        """The limit, or a circle, came before DONE."""
        return not self.finished


class EditBatch(NamedTuple):
    """One edit for each of B states; or, where said, (B, K) of them."""

    starts: Tensor  # (B,)
    stops: Tensor  # (B,)
    tokens: Tensor  # (B, M)
    widths: Tensor  # (B,)


class StepResult(NamedTuple):
    """B states after one action each."""

    ids: Tensor  # (B, T')
    lengths: Tensor  # (B,)
    done: Tensor  # (B,) the programmer said DONE
    skipped: Tensor  # (B,) the action did not fit and nothing changed


def step(state: Sequence[int], action: Sequence[int], template: Template) -> tuple[tuple[int, ...], bool, bool]:
    """The state after one action, whether it was DONE, and whether it was skipped."""
    if tuple(action) == template.done():
        return tuple(state), True, False
    edit = template.edit(action, state)
    if edit is None:
        return tuple(state), False, True
    return edits.apply(state, edit), False, False


def step_batch(ids_BT: Tensor, lengths_B: Tensor, actions_BF: Tensor, template: Template) -> StepResult:
    """`step` for whole arrays of states and actions."""
    if actions_BF.shape[1] != len(template.fields):
        nobody = torch.zeros_like(lengths_B, dtype=torch.bool)
        return StepResult(ids_BT, lengths_B, nobody, ~nobody)
    done_B = (actions_BF == DONE).all(1)
    batch, valid_B = edits_of(actions_BF, ids_BT, lengths_B, template)
    ids, lengths = splice(ids_BT, lengths_B, batch)
    return StepResult(ids, lengths, done_B, ~valid_B & ~done_B)


def edits_of(actions_BF: Tensor, ids_BT: Tensor, lengths_B: Tensor, template: Template) -> tuple[EditBatch, Tensor]:
    """`Template.edit` for whole arrays: the edits, and (B,) which actions fit; the others' edits change nothing."""
    said = dict(zip(template.fields, actions_BF.unbind(1), strict=True))
    nothing = torch.full_like(lengths_B, NOTHING)
    named = said.get("operation", torch.full_like(lengths_B, operation(template.operations[0])))
    first, last = (said[name] if name in said else said["position"] for name in ("first", "last"))
    start, end, brings = first >> 2, last >> 2, said.get("token", nothing)
    well_formed = (named & 3 == OPERATION) & (first & 3 == POSITION) & (last & 3 == POSITION) & (start >= 0)
    fits = (brings & 3 == TOKEN) & _allowed(brings >> 2, ids_BT, template)
    spans = fits & (start <= end) & (end < lengths_B)
    bare = said.get("token", first) == first
    cases = {  # operation: (whether it can be done, where it stops, how many tokens it brings)
        Operation.INSERT: (fits & (start <= lengths_B), start, 1),
        Operation.SUBSTITUTE: (spans, end + 1, 1),
        Operation.REPLACE: (spans, end + 1, 1),
        Operation.DELETE: (bare & (start < lengths_B), start + 1, 0),
        Operation.SWAP: (bare & (start < lengths_B - 1), start + 2, 2),
    }
    valid, stop, width = torch.zeros_like(fits), torch.zeros_like(start), torch.zeros_like(start)
    for which in template.operations:
        possible, its_stop, its_width = cases[which]
        chosen = well_formed & possible & (named >> 2 == which)
        valid, stop, width = valid | chosen, torch.where(chosen, its_stop, stop), width + chosen * its_width
    start = torch.where(valid, start, 0)
    tokens_BM = torch.where(width > 0, brings >> 2, PAD)[:, None]
    if Operation.SWAP in template.operations:
        tokens_BM = torch.where((width == 2)[:, None], _swapped(ids_BT, start), pad(tokens_BM, (0, 1), value=PAD))
    return EditBatch(start, stop, tokens_BM, width), valid


def _swapped(ids_BT: Tensor, start_B: Tensor) -> Tensor:
    """(B, 2) the two neighbours at each start, the other way round."""
    padded = pad(ids_BT, (0, 2), value=PAD)  # where there is no such pair, there is something to read
    return padded.gather(1, torch.stack([start_B + 1, start_B], 1))


def _allowed(tokens_B: Tensor, ids_BT: Tensor, template: Template) -> Tensor:
    """(B,) whether each id is a token that an action may bring."""
    table = _token_table(template.tokens).to(tokens_B.device)
    inside = (tokens_B >= 0) & (tokens_B < len(table))
    allowed = inside & table[torch.where(inside, tokens_B, 0)]
    if template.copies:
        allowed |= (tokens_B != PAD) & (ids_BT == tokens_B[:, None]).any(1)
    return allowed


@lru_cache(maxsize=16)
def _token_table(tokens: frozenset[int]) -> Tensor:
    table = torch.zeros(max(tokens, default=0) + 1, dtype=torch.bool)
    table[sorted(tokens)] = True
    return table


def actions_for(batch: EditBatch, done_B: Tensor, template: Template) -> Tensor:
    """(B, F) how a programmer has to say these edits, or that a text is done."""
    first = batch.starts * 4 + POSITION
    columns = {
        "operation": operations_of(batch, template) * 4 + OPERATION,
        "position": first,
        "first": first,
        "last": (batch.stops - 1) * 4 + POSITION,
        "token": torch.where(batch.widths == 1, batch.tokens[:, 0] * 4 + TOKEN, first),
    }
    return torch.where(done_B[:, None], DONE, torch.stack([columns[field] for field in template.fields], 1))


def operations_of(batch: EditBatch, template: Template) -> Tensor:
    """`Template.operation_of` for a batch."""
    if len(template.operations) == 1:
        return torch.full_like(batch.starts, template.operations[0])
    changed = torch.where(batch.widths > 0, int(Operation.SUBSTITUTE), int(Operation.DELETE))
    changed = torch.where(batch.stops - batch.starts > 1, int(Operation.REPLACE), changed)
    changed = torch.where(batch.widths == 2, int(Operation.SWAP), changed)
    return torch.where(batch.stops == batch.starts, int(Operation.INSERT), changed)


def splice(ids_BT: Tensor, lengths_B: Tensor, batch: EditBatch) -> tuple[Tensor, Tensor]:
    """Replace ids[start:stop] by tokens in every row; an edit of nothing by nothing leaves its row alone."""
    grown_B = batch.widths - (batch.stops - batch.starts)
    lengths = lengths_B + grown_B
    width = int(lengths.max()) if len(lengths) else 0
    at_T = torch.arange(width, device=ids_BT.device)
    inside_BT = at_T - batch.starts[:, None]  # place within the new tokens
    behind_BT = inside_BT >= batch.widths[:, None]
    from_BT = torch.where(behind_BT, at_T - grown_B[:, None], at_T).clamp(0, max(ids_BT.shape[1] - 1, 0))
    kept_BT = ids_BT.gather(1, from_BT) if ids_BT.shape[1] else ids_BT.new_full(from_BT.shape, PAD)
    new_BT = batch.tokens.gather(1, inside_BT.clamp(0, batch.tokens.shape[1] - 1))
    ids = torch.where((inside_BT >= 0) & ~behind_BT, new_BT, kept_BT)
    return torch.where(at_T < lengths[:, None], ids, PAD), lengths


def tensors(sequences: Sequences) -> tuple[Tensor, Tensor]:
    """Ids and lengths as tensors that share the arrays' memory."""
    return torch.from_numpy(sequences.ids), torch.from_numpy(sequences.lengths)


def keys(ids_BT: Tensor, lengths_B: Tensor) -> Tensor:
    """(B,) a number for each text."""
    return torch.from_numpy(Sequences(ids_BT.numpy(), lengths_B.numpy()).keys().view(np.int64))


def run(
    sources: Sequences,
    programmer: Programmer,
    template: Template,
    limit: int,
    trace: bool = False,
    stop_circles: bool = False,
) -> list[Outcome]:
    """Edit each source until the programmer says DONE, `limit` actions at the most. Finished rows leave the batch.

    A text that comes back to what it was before, or that an action does not fit, can be stopped there: a programmer
    that always says the same of the same text would go round for ever.
    """
    ids, lengths = tensors(sources)
    rows, seen = torch.arange(len(sources)), keys(ids, lengths)[:, None]
    outcomes: list[Outcome | None] = [None] * len(sources)
    traces: list[list[Step]] = [[] for _ in range(len(sources))]
    for steps in range(limit):
        if not len(rows):
            break
        actions, confidence = programmer(ids, lengths)
        result = step_batch(ids, lengths, actions, template)
        if trace:
            _record(traces, rows, ids, lengths, actions, confidence, result, template)
        _close(outcomes, traces, rows[result.done], ids[result.done], lengths[result.done], steps, finished=True)
        going = ~result.done
        rows, ids, lengths = rows[going], result.ids[going], result.lengths[going]
        if stop_circles:
            now, seen = keys(ids, lengths)[:, None], seen[going]
            again = (seen == now).any(1)
            _close(outcomes, traces, rows[again], ids[again], lengths[again], steps + 1, finished=False)
            rows, ids, lengths, seen = (part[~again] for part in (rows, ids, lengths, torch.cat([seen, now], 1)))
        ids = ids[:, : int(lengths.max()) if len(lengths) else 0]
    _close(outcomes, traces, rows, ids, lengths, limit, finished=False)
    return [outcome for outcome in outcomes if outcome is not None]


def _close(
    outcomes: list[Outcome | None],
    traces: list[list[Step]],
    rows: Tensor,
    ids: Tensor,
    lengths: Tensor,
    steps: int,
    finished: bool,
) -> None:
    """Write down the outcomes of rows that have ended."""
    for row, tokens, length in zip(rows.tolist(), ids.tolist(), lengths.tolist(), strict=True):
        outcomes[row] = Outcome(tuple(tokens[:length]), steps, finished, traces[row])


def _record(
    traces: list[list[Step]],
    rows: Tensor,
    ids: Tensor,
    lengths: Tensor,
    actions: Tensor,
    confidence: Tensor,
    result: StepResult,
    template: Template,
) -> None:
    """Append one step to the trace of each row that is not done."""
    parts = (rows, ids, lengths, actions, confidence, result.done)
    for row, tokens, length, action, sure, done in zip(*(part.tolist() for part in parts), strict=True):
        if not done:
            traces[row].append(describe(tokens[:length], action, template, sure))


def describe(state: Sequence[int], action: Sequence[int], template: Template, confidence: float = 1.0) -> Step:
    """What one action that is not DONE does to a state."""
    edit = template.edit(action, state)
    if edit is None:
        return Step(tuple(action), "skip", None, (), (), tuple(state), True, confidence)
    name = template.operation_named(action).name.lower()
    before, after = tuple(state[edit.start : edit.stop]), edits.apply(state, edit)
    return Step(tuple(action), name, edit.start, before, edit.tokens, after, False, confidence)
