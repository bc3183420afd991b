"""A trained run, ready to edit: `Editor.load("runs/x").edit(["6 10 9 5 2 3"])`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path

import numpy as np

from stepedit import checkpoints, hub
from stepedit.actions import DONE
from stepedit.changes import Change, changes
from stepedit.config import Run
from stepedit.errors import DataError, UserError
from stepedit.evaluation import Looking, predict
from stepedit.interpreter import Outcome, describe, tensors
from stepedit.lexicon import Lexicon, Suggestions
from stepedit.methods.method import Method
from stepedit.methods.recurrence import Recurrence
from stepedit.programmers.onnx_pointer import LOOK, OnnxPointer, write_graphs
from stepedit.programmers.pointer import Pointer
from stepedit.programmers.programmer import Programmer
from stepedit.search import NEVER
from stepedit.sequences import Sequences
from stepedit.training import make_method, seed_weights
from stepedit.vocabulary import OpenVocabulary, Vocabulary

CHECKED = 100  # texts that graphs and weights are compared on


@dataclass(frozen=True)
class Edited:
    """What came of one text: the result, whether the programmer said it was done, and each step if asked for."""

    source: str
    text: str
    finished: bool
    outcome: Outcome
    tokens: tuple[int, ...]  # of the source
    words: Vocabulary  # that these ids are of
    verified: bool | None = None  # what the check says of it, if it was asked

    def changes(self) -> list[Change]:
        """Which letters of the source became which, and how sure the programmer was; the steps must be there.

        Of a text of a fixed set of tokens there are none: it is its steps that say where.
        """
        if not isinstance(self.words, OpenVocabulary):
            return []
        if self.outcome.steps and not self.outcome.trace:
            raise UserError("changes are told from steps; ask for them with trace=True")
        return changes(self.tokens, self.outcome.trace, self.words.name, self.words.pieces)


@dataclass(frozen=True)
class Alternative:
    """An action that a programmer considered, and how likely it found it; `done` has no place."""

    operation: str
    position: int | None
    before: tuple[int, ...]
    after: tuple[int, ...]
    probability: float


@dataclass(frozen=True)
class Editor:
    """A programmer with its method."""

    run: Run
    method: Method
    programmer: Programmer
    least: float = 0.0  # how sure it has to be of an edit, unless something else is said
    place: Path | None = None  # the folder it was loaded from

    @classmethod
    def load(cls, folder: str | Path) -> Editor:
        """The best weights of a run; DataError in one line if the folder is damaged, foreign or of another version."""
        place = checkpoints.find(folder)
        run = checkpoints.read_run(place)
        method = make_method(run)
        checkpoints.check_vocabulary(place, method.task.vocabulary.tokens, method.outputs.tokens)
        path = place / checkpoints.BEST
        if not path.exists() and (place / LOOK).exists():
            programmer: Programmer = OnnxPointer.from_folder(place, method, run.options)
        else:
            programmer = seed_weights(run, method)
            checkpoints.load_weights(programmer, checkpoints.read_tensors(path)[0], path)
        return cls(run, method, programmer.eval(), checkpoints.read_tuned(place), place)

    @classmethod
    def from_pretrained(cls, name: str, revision: str | None = None) -> Editor:
        """A model from a folder or, by `user/model`, from the Hugging Face Hub (extra `[hub]`)."""
        return cls.load(hub.pull(name, revision))

    def push_to_hub(self, name: str, private: bool = True) -> str:
        """Put the model on the hub as `user/model`, in half precision; its address."""
        if self.place is None:
            raise UserError("only a model that was loaded from a folder can be put on the hub")
        return hub.push(self.place, name, private)

    def export_onnx(self, out: Path) -> None:
        """Write the model as ONNX graphs into a folder that `load` reads; DataError if they would edit otherwise."""
        if self.place is None or not isinstance(self.programmer, Pointer) or isinstance(self.programmer, OnnxPointer):
            raise UserError("ONNX graphs are made from the pointer programmer of a run, loaded from its folder")
        checkpoints.export(self.place, out, half=False)
        (out / checkpoints.BEST).unlink()
        write_graphs(self.programmer, out)
        task = self.method.task
        texts = task.vocabulary.decode(task.generate(CHECKED, np.random.default_rng(0)).sources)
        here, there = ([one.text for one in editor.edit(texts)] for editor in (self, Editor.load(out)))
        if here != there:
            raise DataError(f"{out}: the graphs edit otherwise than the weights they were made from")

    def edit(
        self,
        texts: Sequence[str],
        trace: bool = False,
        beam: int = 1,
        verify: bool = False,
        least: float | None = None,
        lexicon: Lexicon | None = None,
    ) -> list[Edited]:
        """Each text edited, in order; DataError says which of several (from 1) cannot be edited.

        `least` is how sure the programmer has to be of an edit, if not as sure as it was tuned to be. A lexicon is a
        check of its own, for text: see `suggestions`.
        """
        if isinstance(texts, str):
            raise UserError("a list of texts was expected, not a single text")
        words = self.method.task.vocabulary.opened()
        rows = self._rows(texts, words)
        looking = self._looking(beam, verify, least, lexicon, words)
        found = predict(self.programmer, self.method, rows, trace, None, looking, words)
        edited = [
            Edited(text, words.text(outcome.tokens), outcome.finished, outcome, tuple(row), words)
            for text, row, outcome in zip(texts, rows, found, strict=True)
        ]
        if lexicon is not None:
            return [replace(one, verified=lexicon.knows(one.text)) for one in edited]
        if not verify:
            return edited
        return [replace(one, verified=right) for one, right in zip(edited, self.holds(edited), strict=True)]

    def _looking(
        self, beam: int, verify: bool, least: float | None, lexicon: Lexicon | None, words: Vocabulary
    ) -> Looking:
        ahead = beam > 1 or verify or lexicon is not None
        if least is None:
            least = 0.0 if ahead or not isinstance(self.method, Recurrence) else self.least
        looking = Looking(beam, verify, least)
        return replace(looking, check=lexicon.check(words), suggest=Suggestions(lexicon, words)) if lexicon else looking

    def speed_up(self) -> bool:
        """Compile what reads a text, where a C++ compiler is present; whether that was done.

        It takes up to a minute, less when it was done before. Then a single text is edited 1.5 to 2 times as fast, in
        the same way; several at once, and with a beam, as before. Say before it how many threads torch is to use.
        There is something to compile in the pointer programmer with Transformer cells.
        """
        try:
            return self.programmer.speed_up()
        except Exception as error:  # torch and compilers have no common kind of error
            reason = str(error).strip().partition("\n")[0]
            raise UserError(f"the programmer could not be compiled: {reason or type(error).__name__}") from error

    def holds(self, edited: Sequence[Edited]) -> list[bool]:
        """What the task's check, which knows the source alone, says of each result."""
        if not edited:
            return []
        sources, results = (
            [list(ids) for ids in side] for side in zip(*((e.tokens, e.outcome.tokens) for e in edited), strict=True)
        )
        return self.method.task.check(Sequences.from_rows(sources), Sequences.from_rows(results)).tolist()

    def parts(self, texts: Sequence[str]) -> Sequences:
        """Texts in the parts in which they are edited; DataError names the first (from 1) that cannot be."""
        words = self.method.task.vocabulary.opened()
        rows = self._rows(texts, words)
        return Sequences.from_rows([part for row in rows for part in self.method.task.windows(row, words)])

    def _rows(self, texts: Sequence[str], words: Vocabulary) -> list[list[int]]:
        rows = []
        for number, text in enumerate(texts, start=1):
            where = f"line {number}: " if len(texts) > 1 else ""
            try:
                rows.append(words.ids(words.split(text)))
            except DataError as error:
                raise DataError(f"{where}{error}") from None
            if not rows[-1] and not words.buckets:
                raise DataError(f"{where}the text is empty")
        return rows

    def alternatives(self, edited: Sequence[Edited], width: int = 3) -> list[list[list[Alternative]]]:
        """For each text and each of its states, the last one too, the likeliest actions.

        There are none for other methods, nor for a text that was edited in parts.
        """
        if not isinstance(self.method, Recurrence):
            return [[] for _ in edited]
        states = [
            [one.tokens, *(step.state for step in one.outcome.trace)]
            if len(self.method.task.windows(one.tokens, one.words)) == 1
            else []
            for one in edited
        ]
        rows = Sequences.from_rows([state for each in states for state in each])
        if not len(rows):
            return [[] for _ in edited]
        actions, says = self.programmer.propose(*tensors(rows), width)
        said = iter(
            [self._alternative(state, action, says) for action, says in zip(*pair, strict=True) if says > NEVER]
            for state, *pair in zip(rows.rows(), actions.tolist(), says.tolist(), strict=True)
        )
        return [[next(said) for _ in each] for each in states]

    def _alternative(self, state: Sequence[int], action: Sequence[int], says: float) -> Alternative:
        if all(part == DONE for part in action):
            return Alternative("done", None, (), (), exp(says))
        step = describe(state, action, self.method.task.template)
        return Alternative(step.operation, step.start, step.before, step.after, exp(says))
