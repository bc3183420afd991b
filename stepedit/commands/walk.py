"""`stepedit walk`: the expert's edits on one example, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stepedit.commands.common import Length, Numbers, Options, Seed, TaskName, console, make_task, parsed
from stepedit.errors import UserError
from stepedit.registry import TASKS

if TYPE_CHECKING:
    import numpy as np

    from stepedit.sequences import Pairs
    from stepedit.tasks.task import Task

TRIES = 16


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
    from stepedit.sequences import Sequences

    setting = _setting(task, source, target, numbers, length, option)
    if source is not None and target is not None:
        pairs = setting.encode([source], [target])
    else:
        pairs = _example(setting, np.random.default_rng(seed))
    words = setting.vocabulary
    scripts = setting.edits(pairs.sources, pairs.targets)
    limit = int(scripts.counts[0]) + 1
    outcome = run(pairs.sources, expert(scripts, setting.template), setting.template, limit, trace=True)[0]
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


def _setting(
    task: str,
    source: str | None,
    target: str | None,
    numbers: int | None,
    length: int | None,
    option: list[str] | None,
) -> Task:
    """The task as the options describe it, or as a text of one's own needs it."""
    if (source is None) != (target is None):
        raise UserError("--source and --target belong together")
    if source is not None and target is not None and TASKS[task].learned:
        return TASKS[task].for_data([source], [target], parsed(option))
    if source is None or target is None or numbers or length or option:
        return make_task(task, numbers, length, option)
    return TASKS[task].fitted([source], [target])


def _example(setting: Task, rng: np.random.Generator) -> Pairs:
    """A pair drawn at random; one that needs an edit, if that can be had in a few tries."""
    for _ in range(TRIES):
        pairs = setting.generate(1, rng)
        if setting.edits(pairs.sources, pairs.targets).counts[0]:
            break
    return pairs
