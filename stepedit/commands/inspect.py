"""`stepedit inspect`: what is in a data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stepedit.commands.common import console
from stepedit.display import QUIET, aligned, named, plain, script_diff
from stepedit.edits import script
from stepedit.errors import located

if TYPE_CHECKING:
    from stepedit.datasets import Lines
    from stepedit.tasks.task import Task

MOST_COLUMNS = 12
LONGEST_DRAWN = 1_000  # tokens


def inspect(
    path: Annotated[Path, typer.Argument(help="A folder of splits, or a .tsv, .csv or .jsonl of pairs.")],
    task: Annotated[
        str | None, typer.Option(help="Read the edits as this task's.", show_default="what dataset.json says")
    ] = None,
    pairs: Annotated[int, typer.Option(min=0, help="How many pairs to show.")] = 3,
    source: Annotated[str | None, typer.Option(help="Column of the source.", show_default="source")] = None,
    target: Annotated[str | None, typer.Option(help="Column of the target.", show_default="target")] = None,
) -> None:
    """Show a data set: sizes, lengths, vocabulary, edits per pair, and a few pairs with their edits drawn in.

    Without a task, the edits are the fewest insertions, deletions and substitutions of tokens.
    """
    from stepedit import datasets

    dataset = datasets.read(path, source, target)
    with located(str(path)):
        setting = datasets.task_of(dataset, task)
    counts = {name: _edit_counts(lines, setting) for name, lines in dataset.splits.items()}
    out = console()
    edits = f"the edits of task {setting.name}" if setting else "the fewest insertions, deletions and substitutions"
    out.print(Text(f"{path}, with {edits}\n"))
    out.print(_sizes(dataset.splits, counts))
    out.print(Text("\nshare of pairs by number of edits"))
    out.print(_histogram(counts))
    out.print(_vocabulary(dataset.splits))
    lines = next(iter(dataset.splits.values()))
    for source_line, target_line in list(zip(lines.sources, lines.targets, strict=True))[:pairs]:
        out.print()
        out.print(_drawn(source_line, target_line, setting))


def _edit_counts(lines: Lines, setting: Task | None) -> list[int]:
    if setting is None:
        from rapidfuzz.distance import Levenshtein

        return [Levenshtein.distance(x.split(), y.split()) for x, y in zip(lines.sources, lines.targets, strict=True)]
    pairs = lines.encode(setting)
    with lines.located():
        return setting.edits(pairs.sources, pairs.targets).counts.tolist()


def _sizes(splits: dict[str, Lines], counts: dict[str, list[int]]) -> Text:
    rows = [["split", "pairs", "source length", "target length", "need no edit", "edits per pair"]]
    for name, lines in splits.items():
        unchanged = counts[name].count(0)
        rows.append(
            [
                name,
                f"{len(lines):,}",
                _spread([len(line.split()) for line in lines.sources]),
                _spread([len(line.split()) for line in lines.targets]),
                f"{unchanged:,} ({unchanged / len(lines):.1%})",
                _spread(counts[name]),
            ]
        )
    return aligned(rows)


def _spread(values: Sequence[int]) -> str:
    return f"{min(values)} to {max(values)}, mean {sum(values) / len(values):.1f}"


def _histogram(counts: dict[str, list[int]]) -> Text:
    numbers = sorted({number for values in counts.values() for number in values})
    shown = numbers[:MOST_COLUMNS]
    rest = [f"over {shown[-1]}"] if len(numbers) > len(shown) else []
    rows = [["split", *map(str, shown), *rest]]
    for name, values in counts.items():
        tally = Counter(values)
        shares = [tally[number] / len(values) for number in shown]
        rows.append([name, *(f"{share:.1%}" for share in (*shares, *([1 - sum(shares)] if rest else [])))])
    return aligned(rows)


def _vocabulary(splits: dict[str, Lines]) -> Text:
    texts = (line for lines in splits.values() for side in (lines.sources, lines.targets) for line in side)
    words = Counter(word for line in texts for word in line.split())
    common = "  ".join(f"{word} ({count:,})" for word, count in words.most_common(MOST_COLUMNS))
    return Text("\n") + plain(f"vocabulary: {len(words):,} tokens, the most frequent first: {common}")


def _drawn(source: str, target: str, setting: Task | None) -> Text:
    """A pair, and its edits drawn into it."""
    words = max(len(source.split()), len(target.split()))
    if words > LONGEST_DRAWN:
        return plain(f"a pair of up to {words:,} tokens, too long to draw")
    if setting is None:
        parts, glue = source.split(), " "
        edits = script(parts, target.split())
    else:
        pairs, parts, glue = (
            setting.encode([source], [target]),
            setting.vocabulary.split(source),
            setting.vocabulary.glue,
        )
        edits = named(setting.edits(pairs.sources, pairs.targets).row(0), setting.vocabulary.name)
    lines = script_diff(parts, edits, glue) if edits else [Text("none", QUIET)]
    rows: list[list[str | Text]] = [["source", source], ["target", target]]
    rows += [["edits" if line is lines[0] else "", line] for line in lines]
    return aligned(rows, heading=False)
