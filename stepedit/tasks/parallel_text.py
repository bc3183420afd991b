"""Your own text: pairs of lines with and without errors, in any language.

    source   teh cat satt
    target   the cat sat

    step     action           text
    1        swap pos_1       the cat satt
    2        delete pos_10    the cat sat
    3        DONE

Text is tokenized without loss (`text.tokenization`), by character or by word. An edit inserts or substitutes one token
or swaps two neighbors; it deletes one token or, with `spans`, a run of them, or replaces a run by one token. What edits
may insert is learned from the pairs: the tokens that they insert often enough, and any token of the text itself, known
or not. So a word that was never seen can be moved. By word, an edit can also transform a word by an affix rule that the
pairs use often (`text.affix_rules`).

A line is edited as a whole or, if it is longer than `window` tokens, in windows (`text.windows`); nothing is cut off.
With `segmentation` "word", it is edited word by word, and what is not a word is left alone.

Only the pairs say what is right, so there is no verifier. Without pairs, random words with typos stand in for them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import Annotated, Any, ClassVar, Literal, Self
from unicodedata import combining

import numpy as np
from pydantic import Field

from stepedit.editing import alignment
from stepedit.editing.actions import Operation, Template
from stepedit.editing.edits import Scripts
from stepedit.editing.sequences import PAD, BoolArray, IntArray, Pairs, Sequences
from stepedit.errors import DataError
from stepedit.tasks.base import Progress, Segment, Task
from stepedit.text import tokenization, windows
from stepedit.text.affix_rules import MAX_RULES, AffixRule, WordForms, learn
from stepedit.text.error_model import ErrorModel
from stepedit.text.tokenization import CAP, CAPS, Level, as_mark
from stepedit.text.vocabulary import PAD_TOKEN, OpenVocabulary, Vocabulary

LETTERS = tuple("abcdefghijklmnopqrstuvwxyz ")
MAX_WHOLE, MAX_CELLS = 4096, 1 << 25  # tokens of a line that is scored as a whole; of all lines, with padding
MAX_KNOWN, MAX_INSERTABLE = 20_000, 8_000  # tokens
MIN_COUNT, MANY_PAIRS = 2, 1_000  # occurrences of a known token; pairs from which the same holds for insertable ones
MAX_EDITS = 32
DOUBLED_SHARE = 0.005  # of a mark's occurrences, if it does not stand beside another one
MAX_TARGET, MAX_TOKENS, MAX_AFFIX_RULES, MAX_MARK_PAIRS = (
    4096,
    100_000,
    1_000,
    1_000,
)  # what a downloaded configuration may ask for
WORD_SHARE = 0.95  # of the texts that are single words, from which texts are edited word by word
UNK_RATE = 0.1  # of known tokens
HYPHENS = ("-", "\u2010", "\u2011")
APOSTROPHES = frozenset("'’")
CODE = re.compile(r"://|[^\W_][@\\/.:][^\W_]|_|\w\(")  # addresses, paths, identifiers, calls

Tokens = Annotated[tuple[str, ...], Field(max_length=MAX_TOKENS)]
Segmentation = Literal["line", "word"]


@dataclass(frozen=True)
class ParallelText(Task):
    """Edit text as the pairs do."""

    level: Level = "char"
    segmentation: Segmentation = "line"  # what is edited on its own: a line, in windows if it is long, or a word
    window: Annotated[int, Field(ge=2, le=1024)] = 12
    max_target_length: Annotated[int, Field(ge=1, le=MAX_TARGET)] = 12  # tokens of an edited window
    max_window_edits: Annotated[int, Field(ge=1, le=MAX_TARGET)] = 4
    known_tokens: Tokens = LETTERS
    insertable_tokens: Tokens = LETTERS  # a subset of the known ones
    spans: bool = False  # whether a run of tokens is deleted or replaced in one edit
    max_rules: Annotated[int, Field(ge=0, le=MAX_AFFIX_RULES)] = 0
    mark_pairs: Annotated[tuple[str, ...], Field(max_length=MAX_MARK_PAIRS)] | None = (
        None  # punctuation marks that targets have side by side; None: any
    )
    affix_rules: Annotated[tuple[str, ...], Field(max_length=MAX_AFFIX_RULES)] = ()
    spelled: bool = False  # whether networks see the characters that words begin and end with

    name: ClassVar[str] = "text"
    title: ClassVar[str] = "your own text"
    example: ClassVar[tuple[str, str] | None] = ("teh cat satt", "the cat sat")
    metrics: ClassVar[tuple[str, ...]] = ("f0.5", "sequence")
    objective: ClassVar[str] = "f0.5"
    resamples_sources: ClassVar[bool] = False
    independent_edits: ClassVar[bool] = True
    open_vocabulary: ClassVar[bool] = True
    fitted_args: ClassVar[frozenset[str]] = frozenset(
        {"window", "max_target_length", "max_window_edits", "known_tokens", "insertable_tokens"}
        | {"mark_pairs", "affix_rules"}
    )

    def __post_init__(self) -> None:
        """Refuse words as segments where they are tokens."""
        if self.segmentation == "word" and self.level == "word":
            raise ValueError("segmentation=word edits the characters of a word, so it needs level=char")
        if self.max_rules and self.level == "char":
            raise ValueError("max_rules is for words, so it needs level=word")
        if self.spelled and self.level == "char":
            raise ValueError("spelled is for words, so it needs level=word")
        known = set(self.known_tokens)
        if len(known) < len(self.known_tokens) or not known.issuperset(self.insertable_tokens):
            raise ValueError("known_tokens are distinct, and insertable_tokens are among them")
        try:
            [AffixRule.parse(rule) for rule in self.affix_rules]
        except DataError as error:
            raise ValueError(str(error)) from None

    @classmethod
    def fitted(cls, sources: Sequence[str], targets: Sequence[str]) -> Self:
        """Return the task with vocabulary and limits learned from these pairs, by character."""
        return cls.for_data(sources, targets, {})

    @classmethod
    def for_data(cls, sources: Sequence[str], targets: Sequence[str], args: Mapping[str, Any]) -> Self:
        """Return the task with vocabulary and limits learned from these pairs."""
        by_word = args.get("level", cls.level) == "word"
        defaults = {"segmentation": _segmentation(sources, targets, args), "spans": by_word, "spelled": by_word}
        args = defaults | {"max_rules": MAX_RULES if by_word else 0} | dict(args)
        task = cls.from_args({"window": windows.WINDOW, "known_tokens": (), "insertable_tokens": (), **args})
        split = task.vocabulary.split
        parts = [part for texts in zip(sources, targets, strict=True) for part in task._cut(*map(split, texts))]
        if not any(source != target for source, target in parts):
            same = all(map(str.__eq__, sources, targets))
            reason = "every source equals its target" if same else "no pair can be aligned: source and target differ"
            raise DataError(f"there is nothing to learn: {reason}")
        known = _frequent((token for part in parts for token in {*part[0], *part[1]}), MAX_KNOWN, MIN_COUNT)
        signs = [CAP, CAPS] if task.level == "word" else []
        pairs = task._encode_parts(parts)
        scripts = task.edits(pairs.sources, pairs.targets)
        task = replace(task, affix_rules=task._learned_rules(pairs, scripts))
        pairs = task._encode_parts(parts)
        inserted = map(task.vocabulary.name, task._inserted(pairs, scripts).tolist())
        frequent = _frequent(inserted, MAX_INSERTABLE, _min_insertions(len(parts)))
        return replace(
            task,
            window=max(2, min(task.window, int(pairs.sources.lengths.max()))),
            max_target_length=max(1, int(pairs.targets.lengths.max())),
            max_window_edits=max(4, min(MAX_EDITS, int(scripts.counts.max()))),
            known_tokens=tuple(dict.fromkeys([*signs, *known, *frequent])),
            insertable_tokens=tuple(dict.fromkeys([*signs, *frequent])),
            mark_pairs=_mark_pairs([target for _, target in parts]) if by_word else None,
        )

    @cached_property
    def vocabulary(self) -> OpenVocabulary:
        """The known tokens; other tokens are kept as they are, with ids that only this object can decode."""
        return OpenVocabulary((PAD_TOKEN, *self.known_tokens), self.level, self.spelled)

    def _learned_rules(self, pairs: Pairs, scripts: Scripts) -> tuple[str, ...]:
        """Return the affix rules that the pairs use often, frequent ones first."""
        if not self.max_rules:
            return ()
        name, (old, new) = self.vocabulary.name, _substitutions(pairs, scripts)
        words = ((name(one), name(other)) for one, other in zip(old.tolist(), new.tolist(), strict=True))
        return tuple(map(str, learn(words, max_rules=self.max_rules)))

    def _inserted(self, pairs: Pairs, scripts: Scripts) -> IntArray:
        """Return the tokens that edits insert, those made by an affix rule left out."""
        single = _is_single(scripts) & ~self._transforms(pairs, scripts)
        return scripts.tokens[single][:, 0]

    def _transforms(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """Return (B, K) the edits that an affix rule makes."""
        found: BoolArray = np.zeros(scripts.starts.shape, np.bool_)
        if self.template.rules_between is not None:
            where = _is_substitution(scripts)
            old, new = _substitutions(pairs, scripts)
            found[where] = self.template.rules_between(old, new, np.ones(len(old), np.bool_)) >= 0
        return found

    @cached_property
    def template(self) -> Template:
        """Insert, delete or substitute a token, or swap two; with spans, delete or replace a run; transform a word."""
        operations = [Operation.INSERT, Operation.DELETE, Operation.SUBSTITUTE, Operation.SWAP]
        forms = self.word_forms(self.vocabulary)
        operations += [Operation.REPLACE] * self.spans + [Operation.TRANSFORM] * (forms is not None)
        return Template(
            fields=("operation", "first", "last", "token") if self.spans else ("operation", "position", "token"),
            operations=tuple(operations),
            tokens=frozenset(self.vocabulary.ids(self.insertable_tokens)),
            copies=True,
            num_rules=len(self.affix_rules),
            rules_between=forms.rules_between if forms else None,
            marks=self._marks(),
            mark_pairs=frozenset(self.mark_pairs or ()),
        )

    def _marks(self) -> dict[int, str]:
        """Return the marks that edits insert, if it is known what they stand beside."""
        if self.mark_pairs is None:
            return {}
        ids = self.vocabulary.ids(self.insertable_tokens)
        return {index: mark for index in ids if (mark := as_mark(self.vocabulary.name(index)))}

    def word_forms(self, vocabulary: Vocabulary) -> WordForms | None:
        """Return the affix rules for the ids of a vocabulary."""
        return WordForms([AffixRule.parse(rule) for rule in self.affix_rules], vocabulary) if self.affix_rules else None

    @property
    def max_length(self) -> int:
        """A window, before or after its edits."""
        return max(self.window, self.max_target_length) + 4

    @property
    def max_edits(self) -> int:
        """As many as a window of the pairs needed."""
        return self.max_window_edits

    def generate_targets(self, size: int, rng: np.random.Generator, progress: Progress | None = None) -> Sequences:
        """Return random words: tokens drawn uniformly."""
        shortest, ids = max(2, self.window // 4), np.arange(1, len(self.vocabulary))
        found = Sequences(np.zeros((0, 0), np.int64), np.zeros(0, np.int64))
        for _ in range(20):
            lengths = rng.integers(shortest, max(shortest, self.window // 2) + 1, 2 * size)
            found = Sequences.join([found, Sequences.pack(rng.choice(ids, int(lengths.sum())), lengths)]).distinct()
            if len(found) >= size:
                return found.take(slice(size))
        raise DataError(f"task {self.name}: {len(found)} random texts were found, not {size}")

    def error_model(self, pairs: Pairs) -> ErrorModel:
        """Return the errors of pairs, to be made again in their targets."""
        return ErrorModel(pairs, self.vocabulary)

    def resample(self, targets: Sequences, rng: np.random.Generator) -> Sequences:
        """Return each target with zero to two typos."""
        return Sequences.from_rows([self._with_typos(row, rng) for row in targets.rows()])

    def _with_typos(self, row: list[int], rng: np.random.Generator) -> list[int]:
        row = list(row)
        for _ in range(int(rng.integers(0, 3))):
            index, token = int(rng.integers(0, max(len(row) - 1, 1))), int(rng.integers(1, len(self.vocabulary)))
            match int(rng.integers(0, 4)):
                case 0:
                    row.insert(index, token)
                case 1 if len(row) > 1:
                    del row[index]
                case 2:
                    row[index] = token
                case _:
                    row[index : index + 2] = row[index : index + 2][::-1]
        return row

    def edits(self, sources: Sequences, targets: Sequences) -> Scripts:
        """Return a shortest script of single-token edits, in which exchanged neighbors are one swap.

        With `spans`, edits that touch are one edit, if it deletes a run or replaces it by one token.
        """
        scripts = alignment.with_swaps(alignment.scripts(sources, targets), sources)
        return alignment.with_runs(scripts, sources) if self.spans else scripts

    def expressible(self, pairs: Pairs, scripts: Scripts) -> BoolArray:
        """Return (B,) whether every inserted token is insertable, a form of the word or part of the text there."""
        forms = self._transforms(pairs, scripts)
        return _named(pairs, scripts, np.array(sorted(self.template.tokens)), forms)

    def expressible_without_forms(self, pairs: Pairs, scripts: Scripts) -> BoolArray | None:
        """Return (B,) the same without affix rules, if there are any: the forms that come often are insertable then."""
        if not self.affix_rules:
            return None
        inserted = scripts.tokens[_is_single(scripts)][:, 0]
        ids, counts = np.unique(inserted, return_counts=True)
        often = counts >= _min_insertions(len(pairs))
        chosen = np.argsort(-counts[often], kind="stable")[:MAX_INSERTABLE]
        return _named(pairs, scripts, ids[often][chosen], np.zeros(scripts.starts.shape, np.bool_))

    def unk_dropout(self, rng: np.random.Generator) -> IntArray:
        """Return ids (V,) in which a random tenth of the known tokens, other ones each time, are unknown.

        Insertable tokens stay known. The others may be unknown in a new text, and the network has to learn that.
        """
        ids = np.arange(len(self.vocabulary))
        chosen = np.flatnonzero(rng.random(len(ids)) < UNK_RATE)
        fixed = {PAD, *self.template.tokens}
        for index in chosen.tolist():
            if index not in fixed:
                ids[index] = self.vocabulary.as_unknown(index)
        return ids

    def encode(self, sources: Sequence[str], targets: Sequence[str], whole: bool = False) -> Pairs:
        """Encode lines as pairs of ids: one per window or, with `whole`, one per line that is not too long."""
        parts, split = list[windows.Pair](), self.vocabulary.split
        longest = min(MAX_WHOLE, MAX_CELLS // max(1, len(sources)))
        for source, target in zip(map(split, sources), map(split, targets), strict=True):
            uncut = whole and max(len(source), len(target)) <= longest
            parts += [(source, target)] if uncut else self._cut(source, target)
        return self._encode_parts(parts)

    def _cut(self, source: list[str], target: list[str]) -> list[windows.Pair]:
        return windows.cut_pair(source, target, self.window, max(2 * self.window, self.max_target_length))

    def _encode_parts(self, parts: Sequence[windows.Pair]) -> Pairs:
        return Pairs(*(Sequences.from_rows([self.vocabulary.ids(part[side]) for part in parts]) for side in (0, 1)))

    def segments(self, row: Sequence[int], vocabulary: Vocabulary) -> list[Segment]:
        """Return the windows of a text, or its words.

        Word by word, everything that is not a word is left alone: punctuation, addresses, words with digits.
        """
        if self.segmentation == "line":
            return self._windows(row, vocabulary)
        if self._is_plain_word(row, vocabulary):
            return [Segment(list(row), is_word=True)]
        parts = list[Segment]()
        for _, chunk in groupby(row, key=lambda token: vocabulary.name(token).isspace()):
            tokens = list(chunk)
            if CODE.search("".join(map(vocabulary.name, tokens))):
                parts.append(self._word(tokens, vocabulary))
                continue
            runs = groupby(tokens, key=lambda token: self._in_word(vocabulary.name(token)))
            parts += [part for _, run in runs for part in self._unquoted(list(run), vocabulary)]
        return _with_names(parts, [vocabulary.text(part.written()) for part in parts])

    def _is_plain_word(self, row: Sequence[int], vocabulary: Vocabulary) -> bool:
        """Whether a text is one word of known characters, which is what most lines are where words are edited."""
        if not 0 < len(row) <= self.window or not self._word_tokens.issuperset(map(vocabulary.name, row)):
            return False
        return not {vocabulary.name(row[0]), vocabulary.name(row[-1])} & APOSTROPHES

    def _unquoted(self, tokens: list[int], vocabulary: Vocabulary) -> list[Segment]:
        """Return a word and the apostrophes around it, which are no part of it."""
        inside = [index for index, token in enumerate(tokens) if vocabulary.name(token) not in APOSTROPHES]
        start, stop = (inside[0], inside[-1] + 1) if inside else (0, 0)
        parts = [
            Segment(tokens[:start], False),
            self._word(tokens[start:stop], vocabulary),
            Segment(tokens[stop:], False),
        ]
        return [part for part in parts if part.tokens]

    def _windows(self, row: Sequence[int], vocabulary: Vocabulary) -> list[Segment]:
        if len(row) <= self.window:
            return [Segment(list(row))] if row else []
        cut = windows.cut_text([vocabulary.name(token) for token in row], self.window)
        return [
            Segment(list(row[tokens]), core=slice(core.start - tokens.start, core.stop - tokens.start))
            for tokens, core in cut
        ]

    def _word(self, tokens: list[int], vocabulary: Vocabulary) -> Segment:
        """Return a word as a segment: in lower case, if the pairs are; what is no word, or too long, stays."""
        names = [vocabulary.name(token) for token in tokens]
        if not all(map(self._in_word, names)) or any(name.isdigit() and name not in self._known for name in names):
            return Segment(tokens, editable=False)
        written = "".join(names)
        folded = self._folded(written)
        if 2 * sum(map(self._known.__contains__, folded)) < len(folded):  # of another script
            return Segment(tokens, editable=False, is_word=True)
        if folded == written:
            return Segment(tokens, len(tokens) <= self.window, is_word=True)

        def restore(edited: Sequence[int]) -> list[int]:
            return vocabulary.ids(vocabulary.split(tokenization.written_like(written, vocabulary.text(edited))))

        editable = tokenization.written_like(written, folded) == written and len(folded) <= self.window
        if not editable:
            return Segment(tokens, editable=False, is_word=True)  # iPhone
        return Segment(vocabulary.ids(vocabulary.split(folded)), is_word=True, restore=restore)

    def _folded(self, word: str) -> str:
        """Return a word as the pairs have it: in lower case and with a plain apostrophe, unless they have others."""
        if not self._has_case:
            word = word.lower()
        return word if "’" in self._known else word.replace("’", "'")

    def _in_word(self, name: str) -> bool:
        """Whether a token can be part of a word."""
        if name in self._word_tokens or self._folded(name) in self._word_tokens:
            return True
        return all(letter.isalnum() or combining(letter) for letter in name)

    @cached_property
    def _has_case(self) -> bool:
        """Whether the pairs have capitals."""
        return any(token != token.lower() for token in self.known_tokens)

    @cached_property
    def _word_tokens(self) -> frozenset[str]:
        return frozenset(token for token in self.known_tokens if not token.isspace())

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.known_tokens)


def _min_insertions(num_pairs: int) -> int:
    """Return how often pairs have to insert a token before edits may."""
    return MIN_COUNT if num_pairs >= MANY_PAIRS else 1


def _is_single(scripts: Scripts) -> BoolArray:
    """Return (B, K) the edits that insert one token."""
    return scripts.present & (scripts.widths == 1)


def _is_substitution(scripts: Scripts) -> BoolArray:
    """Return (B, K) the edits of one token into another."""
    return _is_single(scripts) & (scripts.stops - scripts.starts == 1)


def _named(pairs: Pairs, scripts: Scripts, insertable: IntArray, forms: BoolArray) -> BoolArray:
    """Return (B,) whether every inserted token is insertable, a form (B, K) of the word or part of the text there."""
    single = _is_single(scripts)
    token = np.where(single, scripts.tokens[:, :, 0], PAD)
    possible = ~single | np.isin(token, insertable) | forms
    rows, columns = (~possible).nonzero()
    # at that step the target stands left of an edit, the source right of it
    start, grown = scripts.starts[rows, columns], (np.cumsum(scripts.growth, 1) - scripts.growth)[rows, columns]
    wanted = token[rows, columns][:, None]
    left = np.arange(pairs.targets.ids.shape[1]) < start[:, None]
    right = np.arange(pairs.sources.ids.shape[1]) >= (start - grown)[:, None]
    possible[rows, columns] = ((pairs.targets.ids[rows] == wanted) & left).any(1)
    possible[rows, columns] |= ((pairs.sources.ids[rows] == wanted) & right).any(1)
    return np.asarray(possible.all(1))


def _substitutions(pairs: Pairs, scripts: Scripts) -> tuple[IntArray, IntArray]:
    """Return the old and the new token of each substitution, for scripts that run from left to right."""
    where = _is_substitution(scripts)
    grown = np.cumsum(scripts.growth, 1) - scripts.growth
    rows, columns = where.nonzero()
    return pairs.sources.ids[rows, (scripts.starts - grown)[rows, columns]], scripts.tokens[where][:, 0]


def _with_names(parts: Sequence[Segment], texts: Sequence[str]) -> list[Segment]:
    """Return the parts of a text with those words marked that may be names or parts of longer words.

    That is a capital inside a sentence, all capitals in a text that has small letters, and a hyphen beside a word.
    """
    shouted = not any(map(str.islower, "".join(texts)))
    found, begins = list[Segment](), True
    for part, before, text, after in zip(parts, ["", *texts], texts, [*texts[1:], ""], strict=False):
        capital = not begins if text[1:2].islower() else not shouted
        is_name = (text[:1].isupper() and capital) or before[-1:] in HYPHENS or after[:1] in HYPHENS
        found.append(part._replace(is_name=part.is_word and is_name))
        if not text.isspace():
            begins = not part.is_word and text[-1:] in windows.SENTENCE_ENDS
    return found


def _segmentation(sources: Sequence[str], targets: Sequence[str], args: Mapping[str, Any]) -> Segmentation:
    """Return "word" for pairs by character that are single words, nearly all of them; else "line"."""
    if args.get("level", ParallelText.level) != "char":
        return "line"
    single = sum(len(text.split()) <= 1 for texts in (sources, targets) for text in texts)
    return "word" if single >= WORD_SHARE * (len(sources) + len(targets)) else "line"


def _mark_pairs(targets: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the punctuation marks that targets have side by side, with or without a space; the same mark, if often."""
    found, pairs = Counter[str](), Counter[tuple[str, str]]()
    for target in targets:
        marks = [as_mark(token) for token in target]
        found.update(marks)
        pairs.update(pair for pair in pairwise(marks) if all(pair))
    kept = [pair for pair, count in pairs.items() if pair[0] != pair[1] or count > DOUBLED_SHARE * found[pair[0]]]
    return tuple("".join(pair) for pair in sorted(kept, key=lambda pair: (-pairs[pair], pair))[:MAX_MARK_PAIRS])


def _frequent(tokens: Iterable[str], limit: int, min_count: int) -> list[str]:
    """Return the most frequent tokens, ties in alphabetical order."""
    counts = Counter(tokens)
    kept = sorted((token for token, count in counts.items() if count >= min_count), key=lambda t: (-counts[t], t))
    return kept[:limit]
