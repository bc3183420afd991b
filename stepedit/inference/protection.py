"""Protected tokens: no edit touches what a person wants kept (`text.keep_list`).

A protected token carries two marks in its id, far above all ids:

    PROTECTED   no edit removes or replaces it
    JOINED      and none inserts anything before it: it is not the first of its phrase

So marks move with their tokens, through edits, windows and beams, and nobody has to follow positions. A policy never
sees them: `ProtectedPolicy` takes them off, and replaces actions that touch a protected token. An edit touches one,
too, if the token would be written in another way afterwards (a case sign before it), or read as part of a longer word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice

from stepedit.editing.actions import TOKEN, token
from stepedit.editing.edits import Edit
from stepedit.editing.interpreter import AppliedAction, Outcome
from stepedit.editing.sequences import Sequences
from stepedit.inference.decoding import Decoding
from stepedit.tasks.base import Segment
from stepedit.text import keep_list
from stepedit.text.keep_list import Span
from stepedit.text.tokenization import CAP, CAPS, continues_word
from stepedit.text.vocabulary import NUM_IDS, Vocabulary

PROTECTED, JOINED = NUM_IDS, 2 * NUM_IDS
PLAIN = PROTECTED - 1  # the bits of an id without marks
SIGNS = (CAP, CAPS)


def spans(text: str, decoding: Decoding) -> list[Span]:
    """Return the spans of characters that stay."""
    found = decoding.keep.spans(text) if decoding.keep is not None else []
    return keep_list.merged([*found, *keep_list.code_spans(text)]) if decoding.keep_code else found


def marked(row: Sequence[int], decoding: Decoding, vocabulary: Vocabulary) -> list[int]:
    """Return the tokens of a text with marks on those that stay; a token is protected if a part of it is."""
    pieces = vocabulary.pieces([vocabulary.name(index) for index in row])
    kept, result, previous = spans("".join(pieces), decoding), list(row), -1
    if not kept:
        return result
    which, offsets = 0, [0, *accumulate(map(len, pieces))]
    for index, piece in enumerate(pieces):
        if not piece:  # a case sign belongs to the token after it
            continue
        while which < len(kept) and kept[which][1] <= offsets[index]:
            which += 1
        if which == len(kept):
            break
        if kept[which][0] < offsets[index + 1]:
            first = index
            while first and not pieces[first - 1] and vocabulary.name(row[first - 1]) in SIGNS:
                first -= 1
            for place in range(first, index + 1):
                joined = place > first or (previous >= 0 and kept[which][0] < offsets[first] and previous == first - 1)
                result[place] |= PROTECTED | JOINED * joined
            previous = index
    return result


def protect(parts: Sequence[Segment], marks: Sequence[int]) -> list[Segment]:
    """Return the segments of a text with the marks of its tokens; a word that has one is not edited at all."""
    result, begin = list[Segment](), 0
    for part in parts:
        size = len(part.written())
        if part.is_word or part.restore is not None:
            stays = any(index >= PROTECTED for index in marks[begin : begin + size])
            part = part._replace(editable=part.editable and not stays)
        elif part.editable:
            first = begin - (part.core.start if part.core is not None else 0)
            part = part._replace(tokens=list(marks[first : first + len(part.tokens)]))
        result.append(part)
        begin += size
    return result


def is_protected(part: Segment) -> bool:
    """Whether a segment has a protected token."""
    return max(part.tokens, default=0) >= PROTECTED


def plain(texts: Sequences) -> Sequences:
    """Return texts without marks."""
    return Sequences(texts.ids & PLAIN, texts.lengths)


def plain_row(row: Sequence[int]) -> list[int]:
    """Return tokens without marks."""
    return [index & PLAIN for index in row]


def plain_outcome(outcome: Outcome) -> Outcome:
    """Return an outcome without marks."""
    return replace(outcome, tokens=tuple(plain_row(outcome.tokens)), trace=[*map(_plain_step, outcome.trace)])


def _plain_step(step: AppliedAction) -> AppliedAction:
    action = tuple(token(part >> 2 & PLAIN) if part & 3 == TOKEN and part > 0 else part for part in step.action)
    before, after = (tuple(plain_row(side)) for side in (step.before, step.after))
    return replace(step, before=before, after=after, action=action)


def is_intact(source: str, result: str, decoding: Decoding) -> bool:
    """Whether all protected spans of a source are in the result, in order, and none in a longer word than before."""
    place = 0
    for start, end in spans(source, decoding):
        edges = source[max(0, start - 1) : start], source[end : end + 1]
        place = result.find(source[start:end], place)
        while place >= 0 and _in_longer_word(result, place, place + end - start, edges):
            place = result.find(source[start:end], place + 1)
        if place < 0:
            return False
        place += end - start
    return True


def _in_longer_word(text: str, start: int, end: int, edges: tuple[str, str]) -> bool:
    """Whether a span has a letter beside it where there was none; `edges` are the characters that were there."""
    beside = text[max(0, start - 1) : start], text[end : end + 1]
    return any(
        new and continues_word(new) and not (old and continues_word(old))
        for new, old in zip(beside, edges, strict=True)
    )


@dataclass(frozen=True)
class Protection:
    """Tells which edits touch a protected token of a marked text."""

    vocabulary: Vocabulary

    def touches(self, edit: Edit[int], state: Sequence[int]) -> bool:
        """Whether an edit changes a protected token, how it is written, or where its word begins and ends."""
        if any(index >= PROTECTED for index in state[edit.start : edit.stop]):
            return True
        following = state[edit.stop] if edit.stop < len(state) else 0
        if following >= PROTECTED and (following & JOINED or self._touches_start(edit, state)):
            return True
        left = edit.start - 1
        while left >= 0 and self._name(state[left]) in SIGNS:
            left -= 1
        if left < 0 or state[left] < PROTECTED:
            return False
        return continues_word(self._first(chain(edit.tokens, islice(state, edit.stop, None))))

    def _touches_start(self, edit: Edit[int], state: Sequence[int]) -> bool:
        """Whether the protected token after an edit gets another case, or letters before it."""
        before = [*state[max(0, edit.start - 1) : edit.start], *edit.tokens][-1:]
        if before and self._name(before[0]) in SIGNS:
            return True
        first = self._first(islice(state, edit.stop, None))
        return bool(before) and not first.isspace() and continues_word(self._name(before[0])[-1:] or " ")

    def _first(self, row: Iterable[int]) -> str:
        """Return the first character of some tokens; a space if they have none."""
        names = (self._name(index) for index in row)
        return next((name[0] for name in names if name and name not in SIGNS), " ")

    def _name(self, index: int) -> str:
        return self.vocabulary.name(index & PLAIN)

    def allows(self, edits: Sequence[Edit[int]], state: Sequence[int]) -> bool:
        """Whether none of some edits, made one after the other, touches a protected token."""
        row = list(state)
        for edit in edits:
            if self.touches(edit, row):
                return False
            row[edit.start : edit.stop] = edit.tokens
        return True
