"""When runs reached the paper's accuracy on validation, beside what the authors needed.

`python -m benchmarks.reach runs/aor runs/aes runs/aec` reads what `stepedit train` wrote into these folders.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stepedit.checkpoints import read_reports, read_run
from stepedit.reference import paper
from stepedit.registry import TASKS
from stepedit.training import load_pairs


def line(folder: Path) -> str:
    """What one run needed."""
    run = read_run(folder)
    metric = TASKS[run.task].metrics[0]
    theirs = paper(run.task, run.method, run.mode, run.task_options, sum(map(len, load_pairs(run).values())))
    name = f"{run.task} {run.method} {run.mode}"
    if theirs is None:
        return f"{name}: the paper has no such setting"
    goal = theirs.metrics[metric]
    authors = f"the authors {theirs.gpu_hours * 60:,.0f} minutes on a graphics card, {theirs.steps:,} steps"
    reports = read_reports(folder)
    reached = next((report for report in reports if report["metrics"][metric] >= goal), None)
    if reached is None:
        best = max(report["metrics"][metric] for report in reports)
        return f"{name}: {metric} {goal:.2%} not reached (best {best:.2%}); {authors}"
    spent = f"{reached['seconds'] / 60:.1f} minutes, {reached['step']:,} steps"
    return f"{name}: {metric} {goal:.2%} on validation after {spent}; {authors}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(line(Path(argument)))
