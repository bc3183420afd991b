"""What text models do to clean prose: the share of sentences and words that they change, which should be none.

    python -m benchmarks.clean_prose                # text models that come with stepedit, on Python's help topics
    python -m benchmarks.clean_prose spelling runs/mine --file prose.txt [--file more.txt] [--min-confidence 0.5]

A file has one sentence a line. A model passes if it changes at most 2 % of the sentences of each file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from stepedit.evaluation.clean import measure
from stepedit.evaluation.intervals import wilson
from stepedit.files import read_lines
from stepedit.inference import model_folder
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.text.noise import help_sentences

MAX_CHANGED = 0.02  # of the sentences


def text_models() -> list[str]:
    """Return the names of the models for text that come with stepedit."""
    names = model_folder.shipped_models()
    return [
        name
        for name in names
        if model_folder.make_task(model_folder.read_config(model_folder.find(name))).open_vocabulary
    ]


def main(models: Sequence[str], texts: dict[str, list[str]], min_confidence: float | None, beam_size: int) -> bool:
    """Print one line per model and text, and the first changes; return whether all models pass."""
    passed = True
    print(
        f"{'model':<24} {'text':<24} {'sentences':>9} {'changed':>8} {'95 % interval':>17} {'words':>8} {'changed':>8}"
    )
    for name in models:
        editor = Editor.load(name)
        for title, lines in texts.items():
            rates = measure(editor, lines, Decoding(min_confidence=min_confidence, beam_size=beam_size))
            passed &= rates.line_rate <= MAX_CHANGED
            interval = "{:.2%} to {:.2%}".format(*wilson(rates.line_rate, rates.lines))
            figures = (
                f"{rates.lines:>9,} {rates.line_rate:>8.2%} {interval:>17} {rates.words:>8,} {rates.word_rate:>8.3%}"
            )
            print(f"{Path(name).name:<24} {title:<24} {figures}")
            print("".join(f"    {before!r} -> {after!r}\n" for before, after in rates.examples), end="")
    return passed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure what text models change in clean prose.")
    parser.add_argument("models", nargs="*", help="names or folders; default: all text models that come with stepedit")
    parser.add_argument("--file", type=Path, action="append", help="one sentence a line; default: Python's help topics")
    parser.add_argument("--min-confidence", type=float)
    parser.add_argument("--beam-size", type=int, default=1)
    args = parser.parse_args()
    prose = {path.name: [line for line in read_lines(path) if line.strip()] for path in args.file or []}
    found = main(
        args.models or text_models(), prose or {"help topics": help_sentences()}, args.min_confidence, args.beam_size
    )
    sys.exit(0 if found else 1)
