"""`stepedit walk`: the expert's edits on one example, step by step."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from stepedit.commands.common import Length, Numbers, Options, Seed, TaskName, console, make_task
from stepedit.errors import UserError

LIMIT = 10_000
TRIES = 16  # examples drawn to find one that needs an edit


def walk(
    task: TaskName,
    source: Annotated[
        str | None, typer.Option(help="A text of your own, with --target.", show_default="drawn at random")
    ] = None,
    target: Annotated[str | None, typer.Option(help="What it should become.", show_default=False)] = None,
    numbers: Numbers = None,
    length: Length = None,
    seed: Seed = 0,
    option: Options = None,
) -> None:
    """Walk one example from source to target with the expert's actions, as a programmer has to say them.

    Example: stepedit walk aor --source "8 2 8 4 2" --target "- 8 * 2 / 8 + 4 == 2"
    """
    import numpy as np

    from stepedit.batches import expert
    from stepedit.display import aligned, step_diff
    from stepedit.interpreter import run
    from stepedit.registry import TASKS
    from stepedit.sequences import Sequences

    if (source is None) != (target is None):
        raise UserError("--source and --target belong together")
    if source is not None and target is not None:
        setting = TASKS[task].fitted([source], [target])
        pairs = setting.encode([source], [target])
    else:
        setting = make_task(task, numbers, length, option)
        pairs = setting.generate(TRIES, np.random.default_rng(seed))
        needs_edit = setting.edits(pairs.sources, pairs.targets).counts > 0
        pairs = pairs.take([int(needs_edit.argmax())])
    words = setting.vocabulary
    programmer = expert(setting.edits(pairs.sources, pairs.targets), setting.template)
    outcome = run(pairs.sources, programmer, setting.template, limit=LIMIT, trace=True)[0]
    rows: list[list[str | Text]] = [["step", "action", "text"], ["", "", words.decode(pairs.sources)[0]]]
    for number, step in enumerate(outcome.trace, start=1):
        rows.append([str(number), setting.template.text(step.action, words), step_diff(step, words)])
    if outcome.finished:
        rows.append([str(len(rows) - 1), setting.template.text(setting.template.done(), words), "the text is done"])
    result = Sequences.from_rows([outcome.tokens])
    right = bool(setting.check(pairs.sources, result)[0])
    out = console()
    out.print(aligned(rows))
    out.print(
        Text(f"\nresult: {words.text(outcome.tokens)}   ({'right' if right else 'wrong'}, told by the source alone)")
    )
