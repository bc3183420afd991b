"""Several edits from one look without plans, beside one at a time: for a model that was not trained to plan.

    python -m benchmarks.several_proposals punctuation --data punctuation.jsonl

Of the most probable actions of one look, those at least half as probable as the first are made, from left to right;
then the text is read again. The model's README says how its data are made.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import interleaved
from stepedit.data.dataset import load_splits
from stepedit.editing.actions import DONE, Template
from stepedit.editing.interpreter import FloatArray, edits_of
from stepedit.editing.sequences import IntArray, Pairs, Sequences
from stepedit.evaluation.evaluate import evaluate_pairs
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.inference.predict import predict
from stepedit.methods.base import Policy
from stepedit.text.vocabulary import Vocabulary

SHARE = 0.5  # of the most probable action's probability: in a random order, edits that remain share the probability
SIZES = (1, 0)  # edits from one look; 0: all that are probable enough


class Proposals:
    """A policy whose plans are the most probable actions of one look."""

    plans = True

    def __init__(self, policy: Policy, template: Template) -> None:
        self.policy, self.template = policy, template

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

    def reading(self, vocabulary: Vocabulary) -> Proposals:
        """Return the policy for texts whose ids this vocabulary names."""
        return Proposals(self.policy.reading(vocabulary), self.template)

    def plan(self, texts: Sequences, size: int) -> tuple[IntArray, FloatArray]:
        """Return the actions to make, from left to right; the others have a log-probability of -inf."""
        actions, log_probs = self.policy.top_k(texts, size)
        done = (actions == DONE).all(2)
        made = (log_probs >= log_probs[:, :1] + np.log(SHARE)) & ~done & ~done[:, :1]
        starts = np.stack([edits_of(actions[:, at], texts, self.template)[0].starts for at in range(size)], 1)
        starts = np.where(made, starts, np.where(np.arange(size) == 0, -1, texts.ids.shape[1] + 1))
        order = np.argsort(starts, axis=1, kind="stable")
        kept = np.take_along_axis(made, order, 1)
        return np.take_along_axis(actions, order[:, :, None], 1), np.where(kept, 0.0, -np.inf)


def measure(name: str, data: str) -> None:
    """Print accuracy and speed of both decodings."""
    editor = Editor.load(name)
    run, task = editor.run.model_copy(update={"data": str(Path(data).resolve())}), editor.method.task
    pairs = load_splits(run, task)["test"]
    policies = {1: editor.policy, 0: Proposals(editor.policy, task.template)}
    jobs = {
        f"{size or 'auto'} a look, {texts} at a time": partial(_edit, editor, policies[size], pairs, size, texts)
        for texts in (256, 1)
        for size in SIZES
    }
    times = interleaved(jobs, rounds=5)
    for size in SIZES:
        scored = evaluate_pairs(policies[size], editor.method, pairs, Decoding(edits_per_step=size))
        mean, low, high = scored.figure(task.objective)
        print(f"{name}: {size or 'auto'} a look: {mean:.2%} ({low:.2%} to {high:.2%}) of {len(pairs):,}")
    for job, seconds in times.items():
        texts = 256 if "256" in job else 64
        print(f"{name}: {job:<24} {texts / seconds:8,.0f} texts/s")


def _edit(editor: Editor, policy: Policy, pairs: Pairs, size: int, texts: int) -> None:
    """Edit 256 texts at once, or 64 one after the other."""
    rows = pairs.sources.rows()[: 256 if texts == 256 else 64]
    for batch in [rows] if texts == 256 else [[row] for row in rows]:
        predict(policy, editor.method, batch, Decoding(edits_per_step=size))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    arguments = parser.parse_args()
    measure(arguments.model, arguments.data)
