"""`stepedit export`: a small copy of a model, to share or to deploy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from stepedit.cli.arguments import RunFolder
from stepedit.cli.display import console
from stepedit.errors import UserError
from stepedit.registry import did_you_mean

DTYPES = ("float16", "float32", "int8")


def export(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="Folder to be created.", show_default=False)],
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(DTYPES),
            help="Number format of the weights; int8 also computes with 8-bit integers: smaller and faster, but some "
            "texts differ.",
            show_default="float16",
        ),
    ] = None,
) -> None:
    """Copy what editing needs of a run: an ONNX graph, vocabulary and model card. It edits without PyTorch.

    Example: stepedit export runs/aor --out aor && stepedit edit aor "6 10 9 5 2"
    """
    from stepedit.inference import model_folder

    if dtype not in (None, *DTYPES):
        raise UserError(did_you_mean("dtype", dtype, DTYPES))
    folder = model_folder.find(run)
    size = model_folder.export(folder, out, dtype)
    console().print(Text(f"{out}: {size / 1e6:.2f} MB"))
