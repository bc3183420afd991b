"""`stepedit expert`: the expert's trajectory on one example, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stepedit.cli.arguments import Length, Numbers, Seed, TaskArgs, TaskName, make_task, parse_pairs
from stepedit.cli.display import aligned, console, step_diffs
from stepedit.errors import UserError
from stepedit.registry import TASKS

if TYPE_CHECKING:
    import numpy as np

    from stepedit.editing.sequences import Pairs
    from stepedit.tasks.base import Task

MAX_TRIES = 16


def expert(
    task: TaskName,
    source: Annotated[
        str | None, typer.Option(help="A source of your own, with --target.", show_default="random")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The target of --source.", show_default=False)] = None,
    numbers: Numbers = None,
    length: Length = None,
    seed: Seed = 0,
    task_arg: TaskArgs = None,
) -> None:
    """Show the expert's actions on one example: what a programmer is trained to predict.

    Example: stepedit expert aor --source "8 2 8 4 2" --target "- 8 * 2 / 8 + 4 == 2"
    """
    import numpy as np

    from stepedit.data.states import ExpertPolicy
    from stepedit.editing.sequences import Sequences
    from stepedit.editing.trace import named_step
    from stepedit.inference import greedy
    from stepedit.registry import METHODS

    setting = _setting(task, source, target, numbers, length, task_arg)
    if source is not None and target is not None:
        pairs = setting.encode([source], [target])
    else:
        pairs = _example(setting, np.random.default_rng(seed))
    vocabulary, template = setting.vocabulary, setting.template
    scripts = setting.edits(pairs.sources, pairs.targets)
    policy, method = ExpertPolicy(scripts, template), METHODS["recurrence"](setting)
    limit = int(scripts.counts[0]) + 1
    outcome = greedy.run(pairs.sources, policy.predict, method, trace=True, max_steps=limit)[0]
    rows: list[list[str | Text]] = [["step", "action", "text"], ["", "", vocabulary.decode(pairs.sources)[0]]]
    tokens = [vocabulary.name(token) for token in pairs.sources.rows()[0]]
    drawn = step_diffs(tokens, [named_step(applied, vocabulary) for applied in outcome.trace], vocabulary.separator)
    for number, (applied, text) in enumerate(zip(outcome.trace, drawn, strict=True), start=1):
        rows.append([str(number), template.format(applied.action, vocabulary.name), text])
    if outcome.finished:
        rows.append([str(len(rows) - 1), template.format(template.done(), vocabulary.name), "finished"])
    out = console()
    out.print(aligned(rows))
    valid = bool(setting.check(pairs.sources, Sequences.from_rows([outcome.tokens]))[0])
    verdict = f"   ({'valid' if valid else 'not valid'})" if setting.verifiable else ""
    out.print(Text(f"\nresult: {vocabulary.text(outcome.tokens)}{verdict}"))


def _setting(
    task: str,
    source: str | None,
    target: str | None,
    numbers: int | None,
    length: int | None,
    task_arg: list[str] | None,
) -> Task:
    """Return the task with the given arguments, or fitted to the given texts."""
    if (source is None) != (target is None):
        raise UserError("--source and --target belong together")
    if source is not None and target is not None and TASKS[task].open_vocabulary:
        return TASKS[task].for_data([source], [target], parse_pairs(task_arg))
    if source is None or target is None or numbers or length or task_arg:
        return make_task(task, numbers, length, task_arg)
    return TASKS[task].fitted([source], [target])


def _example(setting: Task, rng: np.random.Generator) -> Pairs:
    """Return a random pair, if possible one that needs an edit."""
    for _ in range(MAX_TRIES):
        pairs = setting.generate(1, rng)
        if setting.edits(pairs.sources, pairs.targets).counts[0]:
            break
    return pairs
