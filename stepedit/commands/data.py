"""`stepedit data`: make a data set."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stepedit.commands.common import Length, Numbers, Options, Seed, TaskName, console, make_task, progress_bar


def data(
    task: TaskName,
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist yet.", show_default=False)],
    numbers: Numbers = None,
    length: Length = None,
    size: Annotated[int, typer.Option(help="D, how many distinct targets, over all splits.")] = 10_000,
    seed: Seed = 0,
    option: Options = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a data set that stepedit wrote there.")] = False,
) -> None:
    """Make a data set: train, validation and test splits (70/15/15) with distinct targets.

    Writes {train,val,test}_{x,y}.txt, one text a line, and dataset.json, which says how it was made. The folder
    appears whole or not at all.

    Example: stepedit data aor --numbers 10 --length 5 --size 10000 --seed 0 --out data/aor
    """
    import numpy as np

    from stepedit import datasets

    started = time.perf_counter()
    setting = make_task(task, numbers, length, option)
    parts = datasets.split(size)
    datasets.refuse_existing(out, force)
    with progress_bar(f"{task}: drawing targets") as progress:
        pairs = setting.generate(size, np.random.default_rng(seed), progress)
    sources, targets = setting.vocabulary.decode(pairs.sources), setting.vocabulary.decode(pairs.targets)
    splits = {name: datasets.Lines(sources[part], targets[part]) for name, part in parts.items()}
    options = asdict(setting)  # type: ignore[call-overload]
    datasets.write(out, splits, datasets.Card(task=task, options=options, size=size, seed=seed), replace=force)
    sizes = ", ".join(f"{name} {len(lines):,}" for name, lines in splits.items())
    taken = time.perf_counter() - started
    console().print(Text(f"wrote {size:,} pairs ({sizes}) to {out} in {taken:.1f} s"))
    console().print(Text(f"  source  {sources[0]}\n  target  {targets[0]}"))
