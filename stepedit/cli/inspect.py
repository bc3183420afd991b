"""`stepedit inspect`: describe a data set."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stepedit.cli.display import DIM, aligned, console, expressible_shares, named, plain, script_diff
from stepedit.editing.alignment import script
from stepedit.errors import DataError, DataWarning, located
from stepedit.text import tokenization

if TYPE_CHECKING:
    from stepedit.data.readers import Lines
    from stepedit.tasks.base import Task

MAX_COLUMNS = 12
MAX_DRAWN = 1_000  # tokens


def inspect(
    path: Annotated[Path, typer.Argument(help="Folder of splits, or a .tsv, .csv, .jsonl or .m2 file of pairs.")],
    task: Annotated[
        str | None, typer.Option(help="Use the edits of this task.", show_default="the task in dataset.json")
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(metavar="word|char", help="Use the edits of your own text, by word or by character."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=0, help="Number of pairs to show.")] = 3,
    source_column: Annotated[str | None, typer.Option(help="Name of the source column.", show_default="source")] = None,
    target_column: Annotated[str | None, typer.Option(help="Name of the target column.", show_default="target")] = None,
    target_file: Annotated[
        list[Path] | None,
        typer.Option(help="File of targets, if PATH is a file of sources only; repeated: several references."),
    ] = None,
    strip: Annotated[bool, typer.Option(help="Remove white space at both ends of texts.")] = False,
) -> None:
    """Describe a data set: sizes, lengths, vocabulary, edits per pair, and a few pairs with their edits marked.

    Without a task, tokens are words and punctuation marks, each with the space before it, and the edits are a shortest
    script of insertions, deletions and substitutions of tokens. Each reference of a source is a pair.

    With --level, the edits are those that `train --level` learns from the same pairs, and the share of the pairs that
    they can express is shown, with and without affix rules.
    """
    from stepedit.data import dataset as datasets
    from stepedit.inference import model_folder

    if (path / model_folder.CONFIG).exists():
        model_folder.require_model(path)
        data = model_folder.read_config(path).data or "generated"
        raise DataError(f"{path} is a run, not a data set; its data: {data}")
    dataset = datasets.read(path, source_column, target_column, target_file or (), strip)
    with located(str(path)):
        setting = datasets.task_for(dataset, "text", {"level": level}) if level else datasets.task_of(dataset, task)
    if path.is_dir() and (message := datasets.overlap_warning(dataset, setting is None or setting.open_vocabulary)):
        warnings.warn(message, DataWarning, stacklevel=2)
    counts = {name: _edit_counts(lines, setting) for name, lines in dataset.splits.items()}
    out = console()
    edits = f"the edits of task {setting.name}" if setting else "shortest edit scripts"
    out.print(Text(f"{path}, with {edits}\n"))
    out.print(_sizes(dataset.splits, counts, setting))
    out.print(Text("\nshare of pairs by number of edits"))
    out.print(_histogram(counts))
    out.print(_vocabulary(dataset.splits, setting))
    if setting and setting.open_vocabulary:
        out.print(_expressible(dataset.splits, setting))
    lines = next(iter(dataset.splits.values()))
    for source_line, target_line in list(zip(lines.sources, lines.targets, strict=True))[:pairs]:
        out.print()
        out.print(_drawn(source_line, target_line, setting))


def _edit_counts(lines: Lines, setting: Task | None) -> list[int]:
    if setting is None:
        from rapidfuzz.distance import Levenshtein

        sides = (map(tokenization.words_and_marks, side) for side in (lines.sources, lines.targets))
        return [Levenshtein.distance(source, target) for source, target in zip(*sides, strict=True)]
    pairs = lines.encode(setting, whole=True)
    with lines.located():
        return setting.edits(pairs.sources, pairs.targets).counts.tolist()


def _tokens(text: str, setting: Task | None) -> list[str]:
    """Return the tokens of a text: the task's, or words and marks."""
    return setting.vocabulary.split(text) if setting else tokenization.words_and_marks(text)


def _sizes(splits: dict[str, Lines], counts: dict[str, list[int]], setting: Task | None) -> Text:
    several = any(lines.groups for lines in splits.values())
    rows = [
        ["split", *["texts"] * several, "pairs", "source tokens", "target tokens", "need no edit", "edits per pair"]
    ]
    for name, lines in splits.items():
        unchanged = counts[name].count(0)
        rows.append(
            [
                name,
                *[f"{len(lines.texts()):,}"] * several,
                f"{len(lines):,}",
                _spread([len(_tokens(line, setting)) for line in lines.sources]),
                _spread([len(_tokens(line, setting)) for line in lines.targets]),
                f"{unchanged:,} ({unchanged / len(lines):.1%})",
                _spread(counts[name]),
            ]
        )
    return aligned(rows)


def _spread(values: Sequence[int]) -> str:
    return f"{min(values)} to {max(values)}, mean {sum(values) / len(values):.1f}"


def _histogram(counts: dict[str, list[int]]) -> Text:
    numbers = sorted({number for values in counts.values() for number in values})
    shown = numbers[:MAX_COLUMNS]
    rest = [f"over {shown[-1]}"] if len(numbers) > len(shown) else []
    rows = [["split", *map(str, shown), *rest]]
    for name, values in counts.items():
        tally = Counter(values)
        shares = [tally[number] / len(values) for number in shown]
        rows.append([name, *(f"{share:.1%}" for share in (*shares, *([1 - sum(shares)] if rest else [])))])
    return aligned(rows)


def _vocabulary(splits: dict[str, Lines], setting: Task | None) -> Text:
    texts = (line for lines in splits.values() for side in (lines.sources, lines.targets) for line in side)
    words = Counter(token.strip() or repr(token) for line in texts for token in _tokens(line, setting))
    common = "  ".join(f"{word} ({count:,})" for word, count in words.most_common(MAX_COLUMNS))
    return Text("\n") + plain(f"vocabulary: {len(words):,} tokens, most frequent: {common}")


def _expressible(splits: dict[str, Lines], setting: Task) -> Text:
    """Return how many pairs the edits of your own text can express."""
    lines = next(iter(splits.values()))
    pairs = lines.encode(setting)
    scripts = setting.edits(pairs.sources, pairs.targets)
    other = setting.expressible_without_forms(pairs, scripts)
    counts = int(setting.expressible(pairs, scripts).sum()), None if other is None else int(other.sum())
    size = f"known tokens: {len(setting.vocabulary) - 1:,}, insertable: {len(setting.template.tokens):,}"
    shares = expressible_shares(len(pairs), *counts, setting)
    return Text("\n").join(map(plain, [size, *shares.splitlines()]))


def _drawn(source: str, target: str, setting: Task | None) -> Text:
    """Return a pair with its edits marked."""
    parts, separator = _tokens(source, setting), setting.vocabulary.separator if setting else ""
    size = max(len(parts), len(_tokens(target, setting)))
    if size > MAX_DRAWN:
        return plain(f"a pair of up to {size:,} tokens, too long to show")
    if setting is None:
        edits = script(parts, tokenization.words_and_marks(target))
    else:
        pairs = setting.encode([source], [target], whole=True)
        edits = named(setting.edits(pairs.sources, pairs.targets).row(0), setting.vocabulary.name)
    lines = script_diff(parts, edits, separator) if edits else [Text("none", DIM)]
    rows: list[list[str | Text]] = [["source", source], ["target", target]]
    rows += [["edits" if line is lines[0] else "", line] for line in lines]
    return aligned(rows, heading=False)
