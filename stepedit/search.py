"""Look further than the likeliest action: keep several texts on their way for each source, and choose at the end.

Every turn, each of K texts is taken further by its K likeliest actions. Texts that were met before are not followed
again. With a verifier, the first finished text that the task's own check accepts wins; the check sees the source, never
the target. What is finished leaves the batch.

Shapes: B sources, R of them still searched, K texts of each, C candidates of each, F fields of an action, T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from stepedit.actions import DONE, Template
from stepedit.interpreter import Outcome, Step, describe, keys, step_batch, tensors
from stepedit.sequences import BoolArray, Sequences

NEVER = float("-inf")


class Proposer(Protocol):
    """A programmer that can say its likeliest actions (B, K, F) for some states, with log-probabilities (B, K)."""

    def propose(self, ids_BT: Tensor, lengths_B: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Likeliest first; where there are fewer, the rest has a log-probability of minus infinity."""


class Checker(Protocol):
    """A task's check."""

    def __call__(self, sources: Sequences, predictions: Sequences) -> BoolArray:
        """(B,) whether each is right, as far as its source can tell."""


@dataclass
class Found:
    """The best finished text of each source so far."""

    texts: list[tuple[int, ...]]
    scores: Tensor  # (B,) log-probability; -inf where nothing is finished
    ends: Tensor  # (B, 2) the turn it was finished in, and as which of the K texts
    accepted: Tensor  # (B,)


class Turn(NamedTuple):
    """What was done in one turn."""

    rows: Tensor  # (R,)
    parents: Tensor  # (R, K) which text each came from
    actions: Tensor  # (R, K, F)
    confidence: Tensor  # (R, K)


