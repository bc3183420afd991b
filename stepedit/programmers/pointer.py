"""Our programmer: it reads a state once and points at the place to edit; what to do is read off there.

No vocabulary of positions and no decoder loop. Of an action's fields each is chosen given those before it: the place
together with the operation, then the last place of a span, then the token. What does not fit the text can't be said.

It is taught to plan: all edits that are left, each given those before it, from one reading of the state. When it edits,
only the first of the plan is made; then it reads the text again.

Shapes: B states, T tokens with the end that is put behind the text, P operations, H hidden size, V vocabulary, K edits
of a plan, J = K + 1 turns of it (at the last one it is done), E turns of all plans one behind the other.
"""

from __future__ import annotations

from math import log
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
from stepedit.programmers.compiling import Compiled, compiler
from stepedit.programmers.layers import (
    IMPOSSIBLE,
    Draw,
    Dropout,
    Embedding,
    Memory,
    RecurrentDecoder,
    RecurrentEncoder,
    TransformerDecoder,
    TransformerEncoder,
    initialise,
    value_features,
)
from stepedit.programmers.programmer import Programmer
from stepedit.sequences import PAD, Sequences

ROOM = {Operation.INSERT: 0, Operation.SWAP: 2}  # tokens that an operation needs; others need 1
SINGLE = {Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE}
WIDTH = 4  # places, and tokens at each, among which the likeliest action is looked for
NONE = -100  # no choice to be taught


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
        buckets = method.task.vocabulary.buckets
        self.read = Embedding(words, hidden, features, buckets)
        self.drop = Dropout(options.dropout)
        self.encoder = _encoder(options, method.positions + 1)
        self.plan = _planner(options, method.task.most_edits + 1)
        self.begin = nn.Parameter(torch.zeros(hidden))
        self.made = nn.Linear(hidden, hidden, bias=False)
        self.place = nn.Linear(hidden, len(self.template.operations) * hidden)
        self.done = nn.Linear(hidden, 1)
        self.doing = Embedding(len(self.template.operations), hidden)
        self.spans, self.brings = "last" in self.template.fields, "token" in self.template.fields
        if self.spans:
            self.from_first, self.to_last = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, hidden)
            self.at_last = nn.Linear(hidden, hidden, bias=False)
        if self.brings:
            self.at_place, self.at_turn = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
            self.token = Embedding(words, hidden, features, buckets)
            self.bias = nn.Parameter(torch.zeros(words))
            if self.template.copies:
                self.to_copy = nn.Linear(hidden, hidden)
            allowed = torch.zeros(words, dtype=torch.bool)
            allowed[sorted(self.template.tokens)] = True
            self.register_buffer("allowed", allowed, persistent=False)
        self.others, self.oracle = options.others or 0.0, options.oracle
        self.compiled: Compiled | None = None
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

    def encode(self, ids_BT: Tensor, lengths_B: Tensor) -> Memory:
        """The texts, and the end behind each."""
        ended_BT = pad(ids_BT, (0, 1), value=PAD)  # padding stands for the end, too
        mask_BT = torch.arange(ended_BT.shape[1], device=self.device) <= lengths_B[:, None]
        memory: Memory = self.encoder(self.drop(self.read(ended_BT)), mask_BT)
        return memory

    def turns(self, memory: Memory, lesson: Lesson | None = None) -> Tensor:
        """(B, J, H) what is intended at each turn of the plan, given the edits before it; at the first one, alone."""
        said_BJH = self.begin.expand(1, 1, -1)  # the same for all texts
        if lesson is not None and lesson.counts.shape[1] > 1:
            rows = torch.arange(len(memory.states), device=self.device)[:, None]
            edits_BKH = self.made(memory.states[rows, lesson.first]) + self.doing(lesson.doing)
            if self.brings:
                edits_BKH = edits_BKH + self.token(lesson.token)
            said_BJH = torch.cat([said_BJH.expand(len(rows), -1, -1), edits_BKH], 1)
        turns_BJH: Tensor = self.plan(said_BJH, memory)[0]
        return turns_BJH

    def places(self, memory: Memory, turns_BJH: Tensor, lengths_B: Tensor) -> Tensor:
        """(B, J, T*P+1) logits of every operation at every place, and of DONE, at each turn."""
        states_BTH = memory.states
        left_BT = lengths_B[:, None] - torch.arange(states_BTH.shape[1], device=self.device)
        fits_BX = (left_BT[:, :, None] >= self.room).flatten(1)
        logits_BJX = self._pointing(turns_BJH, states_BTH) * states_BTH.shape[2] ** -0.5
        return torch.cat([logits_BJX.masked_fill(~fits_BX[:, None], IMPOSSIBLE), self.done(turns_BJH)], 2)

    def _pointing(self, turns_BJH: Tensor, states_BTH: Tensor) -> Tensor:
        """(B, J, T*P) the products of turns with the views of every place that the operations have.

        There are seldom more turns than places, so those are turned towards the states, once for each operation.
        """
        (batch, turns, hidden), operations = turns_BJH.shape, len(self.template.operations)
        view_HX = self.place.weight.view(operations, hidden, hidden).transpose(0, 1).flatten(1)
        query_BQH = (turns_BJH @ view_HX).view(batch, turns * operations, hidden)
        bias_BQ1 = (turns_BJH @ self.place.bias.view(operations, hidden).T).view(batch, -1, 1)
        products_BQT = query_BQH @ states_BTH.transpose(1, 2) + bias_BQ1
        return products_BQT.view(batch, turns, operations, -1).transpose(2, 3).flatten(2)

    def lasts(self, states_BTH: Tensor, row_E: Tensor, first_E: Tensor, turn_EH: Tensor, lengths_B: Tensor) -> Tensor:
        """(E, T) logits of the last place of a span, given its first."""
        query_EH = self.from_first(torch.cat([states_BTH[row_E, first_E], turn_EH], 1)) * turn_EH.shape[1] ** -0.5
        logits_ET = _pointed(query_EH, row_E, self.to_last(states_BTH))
        place_T = torch.arange(logits_ET.shape[1], device=self.device)
        fits_ET = (place_T >= first_E[:, None]) & (place_T < lengths_B[row_E, None])
        return logits_ET.masked_fill(~fits_ET, IMPOSSIBLE)

    def tokens(
        self,
        states_BTH: Tensor,
        row_E: Tensor,
        places: tuple[Tensor, Tensor | None],
        turn_EH: Tensor,
        doing_E: Tensor,
        copyable_BT: Tensor | None,
    ) -> Tensor:
        """(E, V) logits of the token to bring, given its first and, of a span, its last place.

        Where tokens of the text may be copied, (E, V+T): of every token, and of every place to copy from.
        """
        first_E, last_E = places
        hidden_EH = self.at_place(states_BTH[row_E, first_E]) + self.at_turn(turn_EH) + self.doing(doing_E)
        if last_E is not None:
            hidden_EH = hidden_EH + self.at_last(states_BTH[row_E, last_E])
        hidden_EH = gelu(hidden_EH)
        logits_EV = (hidden_EH @ self.token.weight().T + self.bias).masked_fill(~self.allowed, IMPOSSIBLE)
        if copyable_BT is None:
            return logits_EV
        copies_ET = _pointed(hidden_EH * turn_EH.shape[1] ** -0.5, row_E, self.to_copy(states_BTH))
        return torch.cat([logits_EV, copies_ET.masked_fill(~copyable_BT[row_E], IMPOSSIBLE)], 1)

    def copyable(self, ids_BT: Tensor) -> Tensor | None:
        """(B, T) the places to copy from, if there are any: the first of each token that may not be brought anyway."""
        if not self.template.copies:
            return None
        words = len(self.allowed)
        brought_BT = self.allowed[torch.where(ids_BT < words, ids_BT, PAD)] | (ids_BT == PAD)
        again_BT = (ids_BT[:, :, None] == ids_BT[:, None]).tril(-1).any(2)
        return pad(~brought_BT & ~again_BT, (0, 1))

    def choices(self, token_E: Tensor, row_E: Tensor, ids_BT: Tensor) -> Tensor:
        """(E,) which of the logits of `tokens` says a token: its own, or that of the first place to copy it from.

        NONE where it cannot be said: an edit that was made out of turn may have taken away what this one would copy.
        """
        if not self.template.copies:
            return token_E
        words = len(self.allowed)
        brought_E = self.allowed[torch.where(token_E < words, token_E, PAD)] | (token_E == PAD)
        here_ET = pad(ids_BT, (0, 1), value=PAD)[row_E] == token_E[:, None]
        copied_E = torch.where(here_ET.any(1), words + here_ET.int().argmax(1), NONE)
        return torch.where(brought_E, token_E, copied_E)

    def chosen(self, choice_E: Tensor, row_E: Tensor, ids_BT: Tensor) -> Tensor:
        """(E,) the other way round: the token that a choice stands for."""
        copied_E = choice_E - len(self.allowed)
        if not self.template.copies:
            return choice_E
        return torch.where(copied_E < 0, choice_E, pad(ids_BT, (0, 1), value=PAD)[row_E, copied_E.clamp(min=0)])

    def forward(self, states: States, draw: Draw | None = None) -> Tensor:
        """How wrong the plan is: its first edit, and those after it for less."""
        rows = draw.rows if draw else torch.arange(len(states))
        lengths_B = states.lengths[rows].to(self.device)
        memory = self.encode(states.ids[rows].to(self.device), lengths_B)
        if self.oracle == "dynamic":
            turns_BJH = self.turns(memory)
            places_BX = self.places(memory, turns_BJH, lengths_B)[:, 0].log_softmax(1)
            says_B = self._nearer(states.take(rows.numpy()), memory.states, turns_BJH[:, 0], places_BX)
            return -says_B.sum() / len(states)
        whole = self._lesson(states, self.others > 0)
        total, lesson = whole.counts.sum(), whole.of(rows, self.device)
        turns_BJH = self.turns(memory, lesson)
        logits_BJX = self.places(memory, turns_BJH, lengths_B)
        done = logits_BJX.shape[2] - 1
        aim_BJ = pad(lesson.first * len(self.template.operations) + lesson.doing, (0, 1))[:, : logits_BJX.shape[1]]
        aim_BJ = torch.where(lesson.there, aim_BJ, done)
        wrong_BJ = cross_entropy(logits_BJX.flatten(0, 1), aim_BJ.flatten(), reduction="none").view(aim_BJ.shape)
        ids_BT = states.ids[rows].to(self.device)
        wrong_BJ = wrong_BJ + self._reading(lesson, memory.states, turns_BJH, ids_BT, lengths_B)
        return (wrong_BJ * lesson.counts).sum() / total

    def _lesson(self, states: States, plan: bool) -> Lesson:
        """The plan: the edit whose turn it is, and, where they come from left to right, all that are left after it."""
        now, left_B = states.edits_now(), torch.from_numpy(states.left.counts)
        ahead = plan and states.left.run_right and not states.turn.any()
        edits_BK = torch.arange(now.starts.shape[1]).expand(len(states), -1)
        if not ahead:
            edits_BK = torch.from_numpy(states.turn)[:, None]
        turn_J = torch.arange(edits_BK.shape[1] + 1 if ahead else 1)
        counts_BJ = torch.where(turn_J == 0, 1.0, self.others) * (turn_J <= left_B[:, None])
        doing_BK = self.operation_index.cpu()[operations_of(now, self.template)]
        token_BK = torch.where(now.widths == 1, now.tokens[:, :, 0], PAD)
        parts = (now.starts, now.stops - 1, doing_BK, token_BK)
        first, last, doing, token = (part.gather(1, edits_BK) for part in parts)
        return Lesson(first, last, doing, token, turn_J < left_B[:, None], counts_BJ)

    def _reading(
        self, lesson: Lesson, states_BTH: Tensor, turns_BJH: Tensor, ids_BT: Tensor, lengths_B: Tensor
    ) -> Tensor:
        """(B, J) how wrong the fields are that come after the place."""
        row_E, turn_E = lesson.there.nonzero(as_tuple=True)
        first_E, last_E, doing_E, token_E = (part[row_E, turn_E] for part in lesson[:4])
        turn_EH = turns_BJH[row_E, turn_E]
        wrong_E = torch.zeros(len(row_E), device=self.device)
        if self.spans:
            logits_ET = self.lasts(states_BTH, row_E, first_E, turn_EH, lengths_B)
            wrong_E = wrong_E + cross_entropy(logits_ET, last_E, reduction="none")
        if self.brings:
            places = first_E, last_E if self.spans else None
            logits_EV = self.tokens(states_BTH, row_E, places, turn_EH, doing_E, self.copyable(ids_BT))
            choice_E = self.choices(token_E, row_E, ids_BT)
            choice_E = torch.where(token_E == PAD, NONE, choice_E)  # a deletion brings none
            wrong_E = wrong_E + cross_entropy(logits_EV, choice_E, ignore_index=NONE, reduction="none")
        return torch.zeros(turns_BJH.shape[:2], device=self.device).index_put((row_E, turn_E), wrong_E)

    def _nearer(self, states: States, states_BTH: Tensor, turn_BH: Tensor, places_BX: Tensor) -> Tensor:
        """(B,) the log-probability of whatever brings a text nearer to its target; of DONE, at the target."""
        moves = closer(Sequences(states.ids.numpy(), states.lengths.numpy()), states.targets)
        row_M, start_M, stop_M, token_M = (
            torch.from_numpy(part).to(self.device) for part in (moves.rows, moves.starts, moves.stops, moves.tokens)
        )
        changed_M = torch.where(token_M == PAD, int(Operation.DELETE), int(Operation.SUBSTITUTE))
        doing_M = self.operation_index[torch.where(start_M == stop_M, int(Operation.INSERT), changed_M)]
        says_M = places_BX[row_M, start_M * len(self.template.operations) + doing_M]
        ids_BT = states.ids.to(self.device)
        logits_MV = self.tokens(states_BTH, row_M, (start_M, None), turn_BH[row_M], doing_M, self.copyable(ids_BT))
        choice_M = self.choices(token_M, row_M, ids_BT)
        brought_M = logits_MV.log_softmax(1).gather(1, choice_M[:, None])[:, 0]
        says_M = says_M + torch.where(token_M == PAD, 0.0, brought_M)
        chance_B = torch.zeros_like(places_BX[:, 0]).index_add(0, row_M, says_M.exp())
        done_B = states.done().to(self.device)
        return torch.where(done_B, places_BX[:, -1], chance_B.clamp(min=1e-30).log())

    @torch.inference_mode()
    def write(self, ids_BT: Tensor, lengths_B: Tensor) -> Said:
        """The likeliest action as a whole, which need not be at the likeliest place.

        Where DONE is likelier than all else together, that is settled; the others are looked at closely.
        """
        if self.compiled is not None and self.device.type == "cpu" and self.compiled.fits(ids_BT):
            return Said(*self.compiled(ids_BT, lengths_B))
        ids_BT, lengths_B = ids_BT.to(self.device), lengths_B.to(self.device)
        states_BTH, turn_BH, says_BX = self.look(ids_BT, lengths_B)
        open_E = (says_BX[:, -1] <= log(0.5)).nonzero()[:, 0]
        if len(open_E) == len(ids_BT):
            actions_BKF, says_BK = self._likely(states_BTH, turn_BH, says_BX, ids_BT, lengths_B, WIDTH)
            return Said(actions_BKF[:, 0], says_BK[:, 0].exp())
        actions_BF = torch.full((len(ids_BT), len(self.template.fields)), DONE)
        sure_B = says_BX[:, -1].exp().cpu()
        if len(open_E):
            parts = (states_BTH[open_E], turn_BH[open_E], says_BX[open_E])
            actions_EKF, says_EK = self._likely(*parts, ids_BT[open_E], lengths_B[open_E], WIDTH)
            actions_BF[open_E.cpu()], sure_B[open_E.cpu()] = actions_EKF[:, 0], says_EK[:, 0].exp()
        return Said(actions_BF, sure_B)

    def likeliest(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """What `write` says, with all texts looked at closely, settled or not: as one graph it can be compiled."""
        actions_BKF, says_BK = self._likely(*self.look(ids_BT, lengths_B), ids_BT, lengths_B, WIDTH)
        return actions_BKF[:, 0], says_BK[:, 0].exp()

    def speed_up(self) -> bool:
        """Compile `likeliest`, for a single text; torch cannot make one graph of a recurrent net."""
        if self.device.type != "cpu" or compiler() is None or not isinstance(self.encoder, TransformerEncoder):
            return False
        compiled = Compiled(self.eval().likeliest)
        compiled.warm_up()
        self.compiled = compiled
        return True

    @torch.inference_mode()
    def propose(self, ids_BT: Tensor, lengths_B: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Of the likeliest places and operations with the likeliest of what comes after, the likeliest together."""
        ids_BT, lengths_B = ids_BT.to(self.device), lengths_B.to(self.device)
        actions_BKF, says_BK = self._likely(*self.look(ids_BT, lengths_B), ids_BT, lengths_B, max(width, WIDTH))
        return actions_BKF[:, :width].contiguous(), says_BK[:, :width].contiguous()

    @torch.inference_mode()
    def says(self, states: States) -> Tensor:
        """Of all fields together."""
        ids_BT, lengths_B = states.ids.to(self.device), states.lengths.to(self.device)
        states_BTH, turn_BH, says_BX = self.look(ids_BT, lengths_B)
        lesson = self._lesson(states, plan=False).of(torch.arange(len(states)), self.device)
        aim_B1 = lesson.first * len(self.template.operations) + lesson.doing
        aim_B1 = torch.where(lesson.there, aim_B1, says_BX.shape[1] - 1)
        wrong_B1 = self._reading(lesson, states_BTH, turn_BH[:, None], ids_BT, lengths_B)
        return (says_BX.gather(1, aim_B1) - wrong_B1)[:, 0].cpu()

    def look(self, ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden states (B, T, H), what is intended (B, H), and the log-probabilities of places and DONE (B, X)."""
        memory = self.encode(ids_BT, lengths_B)
        turns_B1H = self.turns(memory)
        logits_BX = self.places(memory, turns_B1H, lengths_B)[:, 0]
        return memory.states, turns_B1H[:, 0], logits_BX.log_softmax(1)

    def _likely(
        self, states_BTH: Tensor, turn_BH: Tensor, said_BX: Tensor, ids_BT: Tensor, lengths_B: Tensor, width: int
    ) -> tuple[Tensor, Tensor]:
        """The likeliest actions, given how likely every operation is at every place."""
        says_BX, choice_BX = said_BX.topk(min(width, said_BX.shape[1]), 1)
        rows_E = torch.arange(len(ids_BT), device=self.device).repeat_interleave(says_BX.shape[1])
        says_E, choice_E = says_BX.flatten(), choice_BX.flatten()
        done_E = choice_E == states_BTH.shape[1] * len(self.template.operations)
        first_E, doing_E = (torch.where(done_E, 0, part) for part in self._split(choice_E))
        last_E, token_E = first_E, torch.full_like(first_E, PAD)
        if self.spans:
            logits_ET = self.lasts(states_BTH, rows_E, first_E, turn_BH[rows_E], lengths_B)
            more_EX, last_EX = _best(_only_first(logits_ET, done_E), width)
            says_E, rows_E, first_E, doing_E, done_E, last_E = _branch(
                more_EX, says_E, (rows_E, first_E, doing_E, done_E), last_EX
            )
        if self.brings:
            places = first_E, last_E if self.spans else None
            logits_EV = self.tokens(states_BTH, rows_E, places, turn_BH[rows_E], doing_E, self.copyable(ids_BT))
            more_EX, choice_EX = _best(_only_first(logits_EV, done_E | ~self._brings(doing_E)), width)
            says_E, rows_E, first_E, doing_E, done_E, last_E, choice_E = _branch(
                more_EX, says_E, (rows_E, first_E, doing_E, done_E, last_E), choice_EX
            )
            token_E = self.chosen(choice_E, rows_E, ids_BT)
        actions_EF = torch.where(done_E[:, None], DONE, self._actions(first_E, last_E, doing_E, token_E))
        return _likeliest(actions_EF.view(len(ids_BT), -1, actions_EF.shape[1]), says_E.view(len(ids_BT), -1), width)

    def _split(self, choice_B: Tensor) -> tuple[Tensor, Tensor]:
        """Place and operation."""
        operations = len(self.template.operations)
        return choice_B // operations, choice_B % operations

    def _brings(self, doing_B: Tensor) -> Tensor:
        """(B,) whether an operation brings a token."""
        which_B = self.operation_ids[doing_B]
        return (which_B != int(Operation.DELETE)) & (which_B != int(Operation.SWAP))

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
    """The plans for B texts: K edits, each at its place in the text as it is, and J turns."""

    first: Tensor  # (B, K)
    last: Tensor  # (B, K)
    doing: Tensor  # (B, K)
    token: Tensor  # (B, K)
    there: Tensor  # (B, J) whether an edit is made at this turn; if not, all is done
    counts: Tensor  # (B, J) how much the turn counts

    def of(self, rows: Tensor, device: torch.device) -> Lesson:
        """Those of some rows."""
        return Lesson(*(part[rows].to(device) for part in self))


def _planner(options: Options, turns: int) -> nn.Module:
    """What goes through the plan, half as deep as the encoder."""
    layers = max(1, options.depth // 2)
    if options.cell == "transformer":
        return TransformerDecoder(options.hidden, layers, options.heads, options.dropout, turns)
    return RecurrentDecoder(options.cell, options.hidden, layers, options.attention, options.dropout)


def _encoder(options: Options, places: int) -> nn.Module:
    """The encoder that the options describe."""
    if options.cell == "transformer":
        return TransformerEncoder(options.hidden, options.depth, options.heads, options.dropout, places)
    sizes = options.hidden, options.hidden, options.depth
    return RecurrentEncoder(options.cell, *sizes, options.bidirectional, options.dropout)


def _pointed(query_EH: Tensor, row_E: Tensor, keys_BTH: Tensor) -> Tensor:
    """(E, T) the products of queries with the keys of their rows; the rows are in order.

    The queries of a row are put side by side, so that no key has to be copied for each of them.
    """
    if torch.compiler.is_compiling():
        return (keys_BTH[row_E] @ query_EH[:, :, None])[..., 0]
    counts_B = torch.bincount(row_E, minlength=len(keys_BTH))
    slot_E = torch.arange(len(row_E), device=row_E.device) - (counts_B.cumsum(0) - counts_B)[row_E]
    most = int(counts_B.max()) if len(row_E) else 0
    grid_BXH = query_EH.new_zeros(len(keys_BTH), most, query_EH.shape[1]).index_put((row_E, slot_E), query_EH)
    return (grid_BXH @ keys_BTH.transpose(1, 2))[row_E, slot_E]


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
