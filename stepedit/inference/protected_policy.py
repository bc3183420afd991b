"""A policy that leaves protected tokens alone and puts no mark where it does not stand, around any other.

Beam search drops actions that touch a protected token or crowd a mark (`Template.crowds`). Greedy decoding asks what
the policy would do next if such an edit had been made, on a draft of the text. Without that, it would want the same
edit again and again, and the most probable of the other actions means little: in `europe is here`, with `europe` kept,
a capital for `here`.

Shapes: B texts, K actions of each, F fields of an action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stepedit.data.states import States
from stepedit.editing.actions import DONE, TOKEN, Template, token
from stepedit.editing.edits import Edit
from stepedit.editing.interpreter import FloatArray, Prediction
from stepedit.editing.sequences import IntArray, Sequences
from stepedit.inference.protection import PLAIN, PROTECTED, Protection, plain, plain_row
from stepedit.inference.several_edits import shift
from stepedit.methods.base import Policy
from stepedit.text.tokenization import as_mark
from stepedit.text.vocabulary import Vocabulary

NUM_CANDIDATES = 8  # actions to choose from where the most probable one is refused

Predict = Callable[[Sequences], Prediction]


class Draft:
    """A text in which also the edits are made that touch protected tokens."""

    def __init__(self, row: Sequence[int]) -> None:
        self.size, self.row = len(row), list(row)
        self.origins: list[int | None] = list(range(len(row)))  # the position in the text of each token
        self.seen = {tuple(row)}

    def apply(self, edit: Edit[int]) -> bool:
        """Make an edit; return whether the draft is a new one."""
        self.row[edit.start : edit.stop] = edit.tokens
        self.origins[edit.start : edit.stop] = [None] * len(edit.tokens)
        state = tuple(self.row)
        is_new = state not in self.seen
        self.seen.add(state)
        return is_new

    def position(self, edit: Edit[int]) -> int | None:
        """Return where an edit of the draft is made in the text; None if it changes what is in the draft only."""
        if edit.start < edit.stop:
            first, removed = self.origins[edit.start], self.origins[edit.start : edit.stop]
            return first if first is not None and removed == [*range(first, first + len(removed))] else None
        after = [*self.origins, self.size][edit.start]
        before = -1 if edit.start == 0 else self.origins[edit.start - 1]
        return after if after is not None else None if before is None else before + 1


class ProtectedPolicy:
    """A policy for texts, marked or not, whose actions touch no protected token and crowd no mark."""

    def __init__(self, policy: Policy, template: Template, vocabulary: Vocabulary) -> None:
        self.policy, self.template, self.protection = policy, template, Protection(vocabulary)

    @property
    def num_parameters(self) -> int:
        """The number of trained weights."""
        return self.policy.num_parameters

    @property
    def plans(self) -> bool:
        """Whether it can plan."""
        return self.policy.plans

    def reading(self, vocabulary: Vocabulary) -> ProtectedPolicy:
        """Return the same for texts whose ids this vocabulary names."""
        return ProtectedPolicy(self.policy.reading(vocabulary), self.template, vocabulary)

    def predict(self, texts: Sequences) -> Prediction:
        """Return the most probable action of each text that is not refused."""
        return self.checked(self._predict)(texts)

    def checked(self, predict: Predict) -> Predict:
        """Return a function that predicts the same, with another action in place of one that is refused."""

        def without_refused(texts: Sequences) -> Prediction:
            symbols, log_probs = predict(texts)
            rows = texts.rows()
            bad = [index for index, row in enumerate(rows) if self._is_refused(symbols[index].tolist(), row)]
            if not bad:
                return Prediction(symbols, log_probs)
            symbols, log_probs = symbols.copy(), np.array(log_probs)
            symbols[bad], log_probs[bad] = self._others([rows[index] for index in bad])
            return Prediction(symbols, log_probs)

        return without_refused

    def _others(self, rows: Sequence[list[int]]) -> tuple[IntArray, FloatArray]:
        """Return the first action for each text that is not refused, when all before it are made on a draft.

        DONE, if the draft is done, comes back to what it was, or the first few actions are all refused.
        """
        symbols, log_probs = np.full((len(rows), len(self.template.fields)), DONE), np.zeros(len(rows))
        drafts, waiting = [Draft(row) for row in rows], list(range(len(rows)))
        for _ in range(NUM_CANDIDATES):
            if not waiting:
                break
            texts = Sequences.from_rows([plain_row(drafts[index].row) for index in waiting])
            actions, values = self.policy.predict(texts)
            again = list[int]()
            for index, action, value in zip(waiting, actions, values.tolist(), strict=True):
                edit = self.template.edit(action.tolist(), plain_row(drafts[index].row))
                found = None if edit is None else self._in_text(action, edit, drafts[index], rows[index])
                log_probs[index] = min(log_probs[index], value)  # the confidence of a draft is the lowest of its edits
                if found is not None:
                    symbols[index] = found
                elif edit is not None and drafts[index].apply(edit):
                    again.append(index)
            waiting = again
        return symbols, log_probs

    def _in_text(self, action: IntArray, edit: Edit[int], draft: Draft, row: list[int]) -> IntArray | None:
        """Return an action on a draft as one on the text; None if it is refused there or is for the draft."""
        place = draft.position(edit)
        if place is None:
            return None
        moved = shift(action[None], np.array([place - edit.start]))
        moved = self._with_marked_copies(moved[:, None], Sequences.from_rows([row]))[0, 0]
        found = self.template.edit(moved.tolist(), row)
        return None if found is None or self._refuses(found, row) else moved

    def top_k(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        """Return the k most probable actions that are not refused; DONE if all that are considered are."""
        actions, log_probs = self.policy.top_k(plain(texts), max(k, NUM_CANDIDATES))
        actions = self._with_marked_copies(actions, texts)
        best, values = actions[:, :k].copy(), np.full((len(texts), k), -np.inf)
        for index, row in enumerate(texts.rows()):
            possible = np.flatnonzero(log_probs[index] > -np.inf)
            kept = [at for at in possible.tolist() if not self._is_refused(actions[index, at].tolist(), row)][:k]
            best[index, : len(kept)], values[index, : len(kept)] = actions[index, kept], log_probs[index, kept]
            if not kept and len(possible):
                best[index, 0], values[index, 0] = DONE, log_probs[index].max()
        return best, values

    def plan(self, texts: Sequences, size: int) -> tuple[IntArray, FloatArray]:
        """Return the policy's plan; its edits have to be checked when they are made, on the text of that moment."""
        actions, log_probs = self.policy.plan(plain(texts), size)
        return self._with_marked_copies(actions, texts), log_probs

    def log_prob(self, states: States) -> FloatArray:
        """Return the policy's log-probability."""
        return self.policy.log_prob(states)

    def allowed(self, sources: Sequences) -> Callable[[int, Sequence[Edit[int]]], bool]:
        """Return what tells whether the edits of a script touch no protected token of the source of an index."""
        rows = sources.rows()
        return lambda index, edits: self.protection.allows(edits, rows[index])

    def _predict(self, texts: Sequences) -> Prediction:
        symbols, log_probs = self.policy.predict(plain(texts))
        return Prediction(self._with_marked_copies(symbols[:, None], texts)[:, 0], log_probs)

    def _is_refused(self, action: list[int], row: list[int]) -> bool:
        unmarked = [part & (PLAIN << 2 | 3) if part & 3 == TOKEN and part > 0 else part for part in action]
        edit = self.template.edit(unmarked, plain_row(row))
        return edit is not None and self._refuses(edit, row)

    def _refuses(self, edit: Edit[int], row: Sequence[int]) -> bool:
        return self.protection.touches(edit, row) or self.template.crowds(edit, plain_row(row), self._mark_of)

    def _mark_of(self, token: int) -> str:
        return as_mark(self.protection.vocabulary.name(token))

    def _with_marked_copies(self, actions_BKF: IntArray, texts: Sequences) -> IntArray:
        """Return actions with the id of a protected token where they copy one that is nowhere else in the text."""
        if "token" not in self.template.fields or not self.template.copies:
            return actions_BKF
        if not (texts.ids >= PROTECTED).any():
            return actions_BKF
        column, result = self.template.fields.index("token"), actions_BKF.copy()
        for row, ids in enumerate(texts.rows()):
            marks = {index & PLAIN: index for index in ids if index >= PROTECTED}
            for at, part in enumerate(result[row, :, column].tolist()):
                copied = marks.get(part >> 2) if part & 3 == TOKEN and part > 0 else None
                if copied is not None and part >> 2 not in self.template.tokens and part >> 2 not in ids:
                    result[row, at, column] = token(copied)
        return result
