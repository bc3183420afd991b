"""A report on runs: a self-contained HTML page, or tables in Markdown or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from stepedit import __version__
from stepedit.editing.edits import replay
from stepedit.editing.trace import Step
from stepedit.errors import UserError
from stepedit.evaluation.paper import AXES
from stepedit.evaluation.scores import Example
from stepedit.experiments import figures
from stepedit.experiments.aggregate import Results, Row, main_settings, shown_metrics
from stepedit.experiments.grid import PAPER_TASKS
from stepedit.inference.model_folder import training_command
from stepedit.registry import TASKS

TITLE = "stepedit beside the paper"
MAIN, ONE = "The paper's main table", "The paper's main table, one network for the three methods"
SCORING_NOTE = (
    "The authors' scoring is shown where it gives another figure than ours: it cuts tags off after as many as the "
    "longest target of a batch has tokens, and counts a prediction that begins with its target."
)
CUT_NOTE = (
    "On AEC the authors' Tagging is cut off: right tags fail on about a fifth of the pairs, so the paper's figures "
    "would be some five points higher uncut. Ours are uncut."
)
LINES = "filled lines ours, dashed lines the paper's"
HEADS = [
    "task",
    "method and mode",
    "metric",
    "ours",
    "95 % interval, or range of seeds",
    "ours, authors' scoring",
    "paper",
    "difference",
    "minutes here",
]
HEADS += ["GPU hours, paper", "steps", "seeds"]
FIELDS = [
    "task",
    "method",
    "mode",
    "numbers",
    "length",
    "num_examples",
    "variant",
    "metric",
    "ours",
    "low",
    "high",
    "spread",
]
FIELDS += [
    "seeds",
    "authors_scoring",
    "paper",
    "minutes",
    "steps",
    "paper_gpu_hours",
    "paper_steps",
    "seed",
    "version",
    "command",
]


class NamedFigure(NamedTuple):
    """A figure with its name and its place in the page."""

    name: str  # of a file
    heading: str
    caption: str
    svg: str


def _need(what: str) -> None:
    if find_spec("matplotlib") is None or find_spec("jinja2") is None:
        raise UserError(f"{what} need matplotlib and jinja2: pip install 'stepedit[report]'")


def as_html(results: Results) -> str:
    """Return an HTML page."""
    _need("pages")
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("stepedit.experiments") / "report.html.j2").read_text(encoding="utf-8"))
    others = results.others()
    drawn = groupby(all_figures(results), key=attrgetter("heading"))
    return template.render(
        title=TITLE,
        version=__version__,
        heads=HEADS,
        main=ONE if results.one_network else MAIN,
        notes=_notes(results.table() + others),
        count=sum(len(row.runs) for row in results.rows.values()),
        problems=results.problems,
        table=_lines(results.table()),
        others=_lines(others),
        figures=[(heading, [(one.caption, one.svg) for one in part]) for heading, part in drawn],
        examples=[(_title(row), _shown(row)) for row in results.table() + others if row.runs],
    )


def all_figures(results: Results) -> list[NamedFigure]:
    """Return all figures that have data."""
    _need("figures")
    found = [
        (f"{task}-{axis}", "Along N, L and D", f"{task} along {figures.TITLES[axis]}: {LINES}", drawing)
        for task in PAPER_TASKS
        for axis in AXES
        if (drawing := figures.along(results, task, axis))
    ]
    table = results.table()
    if curves := figures.curves(table):
        found.append(("curves", "Training curves", "Validation while training; dotted lines are offline.", curves))
    found += [
        (f"{task}-paper-curves", "The authors' curves", f"{task}: validation; {LINES}", drawing)
        for task in PAPER_TASKS
        if (drawing := figures.beside_the_papers(results, task))
    ]
    if times := figures.times(results.beside_the_paper()):
        found.append(("times", "Time", "Time of training, on a logarithmic scale.", times))
    return [NamedFigure(name, heading, caption, figures.svg(drawing)) for name, heading, caption, drawing in found]


def _title(row: Row) -> str:
    at = row.setting
    where = f"N={at.numbers}, L={at.length}, D={at.num_examples:,}"
    return f"{at.task} {at.method} {at.mode} ({where}{', ' * bool(at.variant)}{at.variant})"


def _lines(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the lines of a table: one per metric that the paper reports."""
    lines, task = list[dict[str, Any]](), ""
    for row in rows:
        for number, metric in enumerate(shown_metrics(row)):
            lines.append(_line(row, metric, number == 0) | {"first": row.setting.task != task})
            task = row.setting.task
    return lines


