"""`stepedit export`: a run made small, to share or to ship."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stepedit.commands.common import console
from stepedit.errors import DataError


def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    out: Annotated[Path, typer.Option(help="The folder to be made.", show_default=False)],
    half: Annotated[bool, typer.Option("--half/--full", help="Weights in half precision, or as they are.")] = True,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="ONNX graphs instead of weights, run by onnxruntime; needs the extra [onnx].")
    ] = False,
) -> None:
    """Copy what editing needs of a run: its best weights, its words, its card. No optimiser, no checkpoint.

    Example: stepedit export runs/aor --out aor && stepedit edit aor "6 10 9 5 2"
    """
    from stepedit import checkpoints

    run = checkpoints.find(run)
    if out.exists():
        raise DataError(f"{out} exists already; choose another folder")
    if onnx:
        from stepedit.editor import Editor

        Editor.load(run).export_onnx(out)
        size = sum(file.stat().st_size for file in out.iterdir())
    else:
        size = checkpoints.export(run, out, half)
    console().print(Text(f"{out}: {size / 1e6:.2f} MB"))
