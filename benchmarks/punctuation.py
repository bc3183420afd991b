"""Punctuation and capitalization: precision, recall and F1 of every mark, beside a most-frequent baseline.

    python examples/punctuation_text.py disflqa/train.jsonl > clean.txt
    stepedit corrupt clean.txt --clean-share 0.5 --partial-share 0.5 --out pairs.jsonl
    stepedit train --data pairs.jsonl --level word --mode augmented --edit-order random --out runs/punctuation
    python -m benchmarks.punctuation runs/punctuation

It is measured on the sentences of the test split that have errors; `benchmarks.clean_prose` measures the others. The
baseline puts the most frequent mark of the training sentences between words (none) and at the end of a sentence where
there is none, and capitalizes its first word.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rapidfuzz.distance import Levenshtein

from stepedit.data.dataset import read_run_splits
from stepedit.data.location import of_run
from stepedit.data.readers import Lines
from stepedit.evaluation.edit_metrics import EditCounts, total
from stepedit.inference.editor import Editor

WORD = re.compile(r"(\S*?)([.,;:!?]*)(?=\s|$)")
CAPITAL, MARKS = "capital", tuple(".,;:!?")
MIN_COUNT = 10  # of a mark in the test split


def marks(text: str) -> list[tuple[str, set[str]]]:
    """Return every word in lower case, with the mark behind it and CAPITAL if it has a capital."""
    found = []
    for word, mark in (match.groups() for match in WORD.finditer(text) if match[0]):
        found.append((word.lower(), ({mark} if mark else set()) | ({CAPITAL} if word != word.lower() else set())))
    return found


def align(target: str, prediction: str) -> Iterable[tuple[set[str], set[str]]]:
    """Yield the reference and predicted marks of each word of the target; a missing word has none."""
    reference, predicted = marks(target), marks(prediction)
    blocks = Levenshtein.opcodes([word for word, _ in reference], [word for word, _ in predicted])
    for block in blocks:
        for offset in range(block.src_end - block.src_start):
            found = predicted[block.dest_start + offset][1] if block.tag == "equal" else set[str]()
            yield reference[block.src_start + offset][1], found


def table(title: str, targets: Sequence[str], predictions: Sequence[str], shown: Sequence[str]) -> list[str]:
    """Return one line per mark."""
    words = [word for pair in zip(targets, predictions, strict=True) for word in align(*pair)]
    lines = []
    for mark in shown:
        counts = total([EditCounts(mark in found, mark in wanted, mark in wanted & found) for wanted, found in words])
        precision = f"{counts.precision:.1%}" if counts.predicted else "none"
        scores = f"{counts.reference:>10,} {precision:>10} {counts.recall:>8.1%} {counts.f_score(1):>8.1%}"
        lines.append(f"{title:<14} {mark:<8} {scores}")
    return lines


def most_frequent(train: Lines) -> tuple[str, str]:
    """Return the most frequent mark between words and at the end of a sentence; '' is none."""
    inside, end = Counter[str](), Counter[str]()
    for text in train.targets:
        found = ["".join(sorted(word_marks - {CAPITAL})) for _, word_marks in marks(text)]
        inside.update(found[:-1])
        end.update(found[-1:])
    return inside.most_common(1)[0][0], end.most_common(1)[0][0]


def restore(line: str, inside: str, end: str) -> str:
    """Return a text with the most frequent marks where it has none, and a capital at its start."""
    words = [word if word[-1:] in MARKS else word + inside for word in line.split(" ")]
    last = words.pop().removesuffix(inside)
    text = " ".join([*words, last if last[-1:] in MARKS else last + end])
    return text[:1].upper() + text[1:]


def main(folder: Path) -> None:
    """Compare on the test split."""
    editor = Editor.load(folder)
    run = editor.run
    if run.data is None:
        raise SystemExit(f"{folder}: expected a run on pairs from `stepedit corrupt`")
    splits = read_run_splits(run, of_run(run, folder)).splits
    test, (inside, end) = splits["test"], most_frequent(splits["train"])
    test = test.take([row for row in range(len(test)) if test.sources[row] != test.targets[row]])
    baseline = [restore(line, inside, end) for line in test.sources]
    edited = [result.text for result in editor.edit(test.sources)]
    counts = Counter(mark for target in test.targets for _, word_marks in marks(target) for mark in word_marks)
    shown = [mark for mark, count in counts.most_common() if count >= MIN_COUNT]
    exact = [sum(map(str.__eq__, texts, test.targets)) / len(test) for texts in (edited, baseline)]
    print(f"{len(test):,} texts; exact: {exact[0]:.1%}, most-frequent baseline {exact[1]:.1%}\n")
    print(f"{'':<14} {'mark':<8} {'reference':>10} {'precision':>10} {'recall':>8} {'F1':>8}")
    for title, texts in ((folder.name[:14], edited), ("most frequent", baseline), ("copied source", test.sources)):
        print("\n".join(table(title, test.targets, texts, shown)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