def _line(row: Row, metric: str, head: bool) -> dict[str, Any]:
    at, ours, interval, theirs = row.setting, row.ours(metric), row.interval(metric), row.paper
    main = f"{at.method} {at.mode}"
    rest = [f"N={at.numbers} L={at.length} D={at.num_examples}"] * (at._replace(variant="") not in main_settings())
    value = theirs.metrics.get(metric) if theirs else None
    other = row.authors_scoring(metric) if theirs else None
    both = ours is not None and value is not None
    spread = row.spread(metric)
    return {
        "names": [at.task, ", ".join([main, *rest, *([at.variant] if at.variant else [])]), metric],
        "missing": ours is None,
        "ours": f"{100 * (ours or 0):.2f}" + (f" ± {100 * spread:.2f}" if spread is not None else ""),
        "interval": f"{100 * interval[0]:.2f} to {100 * interval[1]:.2f}" if interval else "",
        "authors": f"{100 * other:.2f}" if other is not None and f"{other:.4f}" != f"{ours:.4f}" else "",
        "theirs": f"{100 * value:.2f}" + "*" * _is_cut(row) if value is not None else "",
        "difference": f"{100 * ((ours or 0) - (value or 0)):+.2f}" if both else "",
        "side": ("ahead" if (ours or 0) >= (value or 0) else "behind") if both else "",
        "minutes": f"{row.minutes:.1f}" if head and row.minutes is not None else "",
        "gpu": f"{theirs.gpu_hours:.1f}" if head and theirs else "",
        "steps": f"{row.steps:,.0f}" if head and row.steps is not None else "",
        "seeds": str(len(row.runs)) if head and row.runs else "",
    }


def _is_cut(row: Row) -> bool:
    """Whether the authors' figure is one of outputs that are cut off."""
    return (row.setting.task, row.setting.method) == ("aec", "tagging")


def _notes(rows: Sequence[Row]) -> list[str]:
    """Return what a reader has to know about a table beside the paper's figures."""
    theirs = [row for row in rows if row.paper]
    scored = any(each.authors for row in theirs for each in row.runs)
    return [SCORING_NOTE] * scored + [f"* {CUT_NOTE}"] * any(map(_is_cut, theirs))


def _shown(row: Row) -> list[dict[str, Any]]:
    """Return the first correct and the first wrong example of a row's first run."""
    examples = row.runs[0].scores.examples
    chosen = [next((one for one in examples if one.correct == correct), None) for correct in (True, False)]
    return [_example(one, row.setting.task) for one in chosen if one]


def _example(example: Example, task: str) -> dict[str, Any]:
    states = replay(example.tokens, (step.edit for step in example.steps))
    steps = [_step(state, step, task) for state, step in zip(states, example.steps, strict=False)]
    return example.model_dump(exclude={"steps"}) | {"steps": steps}


def _step(state: Sequence[str], step: Step, task: str) -> dict[str, str]:
    """Return the text before a step, split where the step changes it."""
    confidence = f"(confidence {step.confidence:.0%})"
    separator = "" if TASKS[task].open_vocabulary else " "
    if step.position is None:
        return {
            "before": separator.join(state),
            "deleted": "",
            "inserted": "",
            "after": "",
            "note": f"skipped {confidence}",
        }
    before, after = state[: step.edit.start], state[step.edit.stop :]
    return {
        "before": separator.join([*before, ""]),
        "deleted": separator.join(step.deleted),
        "inserted": separator.join(step.inserted),
        "after": separator.join(["", *after]),
        "note": confidence,
    }


def as_markdown(results: Results) -> str:
    """Return the main table and the other rows in Markdown."""
    parts = [f"# {TITLE}", f"## {ONE if results.one_network else MAIN}", _markdown(_lines(results.table()))]
    if results.others():
        parts += ["## Other settings", _markdown(_lines(results.others()))]
    parts += [note.replace("*", "\\*") for note in _notes(results.table() + results.others())]
    if results.problems:
        parts += ["## Folders that could not be used", "\n".join(f"- {problem}" for problem in results.problems)]
    return "\n\n".join(parts) + "\n"


def _markdown(lines: Sequence[dict[str, Any]]) -> str:
    table = ["| " + " | ".join(HEADS) + " |", "|---|---|---|" + "---:|" * (len(HEADS) - 3)]
    for line in lines:
        cells = [*line["names"], "missing" if line["missing"] else line["ours"], line["interval"]]
        cells += [line[key] for key in ("authors", "theirs", "difference", "minutes", "gpu", "steps", "seeds")]
        table.append("| " + " | ".join(cells) + " |")
    return "\n".join(table)


def as_csv(results: Results) -> str:
    """Return one line per setting and metric; missing cells of the main table have empty values."""
    file = io.StringIO()
    writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in results.table() + results.others():
        for metric in TASKS[row.setting.task].metrics:
            writer.writerow(_record(row, metric))
    return file.getvalue()


def _record(row: Row, metric: str) -> dict[str, Any]:
    low, high = row.interval(metric) or ("", "")
    theirs = row.paper
    return row.setting._asdict() | {
        "metric": metric,
        "ours": row.ours(metric),
        "low": low,
        "high": high,
        "spread": row.spread(metric),
        "seeds": len(row.runs),
        "authors_scoring": row.authors_scoring(metric),
        "paper": theirs.metrics.get(metric) if theirs else None,
        "minutes": row.minutes,
        "steps": row.steps,
        "paper_gpu_hours": theirs.gpu_hours if theirs else None,
        "paper_steps": theirs.steps if theirs else None,
        "seed": " ".join(str(seed) for seed in sorted(each.run.seed for each in row.runs)),
        "version": row.runs[0].version if row.runs else None,
        "command": training_command(row.runs[0].run) if row.runs else None,
    }
