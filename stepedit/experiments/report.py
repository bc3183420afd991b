"""A report over runs: one page that needs nothing else, or a table in Markdown or CSV."""

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
from stepedit.errors import UserError
from stepedit.experiments import figures
from stepedit.experiments.collection import Collection, Row, main_settings, shown_metrics
from stepedit.experiments.grid import PAPER
from stepedit.reference import AXES
from stepedit.registry import TASKS
from stepedit.results import Example, Taken

TITLE = "stepedit beside the paper"
LINES = "filled lines ours, dashed lines the paper's"
HEADS = ["task", "method and mode", "metric", "ours", "95 % interval", "paper", "difference", "minutes here"]
HEADS += ["GPU hours, paper", "steps", "seeds"]
FIELDS = ["task", "method", "mode", "numbers", "length", "size", "variant", "metric", "ours", "low", "high", "spread"]
FIELDS += ["seeds", "paper", "minutes", "steps", "paper_gpu_hours", "paper_steps"]


class Drawing(NamedTuple):
    """A figure, with where it belongs."""

    name: str  # of a file
    heading: str
    caption: str
    svg: str


def _need(what: str) -> None:
    if find_spec("matplotlib") is None or find_spec("jinja2") is None:
        raise UserError(f"{what} need matplotlib and jinja2: pip install 'stepedit[report]'")


def as_html(collection: Collection) -> str:
    """The page."""
    _need("pages")
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("stepedit.experiments") / "report.html.j2").read_text(encoding="utf-8"))
    others = collection.others()
    drawn = groupby(drawings(collection), key=attrgetter("heading"))
    return template.render(
        title=TITLE,
        version=__version__,
        heads=HEADS,
        count=sum(len(row.runs) for row in collection.rows.values()),
        problems=collection.problems,
        table=_lines(collection.table()),
        others=_lines(others),
        figures=[(heading, [(one.caption, one.svg) for one in part]) for heading, part in drawn],
        examples=[(_title(row), _shown(row)) for row in collection.table() + others if row.runs],
    )


def drawings(collection: Collection) -> list[Drawing]:
    """All figures that there is something to draw in."""
    _need("figures")
    found = [
        (f"{task}-{axis}", "Along N, L and D", f"{task} along {figures.TITLES[axis]}: {LINES}", drawing)
        for task in PAPER
        for axis in AXES
        if (drawing := figures.along(collection, task, axis))
    ]
    table = collection.table()
    if curves := figures.curves(table):
        found.append(("curves", "Training curves", "Validation while training; dotted lines are offline.", curves))
    if times := figures.times(table):
        found.append(("times", "Time", "Time of training, on a logarithmic scale.", times))
    return [Drawing(name, heading, caption, figures.svg(drawing)) for name, heading, caption, drawing in found]


def _title(row: Row) -> str:
    at = row.setting
    where = f"N={at.numbers}, L={at.length}, D={at.size:,}"
    return f"{at.task} {at.method} {at.mode} ({where}{', ' * bool(at.variant)}{at.variant})"