class Search:
    """The search for some sources."""

    def __init__(self, sources: Sequences, template: Template, width: int, check: Checker | None) -> None:
        self.sources, self.template, self.width, self.check = sources, template, width, check
        size = len(sources)
        self.rows = torch.arange(size)  # (R,) still searched
        self.ids, self.lengths = tensors(sources)  # (R*K, T), (R*K,)
        self.ids, self.lengths = (part.repeat_interleave(width, 0) for part in (self.ids, self.lengths))
        self.scores = torch.full((size, width), NEVER)  # (R, K)
        self.scores[:, 0] = 0.0  # there is only one text at first
        self.seen = keys(*tensors(sources))[:, None]  # (R, S) keys of texts met before
        self.found = Found(
            [tuple(row) for row in sources.rows()],
            torch.full((size,), NEVER),
            torch.zeros(size, 2, dtype=torch.long),
            torch.zeros(size, dtype=torch.bool),
        )
        self.history = list[Turn]()

    def turn(self, programmer: Proposer) -> None:
        """Every text one action further."""
        actions_XKF, says_XK = programmer.propose(self.ids, self.lengths, self.width)
        rows, width = len(self.rows), self.width
        scores_RC = (self.scores[:, :, None] + says_XK.view(rows, width, width)).flatten(1)
        actions_RCF = actions_XKF.view(rows, width * width, -1)
        done_RC = (actions_RCF == DONE).all(2) & (scores_RC > NEVER)
        self._finish(torch.where(done_RC, scores_RC, NEVER).view(rows, width, width).amax(2))
        self._go_on(actions_RCF, torch.where(done_RC, NEVER, scores_RC), says_XK.view(rows, -1).exp())
        self._drop()

    def _finish(self, scores_RK: Tensor) -> None:
        """Texts that were called done: keep each source's best, an accepted one before all others."""
        at = (scores_RK > NEVER).nonzero()
        if not len(at):
            return
        slot = at[:, 0] * self.width + at[:, 1]
        texts = Sequences(self.ids[slot].numpy(), self.lengths[slot].numpy())
        right = torch.zeros(len(at), dtype=torch.bool)
        if self.check is not None:
            right = torch.from_numpy(self.check(self.sources.take(self.rows[at[:, 0]].numpy()), texts))
        scores = scores_RK[at[:, 0], at[:, 1]]
        order = torch.from_numpy(np.lexsort((-scores.numpy(), ~right.numpy(), at[:, 0].numpy())))
        first = order[torch.cat([torch.tensor([True]), at[order, 0].diff() != 0])]  # the best of each row
        rows = self.rows[at[first, 0]]
        better = right[first] | (scores[first] > self.found.scores[rows])
        first, rows = first[better], rows[better]
        self.found.scores[rows], self.found.accepted[rows] = scores[first], right[first]
        self.found.ends[rows] = torch.stack([torch.full_like(rows, len(self.history)), at[first, 1]], 1)
        for row, text in zip(rows.tolist(), texts.take(first.numpy()).rows(), strict=True):
            self.found.texts[row] = tuple(text)

    def _go_on(self, actions_RCF: Tensor, scores_RC: Tensor, confidence_RC: Tensor) -> None:
        """Apply all actions, and keep the likeliest new texts."""
        rows, count = scores_RC.shape
        slot = torch.arange(rows * self.width).repeat_interleave(self.width)
        flat = actions_RCF.flatten(0, 1)
        result = step_batch(self.ids[slot], self.lengths[slot], flat, self.template)
        scores_RC = scores_RC.masked_fill(result.skipped.view(rows, count), NEVER)
        keys_RC = keys(result.ids, result.lengths).view(rows, count)
        old = (keys_RC[:, :, None] == self.seen[:, None]).any(2)
        scores_RC, order_RC = scores_RC.masked_fill(old, NEVER).sort(dim=1, descending=True, stable=True)
        keys_RC = keys_RC.gather(1, order_RC)
        twice = (keys_RC[:, :, None] == keys_RC[:, None]).tril(-1).any(2)
        best_RK = scores_RC.masked_fill(twice, NEVER).topk(self.width, 1)
        chosen = order_RC.gather(1, best_RK.indices)
        self.scores = best_RK.values
        keys_RK = keys_RC.gather(1, best_RK.indices)
        followed_RK = torch.where(self.scores > NEVER, keys_RK, self.seen[:, :1])  # what is not followed is not met
        self.seen = torch.cat([self.seen, followed_RK], 1)
        at = (torch.arange(rows)[:, None] * count + chosen).flatten()
        self.ids, self.lengths = result.ids[at], result.lengths[at]
        actions_RKF = flat[at].view(rows, self.width, -1)
        self.history.append(Turn(self.rows, chosen // self.width, actions_RKF, confidence_RC.gather(1, chosen)))

    def _drop(self) -> None:
        """Leave alone what is accepted, what nothing is left of, and, without a check, what can't get better."""
        best = self.scores.amax(1)
        beaten = (
            best <= self.found.scores[self.rows] if self.check is None else torch.zeros_like(best, dtype=torch.bool)
        )
        going = ~self.found.accepted[self.rows] & (best > NEVER) & ~beaten
        kept = going.repeat_interleave(self.width)
        self.rows, self.scores, self.seen = self.rows[going], self.scores[going], self.seen[going]
        self.ids, self.lengths = self.ids[kept], self.lengths[kept]
        self.ids = self.ids[:, : int(self.lengths.max()) if len(self.lengths) else 0]

    def outcomes(self, trace: bool) -> list[Outcome]:
        """What was found for each source; where nothing was finished, the likeliest text on its way."""
        results, best = [], self.scores.argmax(1)
        for at, row in enumerate(self.rows.tolist()):
            if self.found.scores[row] == NEVER:
                slot = at * self.width + int(best[at])
                self.found.texts[row] = tuple(self.ids[slot, : self.lengths[slot]].tolist())
                self.found.ends[row] = torch.tensor([len(self.history), int(best[at])])
        for row, (score, (turn, text)) in enumerate(
            zip(self.found.scores.tolist(), self.found.ends.tolist(), strict=True)
        ):
            steps = self._way(row, turn, text) if trace else []
            results.append(Outcome(self.found.texts[row], turn, score > NEVER, steps, score))
        return results

    def _way(self, row: int, turn: int, text: int) -> list[Step]:
        """The steps that led to a text."""
        actions = []
        for past in reversed(self.history[:turn]):
            at = int(torch.searchsorted(past.rows, row))
            actions.append((past.actions[at, text].tolist(), float(past.confidence[at, text])))
            text = int(past.parents[at, text])
        state, steps = tuple(self.sources.take([row]).rows()[0]), list[Step]()
        for action, confidence in reversed(actions):
            steps.append(describe(state, action, self.template, confidence))
            state = steps[-1].state
        return steps


@torch.inference_mode()
def search(
    sources: Sequences,
    programmer: Proposer,
    template: Template,
    limit: int,
    width: int,
    check: Checker | None = None,
    trace: bool = False,
) -> list[Outcome]:
    """Edit each source with a beam of `width` texts, `limit` actions at the most."""
    state = Search(sources, template, width, check)
    for _ in range(limit):
        if not len(state.rows):
            break
        state.turn(programmer)
    return state.outcomes(trace)
