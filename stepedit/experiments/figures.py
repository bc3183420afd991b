"""The figures of a report: readable in print and by the colour-blind, told apart by marker as well as colour."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepedit.experiments.collection import Collection, Row, Setting
from stepedit.reference import line
from stepedit.registry import TASKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette
LOOKS = {"end2end": ("#0072B2", "s"), "tagging": ("#E69F00", "^"), "recurrence": ("#009E73", "o")}
TITLES = {
    "numbers": "N, different integers",
    "length": "L, integers in an equation",
    "size": "D, equations in the data",
}
MODES = ("offline", "online")


def look(method: str) -> dict[str, Any]:
    """How a method is drawn."""
    colour, marker = LOOKS.get(method, ("#555555", "D"))
    return {"color": colour, "marker": marker, "markersize": 5}


def panels(count: int, width: float = 3.6) -> tuple[Figure, Sequence[Axes]]:
    """Some panels in a row that share their vertical axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, 3.1), layout="constrained")
    places = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for place in places:
        tidy(place)
    return figure, places


def tidy(place: Axes) -> None:
    """Less ink."""
    place.spines[["top", "right"]].set_visible(False)
    place.grid(alpha=0.25)
    place.tick_params(labelsize=8)


def svg(figure: Figure) -> str:
    """The figure's drawing, to stand inside a page."""
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.hashsalt": "stepedit"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def along(collection: Collection, task: str, axis: str) -> Figure | None:
    """Accuracy along N, L or D, the paper's curves behind ours; None where fewer than two points of ours are there."""
    settings = line(task, axis)
    metric = TASKS[task].metrics[0]
    modes = [
        mode
        for mode in MODES
        if any(sum(bool(row.runs) for row in _points(collection, task, method, mode, settings)) > 1 for method in LOOKS)
    ]
    if not modes:
        return None
    figure, places = panels(len(modes))
    for place, mode in zip(places, modes, strict=True):
        for method in LOOKS:
            _draw_line(place, collection, task, method, mode, settings, axis)
        place.set_title(f"{task} {mode}")
        place.set_xlabel(TITLES[axis])
        place.set_xticks([setting[axis] for setting in settings])
        if axis == "size":
            place.set_xticklabels([f"{setting[axis] // 1000}k" for setting in settings])
    places[0].set_ylabel(f"{metric} accuracy on test, %")
    places[-1].legend(fontsize=7, frameon=False)
    return figure


def _points(collection: Collection, task: str, method: str, mode: str, settings: Sequence[dict[str, int]]) -> list[Row]:
    """A row for each setting, if any of them has a run."""
    rows = [
        collection.any_variant(Setting(task, method, mode, at["numbers"], at["length"], at["size"])) for at in settings
    ]
    return rows if any(row.runs for row in rows) else []


def _draw_line(
    place: Axes,
    collection: Collection,
    task: str,
    method: str,
    mode: str,
    settings: Sequence[dict[str, int]],
    axis: str,
) -> None:
    metric = TASKS[task].metrics[0]
    theirs = [Row(Setting(task, method, mode, at["numbers"], at["length"], at["size"]), ()).theirs for at in settings]
    at = [setting[axis] for setting, figures in zip(settings, theirs, strict=True) if figures]
    heights = [100 * figures.metrics[metric] for figures in theirs if figures]
    place.plot(at, heights, "--", alpha=0.45, linewidth=1.2, label=f"{method}, paper", **look(method))
    rows = _points(collection, task, method, mode, settings)
    if rows:
        xs = [getattr(row.setting, axis) for row in rows]
        gap = float("nan")  # where a run is missing, the line has one
        means = [gap if (mean := row.ours(metric)) is None else 100 * mean for row in rows]
        ends = [row.interval(metric) or (gap, gap) for row in rows]
        bars = [[y - 100 * low for y, (low, _) in zip(means, ends, strict=True)]]
        bars += [[100 * high - y for y, (_, high) in zip(means, ends, strict=True)]]
        place.errorbar(xs, means, yerr=bars, linewidth=1.8, capsize=2, label=_named(method, rows), **look(method))


def _named(method: str, rows: Sequence[Row]) -> str:
    """A method, with the options that it was not the default with."""
    variants = list(dict.fromkeys(row.setting.variant for row in rows if row.runs and row.setting.variant))
    return f"{method}, stepedit" + (f"\n({'; '.join(variants)})" if variants else "")


def curves(rows: Sequence[Row]) -> Figure | None:
    """Validation against time, a panel for each task, a line for each run."""
    tasks = list(dict.fromkeys(row.setting.task for row in rows if any(kept.curve for kept in row.runs)))
    if not tasks:
        return None
    figure, places = panels(len(tasks))
    for place, task in zip(places, tasks, strict=True):
        for row in (row for row in rows if row.setting.task == task and row.runs):
            curve = row.runs[0].curve
            style = {**look(row.setting.method), "markevery": max(1, len(curve) // 6)}
            place.plot(
                [point["seconds"] / 60 for point in curve],
                [100 * point["metrics"][row.headline] for point in curve],
                "-" if row.setting.mode != "offline" else ":",
                label=f"{row.setting.method} {row.setting.mode}",
                linewidth=1.6,
                **style,
            )
        place.set_title(f"{task}: {TASKS[task].metrics[0]} accuracy")
        place.set_xlabel("minutes of training")
    places[0].set_ylabel("on validation, %")
    names = {text: line for place in places for line, text in zip(*place.get_legend_handles_labels(), strict=True)}
    figure.legend(names.values(), names.keys(), loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    return figure


def times(rows: Sequence[Row]) -> Figure | None:
    """Minutes of training here beside the authors' time on a graphics card."""
    from matplotlib.figure import Figure

    there = [row for row in rows if row.runs and row.theirs]
    if not there:
        return None
    figure = Figure(figsize=(7.2, 0.9 + 0.24 * len(there)), layout="constrained")
    place = figure.subplots()
    tidy(place)
    for height, row in enumerate(reversed(there)):
        style = look(row.setting.method)
        ours, theirs = row.minutes or 0.0, row.theirs.gpu_hours * 60 if row.theirs else 0.0
        place.plot([ours, theirs], [height, height], color="#bbbbbb", linewidth=1, zorder=1)
        place.plot([ours], [height], linestyle="", **style)
        place.plot([theirs], [height], linestyle="", **{**style, "markerfacecolor": "white"})
    place.set_yticks(range(len(there)), [_label(row) for row in reversed(there)])
    place.set_ylim(-0.6, len(there) - 0.4)
    place.set_xscale("log")
    place.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    place.xaxis.set_minor_formatter(lambda value, _: "")
    place.set_xlabel("minutes of training; filled: here, on a CPU; hollow: the authors, on a graphics card")
    return figure


def _label(row: Row) -> str:
    return f"{row.setting.task} {row.setting.method} {row.setting.mode}"
