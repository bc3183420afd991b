"""`stepedit corrupt`: make training pairs from clean text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stepedit.cli.arguments import Seed
from stepedit.cli.display import console
from stepedit.errors import DataError, UserError

KINDS = "punctuation, case, spaces, typos"


def corrupt(
    text: Annotated[
        Path | None, typer.Argument(help="Clean text, UTF-8.", show_default="prose of Python's help topics")
    ] = None,
    noise: Annotated[str, typer.Option(help=f"Kinds of noise, separated by commas: {KINDS}.")] = "punctuation,case",
    noise_rate: Annotated[float, typer.Option(min=0, max=1, help="Probability of a removed space or a typo.")] = 0.05,
    clean_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the lines that stay as they are: what must not be changed.")
    ] = 0.0,
    partial_share: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of the other lines in which only half of the marks and capitals go."),
    ] = 0.0,
    sentences: Annotated[bool, typer.Option("--sentences", help="One pair per sentence, not per line.")] = False,
    out: Annotated[Path, typer.Option(help="The .jsonl file of pairs to write.")] = Path("pairs.jsonl"),
    seed: Seed = 0,
) -> None:
    """Make training pairs from clean text: the source is the line with noise, the target is the line.

    Example: stepedit corrupt book.txt --noise punctuation,case --out pairs.jsonl && stepedit train --data pairs.jsonl
    --level word --out runs/punctuation
    """
    import json

    import numpy as np

    from stepedit.files import write_atomic
    from stepedit.text.noise import add_noise

    if out.suffix != ".jsonl":
        raise UserError(f"{out}: pairs are written as .jsonl, which can hold any text")
    if out.exists():
        raise DataError(f"{out} exists already; choose another file")
    lines = _lines(text, sentences)
    kinds, rng = [kind.strip() for kind in noise.split(",") if kind.strip()], np.random.default_rng(seed)
    add_noise("", kinds, noise_rate, rng)  # an unknown kind is reported, whatever is drawn below
    pairs = []
    for line in lines:
        stays, partial = (rng.random(2) < (clean_share, partial_share)).tolist()
        source = line if stays else add_noise(line, kinds, noise_rate, rng, 0.5 if partial else 1.0)
        pairs.append((source, line))
    changed = sum(source != target for source, target in pairs)
    if not changed:
        raise DataError(f"{text or 'the help topics'}: the noise {noise or '(none)'} changes nothing in it")
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps({"source": source, "target": target}, ensure_ascii=False) for source, target in pairs)
    write_atomic(out, "".join(f"{row}\n" for row in rows).encode())
    console().print(Text(f"{out}: {len(pairs):,} pairs, {changed:,} of them with errors to correct"))


def _lines(text: Path | None, sentences: bool) -> list[str]:
    from stepedit.files import read_lines
    from stepedit.text import noise

    if text is None:
        return noise.help_sentences()
    if sentences:
        lines = list(noise.sentences("\n".join(read_lines(text))))
    else:
        lines = [line for line in read_lines(text) if line.strip()]
    if not lines:
        raise DataError(f"{text}: no sentence was found in it; without --sentences every line is used")
    return lines
