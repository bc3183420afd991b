"""Our programmer: it reads a state once and points at the place to edit; what to do is read off there.

No vocabulary of positions and no decoder loop. Of an action's fields each is chosen given those before it: the place
together with the operation, then the last place of a span, then the token. What does not fit the text can't be said.

Shapes: B states, T tokens with the end that is put behind the text, P operations, H hidden size, V vocabulary, E edits.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, pad

from stepedit.actions import DONE, OPERATION, POSITION, TOKEN, Operation
from stepedit.batches import States
from stepedit.config import Options
from stepedit.edits import closer
from stepedit.errors import UserError
from stepedit.interpreter import operations_of
from stepedit.methods.method import Method, Said
from stepedit.methods.recurrence import Recurrence
from stepedit.programmers.layers import (
    Draw,
    Dropout,
    Embedding,
    RecurrentEncoder,
    TransformerEncoder,
    initialise,
    value_features,
)
from stepedit.programmers.programmer import Programmer
from stepedit.sequences import PAD, Sequences

ROOM = {Operation.INSERT: 0, Operation.SWAP: 2}  # tokens that an operation needs; others need 1
SINGLE = {Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE}
IMPOSSIBLE = -1e9  # not infinite: a row of nothing but these still has a gradient


class Pointer(Programmer):
    """Encoder, pointer and readers."""

    allowed: Tensor  # (V,) tokens that an action may bring
    room: Tensor  # (P,) tokens that have to stand at the place and behind it
    operation_ids: Tensor  # (P,)
    operation_index: Tensor  # the other way round

    def __init__(self, method: Recurrence, options: Options) -> None:
        super().__init__()
        self.template, words = method.task.template, len(method.task.vocabulary)
        hidden, features = options.hidden, value_features(method.task, options)
        self.end = words  # the id of what is put behind a text
        self.read = Embedding(words + 1, hidden, None if features is None else pad(features, (0, 0, 0, 1)))
        self.drop = Dropout(options.dropout)
        self.encoder = _encoder(options, method.positions + 1)
        self.place = nn.Linear(hidden, len(self.template.operations))
        self.done = nn.Linear(hidden, 1)
        self.spans, self.brings = "last" in self.template.fields, "token" in self.template.fields
        if self.spans:
            self.from_first, self.to_last = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
            self.at_last = nn.Linear(hidden, hidden, bias=False)
        if self.brings:
            self.at_place, self.at_end = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
            self.doing = Embedding(len(self.template.operations), hidden)
            self.token = Embedding(words, hidden, features)
            self.bias = nn.Parameter(torch.zeros(words))
            allowed = torch.zeros(words, dtype=torch.bool)
            allowed[sorted(self.template.tokens)] = True
            self.register_buffer("allowed", allowed, persistent=False)
        self.others, self.oracle = options.others or 0.0, options.oracle
        room = torch.tensor([ROOM.get(which, 1) for which in self.template.operations])
        index = torch.zeros(len(Operation), dtype=torch.long)
        index[list(self.template.operations)] = torch.arange(len(self.template.operations))
        self.register_buffer("room", room, persistent=False)
        self.register_buffer("operation_index", index, persistent=False)
        self.register_buffer("operation_ids", torch.tensor(self.template.operations), persistent=False)
        initialise(self, hidden, options.cell)

    @classmethod
    def for_method(cls, method: Method, options: Options) -> Self:
        """It can name actions and nothing else."""
        if not isinstance(method, Recurrence):
            raise UserError(f"the pointer programmer names actions, which {method.name} has none of; take seq2seq")
        if options.oracle == "dynamic" and not set(method.task.template.operations) <= SINGLE:
            raise UserError(f"--oracle dynamic knows edits of single tokens, and {method.task.name} has others")
        return cls(method, options)

    def encode(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, H) hidden states of the texts and the end behind each, and (B, H) those of the ends."""
        marked_BT = pad(ids_BT, (0, 1), value=PAD).scatter(1, lengths_B[:, None], self.end)
        mask_BT = torch.arange(marked_BT.shape[1], device=self.device) <= lengths_B[:, None]
        states_BTH = self.encoder(self.drop(self.read(marked_BT)), mask_BT).states
        return states_BTH, states_BTH[torch.arange(len(ids_BT)), lengths_B]

    def places(self, states_BTH: Tensor, ends_BH: Tensor, lengths_B: Tensor) -> Tensor:
        """(B, T*P+1) logits of every operation at every place, and of DONE."""
        left_BT = lengths_B[:, None] - torch.arange(states_BTH.shape[1], device=self.device)
        fits_BTP = left_BT[:, :, None] >= self.room
        logits_BTP = self.place(states_BTH).masked_fill(~fits_BTP, IMPOSSIBLE)
        return torch.cat([logits_BTP.flatten(1), self.done(ends_BH)], 1)

    def lasts(self, keys_ETH: Tensor, first_EH: Tensor, first_E: Tensor, lengths_E: Tensor) -> Tensor:
        """(E, T) logits of the last place of a span, given its first."""
        query_EH = self.from_first(first_EH) * first_EH.shape[1] ** -0.5
        logits_ET = (keys_ETH @ query_EH[:, :, None])[..., 0]
        place_T = torch.arange(logits_ET.shape[1], device=self.device)
        fits_ET = (place_T >= first_E[:, None]) & (place_T < lengths_E[:, None])
        return logits_ET.masked_fill(~fits_ET, IMPOSSIBLE)

    def tokens(self, first_EH: Tensor, last_EH: Tensor | None, ends_EH: Tensor, doing_E: Tensor) -> Tensor:
        """(E, V) logits of the token to bring."""
        hidden_EH = self.at_place(first_EH) + self.at_end(ends_EH) + self.doing(doing_E)
        if last_EH is not None:
            hidden_EH = hidden_EH + self.at_last(last_EH)
        logits_EV = gelu(hidden_EH) @ self.token.weight().T + self.bias
        return logits_EV.masked_fill(~self.allowed, IMPOSSIBLE)

    def forward(self, states: States, draw: Draw | None = None) -> Tensor:
        """Pointing at the next edit; and what each edit that is left does at its place, the later ones for less."""
        rows = draw.rows if draw else torch.arange(len(states))
        lengths_B = states.lengths[rows].to(self.device)
        states_BTH, ends_BH = self.encode(states.ids[rows].to(self.device), lengths_B)
        logits_BX = self.places(states_BTH, ends_BH, lengths_B)
        if self.oracle == "dynamic":
            says_B = self._nearer(states.take(rows.numpy()), states_BTH, ends_BH, logits_BX.log_softmax(1))
            return -says_B.sum() / len(states)
        lesson = self._lesson(states)
        aim_B = torch.where(states.done(), logits_BX.shape[1] - 1, lesson.place(len(self.template.operations)))
        pointing = cross_entropy(logits_BX, aim_B[rows].to(self.device), reduction="sum") / len(states)
        return pointing + self._reading(lesson.of(rows, self.device), states_BTH, ends_BH, lengths_B)

    def _lesson(self, states: States) -> Lesson:
        """The edits that are left, and how much each counts."""
        now, turn = states.edits_now(), (torch.arange(len(states)), torch.from_numpy(states.turn))
        counts = torch.from_numpy(states.left.present) * (self.others if states.left.run_right else 0.0)
        counts[turn] = (~states.done()).float()
        doing = self.operation_index.cpu()[operations_of(now, self.template)]
        return Lesson(turn, now.starts, now.stops - 1, doing, now.tokens[:, :, 0], counts, counts.sum().clamp(min=1))

    def _reading(self, lesson: Lesson, states_BTH: Tensor, ends_BH: Tensor, lengths_B: Tensor) -> Tensor:
        """How wrong the fields are that come after the place."""
        edits = lesson.counts > 0
        row_E, _ = edits.nonzero(as_tuple=True)
        first_E, last_E, doing_E, token_E = (
            part[edits] for part in (lesson.first, lesson.last, lesson.doing, lesson.token)
        )
        share_E = lesson.counts[edits] / lesson.total
        first_EH = states_BTH[row_E, first_E]
        wrong_E = torch.zeros_like(share_E)
        if self.others and len(self.template.operations) > 1:  # pointing has taught it for the next edit only
            wrong_E = cross_entropy(self.place(first_EH), doing_E, reduction="none")
        last_EH = states_BTH[row_E, last_E] if self.spans else None
        if self.spans:
            logits_ET = self.lasts(self.to_last(states_BTH)[row_E], first_EH, first_E, lengths_B[row_E])
            wrong_E = wrong_E + cross_entropy(logits_ET, last_E, reduction="none")
        if self.brings:
            logits_EV = self.tokens(first_EH, last_EH, ends_BH[row_E], doing_E)
            token_E = torch.where(token_E == PAD, -100, token_E)  # a deletion brings none
            wrong_E = wrong_E + cross_entropy(logits_EV, token_E, ignore_index=-100, reduction="none")
        return (wrong_E * share_E).sum()

    def _nearer(self, states: States, states_BTH: Tensor, ends_BH: Tensor, places_BX: Tensor) -> Tensor:
        """(B,) the log-probability of whatever brings a text nearer to its target; of DONE, at the target."""
        moves = closer(Sequences(states.ids.numpy(), states.lengths.numpy()), states.targets)
        row_M, start_M, stop_M, token_M = (
            torch.from_numpy(part).to(self.device) for part in (moves.rows, moves.starts, moves.stops, moves.tokens)
        )
        changed_M = torch.where(token_M == PAD, int(Operation.DELETE), int(Operation.SUBSTITUTE))
        doing_M = self.operation_index[torch.where(start_M == stop_M, int(Operation.INSERT), changed_M)]
        says_M = places_BX[row_M, start_M * len(self.template.operations) + doing_M]
        tokens_MV = self.tokens(states_BTH[row_M, start_M], None, ends_BH[row_M], doing_M).log_softmax(1)
        brought_M = tokens_MV.gather(1, token_M[:, None])[:, 0]
        says_M = says_M + torch.where(token_M == PAD, 0.0, brought_M)
        chance_B = torch.zeros_like(places_BX[:, 0]).index_add(0, row_M, says_M.exp())
        done_B = states.done().to(self.device)
        return torch.where(done_B, places_BX[:, -1], chance_B.clamp(min=1e-30).log())

    @torch.inference_mode()
    def write(self, ids_BT: Tensor, lengths_B: Tensor) -> Said:
        """The likeliest place and operation, then the likeliest of what comes after."""
        actions_B1F, says_B1 = self.propose(ids_BT, lengths_B, 1)
        return Said(actions_B1F[:, 0], says_B1[:, 0].exp())

    @torch.inference_mode()
    def propose(self, ids_BT: Tensor, lengths_B: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Of the likeliest places and operations with the likeliest of what comes after, the likeliest together."""
        ids_BT, lengths_B = ids_BT.to(self.device), lengths_B.to(self.device)
        states_BTH, ends_BH = self.encode(ids_BT, lengths_B)
        says_BX, choice_BX = _best(self.places(states_BTH, ends_BH, lengths_B), width)
        rows_E = torch.arange(len(ids_BT), device=self.device).repeat_interleave(says_BX.shape[1])
        says_E, choice_E = says_BX.flatten(), choice_BX.flatten()
        done_E = choice_E == states_BTH.shape[1] * len(self.template.operations)
        first_E, doing_E = (torch.where(done_E, 0, part) for part in self._split(choice_E))
        last_E, token_E, last_EH = first_E, torch.full_like(first_E, PAD), None
        if self.spans:
            keys_ETH = self.to_last(states_BTH)[rows_E]
            logits_ET = self.lasts(keys_ETH, states_BTH[rows_E, first_E], first_E, lengths_B[rows_E])
            more_EX, last_EX = _best(_only_first(logits_ET, done_E), width)
            says_E, rows_E, first_E, doing_E, done_E, last_E = _branch(
                more_EX, says_E, (rows_E, first_E, doing_E, done_E), last_EX
            )
            last_EH = states_BTH[rows_E, last_E]
        if self.brings:
            logits_EV = self.tokens(states_BTH[rows_E, first_E], last_EH, ends_BH[rows_E], doing_E)
            more_EX, token_EX = _best(_only_first(logits_EV, done_E | ~self._brings(doing_E)), width)
            says_E, rows_E, first_E, doing_E, done_E, last_E, token_E = _branch(
                more_EX, says_E, (rows_E, first_E, doing_E, done_E, last_E), token_EX
            )
        actions_EF = torch.where(done_E[:, None], DONE, self._actions(first_E, last_E, doing_E, token_E))
        return _likeliest(actions_EF.view(len(ids_BT), -1, actions_EF.shape[1]), says_E.view(len(ids_BT), -1), width)

    def _split(self, choice_B: Tensor) -> tuple[Tensor, Tensor]:
        """Place and operation."""
        operations = len(self.template.operations)
        return choice_B // operations, choice_B % operations

    def _brings(self, doing_B: Tensor) -> Tensor:
        """(B,) whether an operation brings a token."""
        which_B = self.operation_ids[doing_B]
        return (which_B != Operation.DELETE) & (which_B != Operation.SWAP)

    def _actions(self, first_B: Tensor, last_B: Tensor, doing_B: Tensor, token_B: Tensor) -> Tensor:
        """(B, F) the actions that name these choices."""
        place_B = first_B * 4 + POSITION
        columns = {
            "operation": self.operation_ids[doing_B] * 4 + OPERATION,
            "position": place_B,
            "first": place_B,
            "last": last_B * 4 + POSITION,
            "token": torch.where(self._brings(doing_B), token_B * 4 + TOKEN, place_B),
        }
        return torch.stack([columns[field] for field in self.template.fields], 1)


class Lesson(NamedTuple):
    """K edits for each of B texts, each at its place in the text as it is."""

    turn: tuple[Tensor, Tensor]  # which comes next
    first: Tensor  # (B, K)
    last: Tensor  # (B, K)
    doing: Tensor  # (B, K)
    token: Tensor  # (B, K)
    counts: Tensor  # (B, K) for how much
    total: Tensor  # what all of them count, of the whole batch

    def place(self, operations: int) -> Tensor:
        """(B,) what to point at, among places times operations."""
        return (self.first * operations + self.doing)[self.turn]

    def of(self, rows: Tensor, device: torch.device) -> Lesson:
        """Those of some rows."""
        first, last, doing, token, counts = (part[rows].to(device) for part in self[1:-1])
        return Lesson(self.turn, first, last, doing, token, counts, self.total.to(device))


def _encoder(options: Options, places: int) -> nn.Module:
    """The encoder that the options describe."""
    if options.cell == "transformer":
        return TransformerEncoder(options.hidden, options.depth, options.heads, options.dropout, places)
    sizes = options.hidden, options.hidden, options.depth
    return RecurrentEncoder(options.cell, *sizes, options.bidirectional, options.dropout)


def _best(logits_EX: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The highest log-probabilities of each row, and whose they are."""
    return tuple(logits_EX.log_softmax(1).topk(min(width, logits_EX.shape[1]), 1))  # type: ignore[return-value]


def _only_first(logits_EX: Tensor, settled_E: Tensor) -> Tensor:
    """Where a choice does not matter, there is one, and it is certain."""
    first_X = torch.zeros(logits_EX.shape[1], device=logits_EX.device)
    first_X[1:] = IMPOSSIBLE
    return torch.where(settled_E[:, None], first_X, logits_EX)


def _branch(more_EX: Tensor, says_E: Tensor, parts: tuple[Tensor, ...], choice_EX: Tensor) -> tuple[Tensor, ...]:
    """Every choice so far with every next one: the log-probabilities of both, the parts of the first, the second."""
    width = more_EX.shape[1]
    told = (says_E[:, None] + more_EX).flatten()
    return (told, *(part.repeat_interleave(width, 0) for part in parts), choice_EX.flatten())


def _likeliest(actions_BCF: Tensor, says_BC: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The `width` likeliest candidates of each row; the impossible have minus infinity."""
    missing = max(width - says_BC.shape[1], 0)
    says_BK, order_BK = pad(says_BC, (0, missing), value=IMPOSSIBLE).topk(width, 1)
    chosen_BKF = actions_BCF.gather(
        1, order_BK.clamp(max=says_BC.shape[1] - 1)[:, :, None].expand(-1, -1, actions_BCF.shape[2])
    )
    return chosen_BKF.cpu(), says_BK.masked_fill(says_BK <= IMPOSSIBLE / 2, float("-inf")).cpu()
