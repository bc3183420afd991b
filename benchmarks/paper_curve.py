"""Train the paper's network on the authors' split, and print our validation beside theirs, epoch by epoch.

    python -m benchmarks.paper_curve aor recurrence online --data DIR --epochs 60 --out RUN

DIR is a folder of the authors' splits (train_x.txt, ...). A run that was stopped continues when the command is
repeated, and one that has ended is extended by more --epochs; with preset paper, whose learning rate is constant, it is
then the same as one that was that long from the start. Seeds differ from theirs, so figures agree within a few points.
Scoring is ours: the authors' token accuracy of End2end counts the end symbol, and their AEC Tagging is cut off.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepedit.config import PAPER_PRESETS
from stepedit.errors import UserError
from stepedit.evaluation.paper import CurvePoint, paper_curve
from stepedit.inference.model_folder import CONFIG, read_config, read_metrics
from stepedit.training.run import open_trainer

NUMBERS = {"aor": 10, "aes": 100, "aec": 10}  # of the paper's main table
METRICS = ("token", "sequence", "equation")


def train(arguments: argparse.Namespace) -> None:
    """Train a new run, or continue the one in the folder; one that is long enough is left alone."""
    resume = (arguments.out / CONFIG).exists()
    made = read_metrics(arguments.out) if resume else []
    if made and made[-1]["epoch"] >= arguments.epochs:
        return
    values: dict[str, Any] = {"max_epochs": arguments.epochs}
    if not resume:
        names = ("task", "method", "mode", "preset", "seed", "eval_every", "threads")
        values |= {name: getattr(arguments, name) for name in names} | {"data": str(arguments.data)}
    elif read_config(arguments.out).max_epochs == arguments.epochs:
        values = {}
    with open_trainer(arguments.out, values, resume) as trainer:
        for report in trainer.fit():
            print(f"epoch {report.epoch:g}: {report.metrics}", flush=True)


def table(ours: list[dict[str, Any]], theirs: list[CurvePoint]) -> Iterator[str]:
    """Yield a row for each of our validations, with the authors' at the nearest epoch."""
    named = " | ".join(f"{name}, ours" for name in METRICS)
    yield f"| epoch | {named} | authors' epoch | {' | '.join(METRICS)} |"
    yield "|---" * (2 * len(METRICS) + 2) + "|"
    for report in ours:
        near = min(theirs, key=lambda point: abs(point.epoch - report["epoch"]))
        both = [[values.get(name) for name in METRICS] for values in (report["metrics"], near.metrics)]
        own, other = (["" if value is None else f"{value:.2%}" for value in side] for side in both)
        yield f"| {report['epoch']:g} | {' | '.join(own)} | {near.epoch} | {' | '.join(other)} |"


def main() -> None:
    """Train and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=NUMBERS)
    parser.add_argument("method", choices=("recurrence", "tagging", "end2end"))
    parser.add_argument("mode", choices=("online", "offline"))
    parser.add_argument("--data", type=Path, required=True, help="folder of the authors' splits")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--preset", choices=PAPER_PRESETS, default="paper")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--eval-every", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        train(arguments)
    except UserError as error:
        sys.exit(f"paper_curve: {error}")
    theirs = paper_curve(arguments.task, arguments.method, arguments.mode, NUMBERS[arguments.task])
    for line in table(read_metrics(arguments.out), theirs):
        print(line)


if __name__ == "__main__":
    main()
