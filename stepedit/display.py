"""Edits on a terminal. Changes are marked as well as coloured, so that they can be read in a plain file too."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.text import Text

from stepedit.edits import Edit, trajectory
from stepedit.vocabulary import Vocabulary

if TYPE_CHECKING:
    from stepedit.interpreter import Step

TRICKS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
GONE, NEW, QUIET, HEADING = "red strike", "bold green", "dim", "bold"


def visible(text: str) -> str:
    """The text with what a terminal would obey instead of show (control letters, changes of direction) spelled out."""
    return TRICKS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def plain(text: str) -> Text:
    """Text as it is, safe to show."""
    return Text(visible(text))


def marked(gone: Sequence[str], new: Sequence[str], glue: str = " ") -> Text:
    """What goes and what comes: `[8 → *]`, `[8 →]` where nothing comes, `[→ *]` where nothing went."""
    change = Text("[", QUIET)
    change.append(visible(glue.join([*gone, ""])), GONE).append("→", QUIET)
    change.append(visible(glue.join(["", *new])), NEW)
    return change.append("]", QUIET)


def diff(state: Sequence[str], edit: Edit[str], glue: str = " ") -> Text:
    """A state with one edit drawn into it; `glue` is what stands between tokens."""
    changed = marked(state[edit.start : edit.stop], edit.tokens, glue)
    return Text(glue).join([*map(plain, state[: edit.start]), changed, *map(plain, state[edit.stop :])])


def script_diff(source: Sequence[str], edits: Sequence[Edit[str]], glue: str = " ") -> list[Text]:
    """A pair with all its edits: one line where they run from left to right, else a line for each."""
    if not all(b.start >= a.start + len(a.tokens) for a, b in pairwise(edits)):
        return [diff(state, edit, glue) for state, edit in zip(trajectory(source, edits), edits, strict=False)]
    parts, shown, shift = list[Text](), 0, 0  # places in the source, and how far edits have moved what follows
    for edit in edits:
        start, stop = edit.start - shift, edit.stop - shift
        parts += [*map(plain, source[shown:start]), marked(source[start:stop], edit.tokens, glue)]
        shown, shift = stop, shift + len(edit.tokens) - (stop - start)
    return [Text(glue).join([*parts, *map(plain, source[shown:])])]


def step_diff(step: Step, vocabulary: Vocabulary) -> Text:
    """The text after a step, with what the step changed drawn into it."""
    names = [vocabulary.name(token) for token in step.state]
    if step.start is None:
        return Text(visible(f"{vocabulary.glue.join(names)}  (skipped)"), QUIET)
    gone, new = ([vocabulary.name(token) for token in part] for part in (step.before, step.after))
    state = [*names[: step.start], *gone, *names[step.start + len(new) :]]
    return diff(state, Edit(step.start, step.start + len(gone), tuple(new)), vocabulary.glue)


def aligned(rows: Sequence[Sequence[str | Text]], heading: bool = True) -> Text:
    """Rows as columns of equal width, never broken to fit: a terminal or a pager does that better."""
    cells = [[cell if isinstance(cell, Text) else plain(cell) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    lines = []
    for number, row in enumerate(cells):
        padded = [cell.copy() for cell in row]
        for cell, width in zip(padded[:-1], widths[:-1], strict=True):
            cell.pad_right(width - cell.cell_len)
        lines.append(Text("   ").join(padded))
        if heading and number == 0:
            lines[0].stylize(HEADING)
    return Text("\n").join(lines)


def named(edits: Sequence[Edit[int]], name: Callable[[int], str]) -> list[Edit[str]]:
    """Edits of ids as edits of tokens."""
    return [Edit(edit.start, edit.stop, tuple(map(name, edit.tokens))) for edit in edits]
