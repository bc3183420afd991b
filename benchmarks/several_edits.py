"""Several edits from one look beside one at a time: accuracy and texts a second, on a model's own test pairs.

    python -m benchmarks.several_edits aes

Both decodings edit the same texts in turns, in one process.
"""

from __future__ import annotations

import sys
from functools import partial

from benchmarks.timing import interleaved
from stepedit.data.dataset import load_splits
from stepedit.editing.sequences import Pairs
from stepedit.evaluation.evaluate import evaluate_pairs
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.inference.predict import predict

NUM_TEXTS = 1_500
SIZES = (1, 0)  # edits from one look; 0: all that the model is confident about


def measure(name: str) -> None:
    """Print a line for each decoding of a model."""
    editor = Editor.load(name)
    pairs = load_splits(editor.run, editor.method.task, editor.folder)["test"].take(slice(NUM_TEXTS))
    if not editor.policy.plans:
        print(f"{name}: not trained to plan, so it makes one edit at a time")
        return
    jobs = {
        f"{'auto' if size == 0 else size} a look, {texts} at a time": partial(_edit, editor, pairs, size, texts)
        for texts in (256, 1)
        for size in SIZES
    }
    times = interleaved(jobs, rounds=5)
    for size in SIZES:
        scored = evaluate_pairs(editor.policy, editor.method, pairs, Decoding(edits_per_step=size))
        mean, low, high = scored.figure(editor.method.task.objective)
        print(f"{name}: {size or 'auto'} a look: {mean:.2%} ({low:.2%} to {high:.2%}) of {len(pairs):,}")
    for job, seconds in times.items():
        texts = 256 if "256" in job else 64
        print(f"{name}: {job:<24} {texts / seconds:8,.0f} texts/s")


def _edit(editor: Editor, pairs: Pairs, size: int, texts: int) -> None:
    """Edit 256 texts at once, or 64 one after the other."""
    rows = pairs.sources.rows()[: 256 if texts == 256 else 64]
    decoding = Decoding(edits_per_step=size)
    for batch in [rows] if texts == 256 else [[row] for row in rows]:
        predict(editor.policy, editor.method, batch, decoding)


if __name__ == "__main__":
    for model in sys.argv[1:] or ["aes"]:
        measure(model)
