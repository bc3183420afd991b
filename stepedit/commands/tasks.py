"""`stepedit tasks`: what there is to learn."""

from __future__ import annotations

from dataclasses import fields

from rich.text import Text

from stepedit.commands.common import console
from stepedit.registry import TASKS


def tasks() -> None:
    """List the tasks, each with its options, an example and the expert's edits."""
    from stepedit.display import named, script_diff

    out = console()
    for index, (name, kind) in enumerate(TASKS.items()):
        if index:
            out.print()
        source, target = kind.example
        setting = kind.fitted([source], [target])
        pairs = setting.encode([source], [target])
        edits = named(setting.edits(pairs.sources, pairs.targets).row(0), setting.vocabulary.name)
        own = [field for field in fields(kind) if field.name not in kind.learned]  # type: ignore[arg-type]
        options = ", ".join(f"{field.name}={field.default}" for field in own)
        out.print(Text.assemble((name, "bold"), f"  {kind.title}"))
        out.print(Text(f"  options  {options}"))
        out.print(Text(f"  action   ({', '.join(setting.template.fields)})"))
        out.print(Text(f"  source   {source}\n  target   {target}"))
        for number, line in enumerate(script_diff(setting.vocabulary.split(source), edits, setting.vocabulary.glue)):
            out.print(Text("  edits    " if number == 0 else "           ").append_text(line))
