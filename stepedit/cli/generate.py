"""`stepedit generate`: make a data set."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stepedit.cli.arguments import Length, Numbers, Seed, TaskArgs, TaskName, make_task
from stepedit.cli.display import console
from stepedit.cli.progress import progress_bar


def generate(
    task: TaskName,
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist yet.", show_default=False)],
    numbers: Numbers = None,
    length: Length = None,
    num_examples: Annotated[int, typer.Option(help="D, number of distinct targets, for all splits.")] = 10_000,
    disjoint_sources: Annotated[
        bool, typer.Option("--disjoint-sources", help="Splits share no source, even with another target.")
    ] = False,
    seed: Seed = 0,
    task_arg: TaskArgs = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a data set that stepedit wrote there.")] = False,
) -> None:
    """Generate a data set: train, validation and test splits (70/15/15) with distinct targets.

    Writes {train,val,test}_{x,y}.txt, one text a line, and dataset.json, which says how it was made. The folder is
    written completely or not at all.

    Example: stepedit generate aor --numbers 10 --length 5 --num-examples 10000 --seed 0 --out data/aor
    """
    import numpy as np

    from stepedit.data import dataset as datasets

    started = time.perf_counter()
    setting = make_task(task, numbers, length, task_arg)
    datasets.split_slices(num_examples)  # refuses too few before they are generated
    datasets.refuse_existing(out, force)
    with progress_bar(f"{task}: sampling targets") as progress:
        pairs = setting.generate(num_examples, np.random.default_rng(seed), progress)
    loaded = datasets.Loaded(setting, datasets.split_pairs(pairs, seed, disjoint_sources))
    splits = {name: loaded.lines(name) for name in loaded.pairs}
    args = asdict(setting)  # type: ignore[call-overload]
    card = datasets.Card(
        task=task, task_args=args, num_examples=num_examples, disjoint_sources=disjoint_sources, seed=seed
    )
    datasets.write(out, splits, card, replace=force)
    sizes = ", ".join(f"{name} {len(lines):,}" for name, lines in splits.items())
    seconds = time.perf_counter() - started
    console().print(Text(f"wrote {num_examples:,} pairs ({sizes}) to {out} in {seconds:.1f} s"))
    first = splits["train"]
    console().print(Text(f"  source  {first.sources[0]}\n  target  {first.targets[0]}"))
