"""`stepedit tasks`: list the tasks."""

from __future__ import annotations

from dataclasses import fields

from rich.text import Text

from stepedit.cli.display import console, named, script_diff
from stepedit.registry import TASKS


def tasks() -> None:
    """List the tasks with their arguments, an example and the expert's edits."""
    out = console()
    for index, (name, kind) in enumerate(TASKS.items()):
        if index:
            out.print()
        source, target = kind.example_pair()
        task = kind.fitted([source], [target])
        pairs = task.encode([source], [target])
        edits = named(task.edits(pairs.sources, pairs.targets).row(0), task.vocabulary.name)
        args = [field for field in fields(kind) if field.name in kind.user_arg_names()]  # type: ignore[arg-type]
        out.print(Text.assemble((name, "bold"), f"  {kind.title}" if kind.title else ""))
        out.print(Text(f"  arguments  {', '.join(f'{arg.name}={arg.default}' for arg in args) or 'none'}"))
        out.print(Text(f"  action     ({', '.join(task.template.fields)})"))
        out.print(Text(f"  source     {source}\n  target     {target}"))
        for number, line in enumerate(script_diff(task.vocabulary.split(source), edits, task.vocabulary.separator)):
            out.print(Text("  edits      " if number == 0 else "             ").append_text(line))
