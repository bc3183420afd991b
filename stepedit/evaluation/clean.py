"""What a model does to clean text, which it should leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor

BATCH_LINES = 512
EXAMPLES = 10


@dataclass(frozen=True)
class CleanRates:
    """How many lines and words of clean text a model has changed."""

    lines: int
    words: int
    changed_lines: int
    changed_words: int
    examples: list[tuple[str, str]] = field(default_factory=list)  # words before and after

    @property
    def line_rate(self) -> float:
        """The share of the lines that were changed."""
        return self.changed_lines / max(1, self.lines)

    @property
    def word_rate(self) -> float:
        """The share of the words that were changed."""
        return self.changed_words / max(1, self.words)


def measure(editor: Editor, lines: Sequence[str], decoding: Decoding | None = None) -> CleanRates:
    """Edit clean lines and count what was changed; words are what stands between spaces."""
    changed_lines, examples = 0, list[tuple[str, str]]()
    changed_words = 0
    for begin in range(0, len(lines), BATCH_LINES):
        for result in editor.edit(lines[begin : begin + BATCH_LINES], decoding):
            if result.text == result.source:
                continue
            found = changed_spans(result.source, result.text)
            changed_lines += 1
            changed_words += sum(max(1, len(before.split())) for before, _ in found)
            examples += found
    words = sum(len(line.split()) for line in lines)
    return CleanRates(len(lines), words, changed_lines, changed_words, examples[:EXAMPLES])


def changed_spans(source: str, result: str) -> list[tuple[str, str]]:
    """Return the words of a text that differ in another one, with what stands there."""
    from rapidfuzz.distance import Levenshtein

    before, after = source.split(), result.split()
    return [
        (" ".join(before[block.src_start : block.src_end]), " ".join(after[block.dest_start : block.dest_end]))
        for block in Levenshtein.opcodes(before, after)
        if block.tag != "equal"
    ]
