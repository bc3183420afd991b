"""The time runs took to reach the paper's accuracy on validation, beside the authors' training time.

`python -m benchmarks.time_to_accuracy runs/aor runs/aes runs/aec` reads the metrics that `stepedit train` wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stepedit.data.dataset import load_splits
from stepedit.evaluation.paper import paper_result
from stepedit.inference.model_folder import make_task, read_config, read_metrics
from stepedit.registry import TASKS


def summary(folder: Path) -> str:
    """Return one line about a run."""
    run = read_config(folder)
    metric = TASKS[run.task].objective
    num_examples = sum(map(len, load_splits(run, make_task(run)).values()))
    paper = paper_result(run.task, run.method, run.mode, run.task_args, num_examples)
    name = f"{run.task} {run.method} {run.mode}"
    if paper is None:
        return f"{name}: the paper has no such setting"
    goal = paper.metrics[metric]
    authors = f"the authors: {paper.gpu_hours * 60:,.0f} minutes on a GPU, {paper.steps:,} steps"
    reports = read_metrics(folder)
    if not reports:
        return f"{name}: no validation yet; {authors}"
    reached = next((report for report in reports if report["metrics"][metric] >= goal), None)
    if reached is None:
        best = max(report["metrics"][metric] for report in reports)
        return f"{name}: {metric} {goal:.2%} not reached (best {best:.2%}); {authors}"
    cost = f"{reached['seconds'] / 60:.1f} minutes, {reached['step']:,} steps"
    return f"{name}: {metric} {goal:.2%} on validation after {cost}; {authors}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(summary(Path(argument)))