def _lines(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as a table shows them: one line for each figure that the paper reports."""
    lines, task = list[dict[str, Any]](), ""
    for row in rows:
        for number, metric in enumerate(shown_metrics(row)):
            lines.append(_line(row, metric, number == 0) | {"first": row.setting.task != task})
            task = row.setting.task
    return lines


def _line(row: Row, metric: str, head: bool) -> dict[str, Any]:
    at, ours, interval, theirs = row.setting, row.ours(metric), row.interval(metric), row.theirs
    main = f"{at.method} {at.mode}"
    rest = [f"N={at.numbers} L={at.length} D={at.size}"] if at not in main_settings() else []
    value = theirs.metrics.get(metric) if theirs else None
    both = ours is not None and value is not None
    spread = row.spread(metric)
    return {
        "names": [at.task, ", ".join([main, *rest, *([at.variant] if at.variant else [])]), metric],
        "missing": ours is None,
        "ours": f"{100 * (ours or 0):.2f}" + (f" ± {100 * spread:.2f}" if spread is not None else ""),
        "interval": f"{100 * interval[0]:.2f} to {100 * interval[1]:.2f}" if interval else "",
        "theirs": f"{100 * value:.2f}" if value is not None else "",
        "difference": f"{100 * ((ours or 0) - (value or 0)):+.2f}" if both else "",
        "side": ("ahead" if (ours or 0) >= (value or 0) else "behind") if both else "",
        "minutes": f"{row.minutes:.1f}" if head and row.minutes is not None else "",
        "gpu": f"{theirs.gpu_hours:.1f}" if head and theirs else "",
        "steps": f"{row.steps:,.0f}" if head and row.steps is not None else "",
        "seeds": str(len(row.runs)) if head and row.runs else "",
    }


def _shown(row: Row) -> list[dict[str, Any]]:
    """The first right and the first wrong example of a row's first run."""
    examples = row.runs[0].result.examples
    chosen = [next((one for one in examples if one.right == right), None) for right in (True, False)]
    return [_example(one, row.setting.task) for one in chosen if one]


def _example(example: Example, task: str) -> dict[str, Any]:
    return example.model_dump(exclude={"steps"}) | {"steps": [_step(step, task) for step in example.steps]}


def _step(step: Taken, task: str) -> dict[str, str]:
    """The text after a step, cut where the step changed it."""
    sure = f"({step.confidence:.0%} sure)"
    if step.position is None:
        return {"before": step.text, "gone": "", "new": "", "after": "", "note": f"skipped {sure}"}
    before, after = step.tokens[: step.position], step.tokens[step.position + len(step.came) :]
    glue = "" if TASKS[task].learned else " "
    return {
        "before": glue.join([*before, ""]),
        "gone": glue.join(step.gone),
        "new": glue.join(step.came),
        "after": glue.join(["", *after]),
        "note": sure,
    }


def as_markdown(collection: Collection) -> str:
    """The main table and what else there is."""
    parts = [f"# {TITLE}", _markdown(_lines(collection.table()))]
    if collection.others():
        parts += ["## Other settings", _markdown(_lines(collection.others()))]
    if collection.problems:
        parts += ["## Folders that could not be used", "\n".join(f"- {problem}" for problem in collection.problems)]
    return "\n\n".join(parts) + "\n"


def _markdown(lines: Sequence[dict[str, Any]]) -> str:
    table = ["| " + " | ".join(HEADS) + " |", "|---|---|---|" + "---:|" * (len(HEADS) - 3)]
    for line in lines:
        cells = [*line["names"], "missing" if line["missing"] else line["ours"], line["interval"]]
        cells += [line[key] for key in ("theirs", "difference", "minutes", "gpu", "steps", "seeds")]
        table.append("| " + " | ".join(cells) + " |")
    return "\n".join(table)


def as_csv(collection: Collection) -> str:
    """A line for each setting and metric, the missing cells of the main table with empty figures."""
    file = io.StringIO()
    writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in collection.table() + collection.others():
        for metric in TASKS[row.setting.task].metrics:
            writer.writerow(_record(row, metric))
    return file.getvalue()


def _record(row: Row, metric: str) -> dict[str, Any]:
    low, high = row.interval(metric) or ("", "")
    theirs = row.theirs
    return row.setting._asdict() | {
        "metric": metric,
        "ours": row.ours(metric),
        "low": low,
        "high": high,
        "spread": row.spread(metric),
        "seeds": len(row.runs),
        "paper": theirs.metrics.get(metric) if theirs else None,
        "minutes": row.minutes,
        "steps": row.steps,
        "paper_gpu_hours": theirs.gpu_hours if theirs else None,
        "paper_steps": theirs.steps if theirs else None,
    }
