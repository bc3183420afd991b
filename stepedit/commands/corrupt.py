"""`stepedit corrupt`: pairs from plain text that is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stepedit.commands.common import Seed, console
from stepedit.errors import DataError, UserError

WAYS = "punctuation, case, spaces, typos"


def corrupt(
    text: Annotated[
        Path | None, typer.Argument(help="Plain text, UTF-8.", show_default="the prose of Python's own help topics")
    ] = None,
    drop: Annotated[str, typer.Option(help=f"What to take away, with commas between: {WAYS}.")] = "punctuation,case",
    rate: Annotated[float, typer.Option(min=0, max=1, help="How often, for spaces and typos.")] = 0.05,
    sentences: Annotated[
        bool, typer.Option("--sentences", help="A pair for each sentence, not for each line.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The .jsonl file of pairs, to be made.")] = Path("pairs.jsonl"),
    seed: Seed = 0,
) -> None:
    """Make pairs to train on from text that is right: each line spoiled, and as it was.

    Example: stepedit corrupt book.txt --drop punctuation,case --out pairs.jsonl && stepedit train --data pairs.jsonl
    --level word --out runs/punctuation
    """
    import json

    import numpy as np

    from stepedit import corruption
    from stepedit.checkpoints import write_whole
    from stepedit.datasets import read_lines

    if out.suffix != ".jsonl":
        raise UserError(f"{out}: pairs are written as .jsonl, which any text fits in")
    if out.exists():
        raise DataError(f"{out} exists already; choose another file")
    if text is None:
        lines = corruption.help_sentences()
    elif sentences:
        lines = list(corruption.sentences("\n".join(read_lines(text))))
    else:
        lines = [line for line in read_lines(text) if line.strip()]
    if not lines:
        raise DataError(f"{text}: there is no sentence in it; without --sentences every line is taken")
    ways, rng = [way.strip() for way in drop.split(",") if way.strip()], np.random.default_rng(seed)
    pairs = [(corruption.spoiled(line, ways, rate, rng), line) for line in lines]
    if not any(wrong != right for wrong, right in pairs):
        raise DataError(f"{text or 'the help topics'}: nothing in it changes when {drop or 'nothing'} is taken away")
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps({"source": wrong, "target": right}, ensure_ascii=False) for wrong, right in pairs)
    write_whole(out, "".join(f"{row}\n" for row in rows).encode())
    changed = sum(wrong != right for wrong, right in pairs)
    console().print(Text(f"{out}: {len(pairs):,} pairs, {changed:,} of them with something to put right"))
