"""Punctuation and capitals: precision, recall and F1 of every mark, beside the commonest mark of each place.

    stepedit corrupt --out pairs.jsonl
    stepedit train --data pairs.jsonl --level word --mode augmented --order random --out runs/punctuation
    python -m benchmarks.punctuation runs/punctuation

The baseline knows from training which mark is the commonest inside a sentence (none) and at its end, and that a
sentence begins with a capital.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rapidfuzz.distance import Levenshtein

from stepedit.datasets import Lines, for_training
from stepedit.editor import Editor
from stepedit.text_metrics import Counts, total

PIECE = re.compile(r"(\S*?)([.,;:!?]*)(?=\s|$)")
CAPITAL = "capital"


def marks(text: str) -> list[tuple[str, set[str]]]:
    """Every word in small letters, with the mark behind it and whether it has a capital."""
    found = []
    for word, mark in (match.groups() for match in PIECE.finditer(text) if match[0]):
        found.append((word.lower(), ({mark} if mark else set()) | ({CAPITAL} if word != word.lower() else set())))
    return found


def compared(target: str, result: str) -> Iterable[tuple[set[str], set[str]]]:
    """What each word of the target should have, and has; words that are gone have nothing."""
    wanted, got = marks(target), marks(result)
    blocks = Levenshtein.opcodes([word for word, _ in wanted], [word for word, _ in got])
    for block in blocks:
        for offset in range(block.src_end - block.src_start):
            has = got[block.dest_start + offset][1] if block.tag == "equal" else set[str]()
            yield wanted[block.src_start + offset][1], has


def table(title: str, targets: Sequence[str], results: Sequence[str], shown: Sequence[str]) -> list[str]:
    """A line for each mark."""
    every = [each for target, result in zip(targets, results, strict=True) for each in compared(target, result)]
    lines = []
    for mark in shown:
        counts = total([Counts(mark in has, mark in wanted, mark in wanted and mark in has) for wanted, has in every])
        precision = f"{counts.precision:.1%}" if counts.made else "none put"
        figures = f"{counts.asked:>8,} {precision:>10} {counts.recall:>8.1%} {counts.f(1):>8.1%}"
        lines.append(f"{title:<12} {mark:<8} {figures}")
    return lines


def baseline(train: Lines) -> tuple[str, str]:
    """The commonest mark inside a sentence and at its end; '' if that is none."""
    inside, end = Counter[str](), Counter[str]()
    for text in train.targets:
        found = ["".join(sorted(has - {CAPITAL})) for _, has in marks(text)]
        inside.update(found[:-1])
        end.update(found[-1:])
    return inside.most_common(1)[0][0], end.most_common(1)[0][0]


def main(folder: Path) -> None:
    """Compare."""
    editor = Editor.load(folder)
    run = editor.run
    assert run.data is not None, "a run on pairs from `stepedit corrupt` was expected"
    splits = for_training(run.data, run.targets, run.source, run.target).splits
    test, (inside, end) = splits["test"], baseline(splits["train"])
    commonest = [line[:1].upper() + line[1:].replace(" ", f"{inside} ") + end for line in test.sources]
    edited = [one.text for one in editor.edit(test.sources)]
    seen = Counter(mark for target in test.targets for _, has in marks(target) for mark in has)
    shown = [mark for mark, count in seen.most_common() if count >= 10]
    print(f"{len(test):,} texts; exact: {sum(map(str.__eq__, edited, test.targets)) / len(test):.1%}, ", end="")
    print(f"commonest {sum(map(str.__eq__, commonest, test.targets)) / len(test):.1%}\n")
    print(f"{'':<12} {'mark':<8} {'asked':>8} {'precision':>10} {'recall':>8} {'F1':>8}")
    for title, results in ((folder.name[:12], edited), ("commonest", commonest), ("as it is", test.sources)):
        print("\n".join(table(title, test.targets, results, shown)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
