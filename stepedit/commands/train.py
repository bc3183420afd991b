"""`stepedit train`: teach a programmer."""

from __future__ import annotations

import inspect as signatures
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, get_args

import typer

from stepedit.commands.common import Length, Numbers, Options, parsed, progress_bar
from stepedit.commands.watch import make_board, need_tensorboard, watched
from stepedit.config import PRESETS
from stepedit.config import Options as Teaching
from stepedit.errors import DataError
from stepedit.registry import METHODS, TASKS


def with_teaching(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one more option for each way of teaching, its help and defaults read from the presets."""
    signature = signatures.signature(command, eval_str=True)  # typer does not look into strings here
    kept = [part for part in signature.parameters.values() if part.kind is not part.VAR_KEYWORD]
    for name, field in Teaching.model_fields.items():
        usual = "auto" if field.default is None else str(field.default)
        others = [f"{preset}: {chosen[name]}" for preset, chosen in PRESETS.items() if name in chosen]
        defaults = "; ".join([usual, *others])
        names = [str(value) for value in get_args(field.annotation) if isinstance(value, str)]
        option = typer.Option(
            f"--{name.replace('_', '-')}",
            help=field.description,
            show_default=defaults,
            metavar="|".join(names) or "VALUE",
        )
        kind = Annotated[str | None, option]
        kept.append(signatures.Parameter(name, signatures.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
        command.__annotations__[name] = kind
    command.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return command


@with_teaching
def train(
    task: Annotated[str | None, typer.Argument(help=f"The task: {', '.join(TASKS)}.", show_default=False)] = None,
    *,
    out: Annotated[Path, typer.Option(help="The run's folder, to be made.", show_default=False)],
    method: Annotated[str | None, typer.Option(help=f"One of {', '.join(METHODS)}.", show_default="recurrence")] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            show_default="online",
            help="offline: sources; online: any state on the way; augmented: any edits made already; "
            "self-taught: so, and own answers to fresh sources that the task's check accepts.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="A folder of splits, or a .tsv, .csv or .jsonl of pairs, or - for a TSV on standard input.",
            show_default="made anew",
        ),
    ] = None,
    targets: Annotated[
        Path | None,
        typer.Option(help="The targets, if --data is a file of sources only, line beside line.", show_default=False),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Column of the source.", show_default="source")] = None,
    target: Annotated[str | None, typer.Option(help="Column of the target.", show_default="target")] = None,
    level: Annotated[
        str | None, typer.Option(help="Your own text, by word or by char(acter).", show_default="char")
    ] = None,
    numbers: Numbers = None,
    length: Length = None,
    size: Annotated[
        int | None, typer.Option(help="D, how many distinct targets, over all splits.", show_default="10000")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same run.", show_default="0")] = None,
    option: Options = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="fast; small: a smaller net, less good and quicker; paper: the paper's net and training. "
            "They set the defaults of the options below.",
            show_default="fast",
        ),
    ] = None,
    max_epochs: Annotated[int | None, typer.Option(min=1, help="Stop then.", show_default="no limit")] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="A budget that the length and the learning rate are fitted to.",
            show_default="30, if no --max-epochs",
        ),
    ] = None,
    validate_every: Annotated[
        int | None,
        typer.Option(
            min=1, help="Epochs between validations.", show_default="40 in a run, fewer where minutes are short"
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads to use.", show_default="all cores; with --max-minutes one, where that is faster"
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where the net lives: cpu, cuda, cuda:1, mps.", show_default="cpu")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write to OUT/tensorboard, too; needs the extra [track].")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML or JSON file with any of these options; those said here win.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    **teaching: str | None,
) -> None:
    """Teach a programmer, and keep the weights that do best on validation.

    Example: stepedit train aor --method recurrence --mode online --numbers 10 --length 5 --size 10000 --out runs/aor

    Your own pairs: stepedit train --data pairs.tsv --level word --out runs/mine

    Several processes share each batch under torchrun: torchrun --nproc-per-node 2 -m stepedit train aor --out runs/aor
    """
    import torch

    from stepedit import checkpoints
    from stepedit.runs import Wanted, make_trainer, read_values, wanted

    if tensorboard:
        need_tensorboard()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # started by torchrun
        torch.distributed.init_process_group("gloo")
    if resume:
        asked = Wanted(checkpoints.read_run(out))
    else:
        _must_be_new(out)
        what = {"task": task, "method": method, "mode": mode, "preset": preset, "size": size, "seed": seed}
        what |= {"numbers": numbers, "length": length, "level": level}
        what |= {"data": _kept(data, out), "targets": str(targets) if targets else None}
        what |= {"source": source, "target": target}
        limits = {"max_epochs": max_epochs, "max_minutes": max_minutes, "validate_every": validate_every}
        said = what | limits | parsed(option) | teaching | {"threads": threads, "device": device}
        known = read_values(config) if config else {}
        asked = wanted(known | {name: value for name, value in said.items() if value is not None})
    with progress_bar(f"{asked.run.task}: drawing targets") as progress:
        trainer = make_trainer(asked, out, progress, begun=resume)
    with checkpoints.locked(out) if trainer.rank == 0 else nullcontext():
        if resume:
            trainer.resume()
        else:
            trainer.begin()
        watched(trainer, out, make_board(out, trainer.standing.step) if tensorboard and trainer.rank == 0 else None)


def _kept(data: str | None, out: Path) -> str | None:
    """Where the data are; what comes on standard input is kept in the run's folder, because it is needed again."""
    if data != "-":
        return data
    from stepedit.checkpoints import PAIRS, write_whole

    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / PAIRS, sys.stdin.buffer.read())
    return str(out / PAIRS)


def _must_be_new(out: Path) -> None:
    from stepedit.checkpoints import LOCK, PAIRS

    if out.exists() and any(path.name not in (LOCK, PAIRS) for path in out.iterdir()):
        raise DataError(f"{out} exists already; choose another folder, or --resume to go on with the run in it")
