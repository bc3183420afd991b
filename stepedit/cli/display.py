"""Edits and tables on a terminal. Changes are marked as well as colored, so that a plain file is readable, too."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from stepedit.editing.edits import Edit, replay, trajectory

if TYPE_CHECKING:
    from stepedit.editing.trace import Step
    from stepedit.tasks.base import Task

CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
MAX_RULES_SHOWN = 8
DELETED, INSERTED, DIM, HEADING = "red strike", "bold green", "dim", "bold"


def console() -> Console:
    """Return standard output, without highlighting; long lines are left to the terminal."""
    return Console(highlight=False, soft_wrap=True)


def visible(text: str) -> str:
    """Return a text with control and direction characters escaped."""
    return CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def plain(text: str) -> Text:
    """Return a text that is safe to print."""
    return Text(visible(text))


def expressible_shares(pairs: int, expressible: int, without_forms: int | None, task: Task) -> str:
    """Return how many pairs can be expressed, and what affix rules contribute to that."""
    text, forms = f"{expressible / max(1, pairs):.1%} of the pairs can be expressed", task.word_forms(task.vocabulary)
    if without_forms is None or forms is None:
        return text
    examples = ", ".join(map(str, forms.rules[:MAX_RULES_SHOWN]))
    text += f", {without_forms / max(1, pairs):.1%} without affix rules\n"
    return text + f"number of affix rules: {len(forms.rules)}, most frequent: {examples}"


def marked(deleted: Sequence[str], inserted: Sequence[str], separator: str = " ") -> Text:
    """Return a change: `[8 → *]`, `[8 →]` for a deletion, `[→ *]` for an insertion."""
    change = Text("[", DIM)
    change.append(visible(separator.join([*deleted, ""])), DELETED).append("→", DIM)
    change.append(visible(separator.join(["", *inserted])), INSERTED)
    return change.append("]", DIM)


def diff(state: Sequence[str], edit: Edit[str], separator: str = " ") -> Text:
    """Return a state with one edit marked in it."""
    changed = marked(state[edit.start : edit.stop], edit.tokens, separator)
    return Text(separator).join([*map(plain, state[: edit.start]), changed, *map(plain, state[edit.stop :])])


def script_diff(source: Sequence[str], edits: Sequence[Edit[str]], separator: str = " ") -> list[Text]:
    """Return a source with all edits marked: one line if they run from left to right, otherwise a line per edit."""
    if not all(b.start >= a.start + len(a.tokens) for a, b in pairwise(edits)):
        return [diff(state, edit, separator) for state, edit in zip(trajectory(source, edits), edits, strict=False)]
    parts, shown, shift = list[Text](), 0, 0  # positions in the source, and the growth by edits so far
    for edit in edits:
        start, stop = edit.start - shift, edit.stop - shift
        parts += [*map(plain, source[shown:start]), marked(source[start:stop], edit.tokens, separator)]
        shown, shift = stop, shift + len(edit.tokens) - (stop - start)
    return [Text(separator).join([*parts, *map(plain, source[shown:])])]


def step_diffs(tokens: Sequence[str], steps: Sequence[Step], separator: str) -> list[Text]:
    """Return the text before each step, from the tokens of the source on, with the step's change marked."""
    states = replay(tokens, (step.edit for step in steps))
    return [_step_diff(state, step, separator) for state, step in zip(states, steps, strict=False)]


def _step_diff(state: Sequence[str], step: Step, separator: str) -> Text:
    if step.position is None:
        return Text(visible(f"{separator.join(state)}  (skipped)"), DIM)
    return diff(state, step.edit, separator)


def aligned(rows: Sequence[Sequence[str | Text]], heading: bool = True) -> Text:
    """Return rows as columns of equal width; lines are not wrapped."""
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
    """Return edits of ids as edits of tokens."""
    return [Edit(edit.start, edit.stop, tuple(map(name, edit.tokens))) for edit in edits]
